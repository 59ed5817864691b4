"""A place in a document that a person wants to see, and where it stands in a page's text. Pure."""

import re
from dataclasses import dataclass

from unabridged.app.events import Citation


@dataclass(frozen=True)
class Place:
    """A page, with the passage (`start`, `end`, `quote`) or the `words` to be marked on it."""

    document_id: int
    path: str
    page: int = 1
    quote: str = ""
    start: int = -1
    end: int = -1
    words: tuple[str, ...] = ()
    why: str = ""  # "[2]": what led here

    @classmethod
    def of(cls, citation: Citation) -> "Place":
        """Where a citation points."""
        return cls(
            document_id=citation.document_id,
            path=citation.document,
            page=citation.page,
            quote=citation.quote,
            start=citation.start,
            end=citation.end,
            why=f"[{citation.n}]",
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """What to mark in the page's text. A passage that moved since is looked for; empty when it is gone."""
        if self.quote:
            if text[self.start : self.end] == self.quote:
                return [(self.start, self.end)]
            at = text.find(self.quote)
            return [(at, at + len(self.quote))] if at >= 0 else []
        if 0 <= self.start < self.end <= len(text):
            return [(self.start, self.end)]
        if not self.words:
            return []
        return [match.span() for match in re.finditer("|".join(map(re.escape, self.words)), text, re.IGNORECASE)]
