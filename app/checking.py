"""From what the engine said to checked text: which pages were in view, where attention looked, what supports what.

Blocking: pages are read from the library. Of a large context only the pages that can matter are looked at: those that
attention weighed most and those that share words with the answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from unabridged.app.citations import Cited, cite, unmarked
from unabridged.app.context import Layout, display_name
from unabridged.app.quotes import quotations
from unabridged.app.sentences import answer_sentences
from unabridged.app.sources import Look, Source
from unabridged.ingest.errors import DocumentNotFound

if TYPE_CHECKING:
    from unabridged.engine.events import Token
    from unabridged.ingest.library import Library

# The witness reports chunks of this many tokens.
_CHUNK = 16
_ALL_PAGES = 48
_MOST_LOOKED = 24
_PER_SENTENCE = 4
_SENTENCES = 24

_SENTENCE_ENDS = ".!?\n。！？"
_REPEATED_WORDS = 3

PageKey = tuple[int, int]


class Said:
    """The answer as it grows, with where attention looked."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._repeated_at: int | None = None
        self.attended: list[tuple[int, int, tuple[tuple[int, float], ...]]] = []

    @property
    def text(self) -> str:
        """All that was said, without the space around it and without the sentence that was said again."""
        return "".join(self._parts)[: self._repeated_at].rstrip()

    @property
    def repeats(self) -> bool:
        """Whether the last sentence was said before, word for word: small models go on like that until they are cut."""
        return self._repeated_at is not None

    def add(self, token: "Token") -> str:
        """Take a token in; returns what is new for people to see."""
        text = token.text if self._parts else token.text.lstrip()
        if text:
            self._parts.append(text)
            self.attended.append((self._length, self._length + len(text), token.attended))
            self._length += len(text)
            if any(char in _SENTENCE_ENDS for char in text):
                self._look_for_repetition()
        return text

    def _look_for_repetition(self) -> None:
        text = "".join(self._parts)
        spans = [
            span for span in answer_sentences(text) if text[span[1] - 1] in _SENTENCE_ENDS or "\n" in text[span[1] :]
        ]
        if len(spans) < 2 or self._repeated_at is not None:
            return
        *earlier, last = ([*text[start:end].split()] for start, end in spans)
        if len(last) >= _REPEATED_WORDS and last in earlier:
            self._repeated_at = spans[-1][0]


def check(
    said: Said, question: str, layout: Layout, library: "Library", collection: str, *, bare: bool = False
) -> Cited:
    """The answer with its marks. One given without documents (`bare`) has none."""
    if bare:
        return unmarked(said.text)
    looks = list(_looks(said, layout))
    visible = _visible(layout)
    wanted = _wanted(said.text, looks, visible, library, collection)
    return cite(said.text, question, list(_sources(wanted, visible, layout, library)), looks)


def _looks(said: Said, layout: Layout) -> Iterator[Look]:
    for start, end, attended in said.attended:
        for position, share in attended:
            for place in layout.places(position, _CHUNK):
                yield Look(start, end, place.document_id, place.page, place.start, place.end, share)


def _visible(layout: Layout) -> dict[PageKey, list[tuple[int, int]]]:
    """The characters of each page that are in context, in the context's order."""
    visible: dict[PageKey, list[tuple[int, int]]] = {}
    for section in layout.sections:
        for piece in section.pieces:
            span = piece.characters(piece.at, piece.end)
            visible.setdefault((section.document.id, piece.page), []).append(span)
    return visible


def _wanted(
    text: str,
    looks: Iterable[Look],
    visible: dict[PageKey, list[tuple[int, int]]],
    library: "Library",
    collection: str,
) -> list[PageKey]:
    """The pages to check against, in the context's order."""
    if len(visible) <= _ALL_PAGES:
        return list(visible)
    mass: Counter[PageKey] = Counter()
    for look in looks:
        mass[look.document_id, look.page] += look.share  # type: ignore[assignment]
    wanted = {key for key, _ in mass.most_common(_MOST_LOOKED)}
    wanted |= _sharing_words(text, visible, library, collection)
    return [key for key in visible if key in wanted]


def _sharing_words(
    text: str, visible: dict[PageKey, list[tuple[int, int]]], library: "Library", collection: str
) -> set[PageKey]:
    queries = [text[start:end] for start, end in answer_sentences(text)[:_SENTENCES]]
    queries += [f'"{quotation.text}"' for quotation in quotations(text)[:_SENTENCES]]
    documents = tuple(dict.fromkeys(document for document, _ in visible))
    found: set[PageKey] = set()
    for query in queries:
        hits = library.rank(query, collection, _PER_SENTENCE, documents)
        found.update((document, page) for document, page, _ in hits)
    return found


def _sources(
    wanted: Iterable[PageKey], visible: dict[PageKey, list[tuple[int, int]]], layout: Layout, library: "Library"
) -> Iterator[Source]:
    """The visible stretches of these pages. Pages that were removed meanwhile are passed over."""
    from unabridged.ingest.catalog.tokens import visible as shown

    documents = {document.id: document for document in layout.documents}
    for document_id, number in wanted:
        document = documents[document_id]
        try:
            page = library.page(document_id, number)
        except DocumentNotFound:
            continue
        for first, last in _merged(visible[document_id, number]):
            for start, end in shown(page.text, page.parts):
                low, high = max(first, start), min(last, end)
                if low < high:
                    about = f"{display_name(document)} {document.title}"
                    yield Source(document_id, document.path, number, page.label, page.text, low, high, about)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of a page that two sections share are one again when both are in context."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
