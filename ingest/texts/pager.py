"""Puts blocks of text into pages as they come, with their parts. Knows nothing of formats.

A page ends where its writer says so, or where it has about `target` characters. Notes and hidden text of a page are
gathered and stand at its end, labelled, so that a footnote is on the page that cites it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from unabridged.ingest.document import Closed, Flag, Page, Part, PartKind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.texts import pages
from unabridged.ingest.texts.normalise import normalise


@dataclass
class Pager:
    """The pages of one document. `ready` are whole: whoever drives the pager takes them out. `label` is of the page
    that the next block begins; where its `printed` number is known, that is the label if it differs."""

    ref: int
    limits: Limits
    extractor: str
    target: int = pages.PAGE
    label: str = ""
    printed: int = 0
    ready: list[Page] = field(default_factory=list)
    number: int = 0
    characters: int = 0
    left_out: int = 0
    _text: list[str] = field(default_factory=list)
    _parts: list[Part] = field(default_factory=list)
    _notes: list[tuple[PartKind, str]] = field(default_factory=list)
    _length: int = 0
    _label: str = ""

    def add(self, text: str, gap: str = "\n", kind: PartKind | None = None) -> None:
        """A block that is seen. Behind an earlier one of its page stands `gap`."""
        text = normalise(text)
        if not text.strip() or self._full(len(text)):
            return
        for piece in pages.cut(text, self.target) if len(text) > self.target else (text,):
            if self._length and self._length + len(piece) > self.target + self.target // 4:
                self.close()
            self._put(piece, gap, kind)

    def aside(self, kind: PartKind, text: str) -> None:
        """A note, or hidden text, of the page that is being filled."""
        text = normalise(text).strip()
        if text and not self._full(len(text)):
            self._notes.append((kind, text))

    @property
    def filled(self) -> bool:
        """The page has something on it."""
        return bool(self._text or self._notes)

    def close(self, label: str | None = None, empty: bool = False) -> None:
        """The page ends, if there is anything on it, or though it is `empty`. `label` replaces its own."""
        if not (self.filled or empty) or self.number >= self.limits.pages:
            return
        if label is None:
            label = self._label if self._text else self._name()
        seen = bool(self._text)
        # What stands apart comes last: hidden text behind notes, as other readers have it.
        for kind, note in sorted(self._notes, key=lambda note: note[0] == PartKind.HIDDEN):
            self._put_aside(kind, note)
        flags = (() if seen else (Flag.EMPTY,)) + (
            (Flag.HIDDEN,) if any(part.kind == PartKind.HIDDEN for part in self._parts) else ()
        )
        self.number += 1
        self.ready.append(
            Page(
                ref=self.ref,
                number=self.number,
                text="".join(self._text),
                label=label,
                parts=tuple(self._parts),
                flags=flags,
                extractor=self.extractor,
            )
        )
        self._text, self._parts, self._notes, self._length = [], [], [], 0

    def take(self) -> list[Page]:
        """The pages that are whole, taken out."""
        taken, self.ready = self.ready, []
        return taken

    def cut(self) -> str:
        """Why not all was read; "" when it was."""
        if not self.left_out:
            return ""
        what = f"{self.limits.document_chars:,} characters or {self.limits.pages:,} pages"
        return f"longer than {what}: {self.left_out:,} characters were not read"

    def ended(self, notes: Iterable[str] = (), empty: str = "no text in it") -> Closed:
        """The end of the document, when its pages are taken out. `notes` say what of it could not be read, `empty` what
        is said where there is neither text nor a note."""
        said = [note for note in notes if note]
        reason = "; ".join(filter(None, [*said, self.cut()]))
        if not self.characters:
            return Closed(ref=self.ref, status=Status.DAMAGED if said else Status.NO_TEXT, reason=reason or empty)
        return Closed(ref=self.ref, status=Status.PARTIAL if reason else Status.READ, reason=reason)

    def _full(self, more: int) -> bool:
        if self.characters + more > self.limits.document_chars or self.number >= self.limits.pages:
            self.left_out += more
            return True
        self.characters += more
        return False

    def _put(self, text: str, gap: str, kind: PartKind | None) -> None:
        if not self._text:
            self._label = self._name()
        else:
            text = gap + text
        start = self._length + (len(gap) if self._text else 0)
        self._text.append(text)
        self._length += len(text)
        if kind is not None:
            self._part(kind, start, self._length)

    def _name(self) -> str:
        if not self.printed:
            return self.label
        return str(self.printed) if self.printed != self.number + 1 else ""

    def _put_aside(self, kind: PartKind, text: str) -> None:
        gap = "\n\n" if self._text and not (self._parts and self._parts[-1].end == self._length) else "\n"
        gap = gap if self._text else ""
        self._text.append(gap + text)
        self._length += len(gap) + len(text)
        self._part(kind, self._length - len(text), self._length)

    def _part(self, kind: PartKind, start: int, end: int) -> None:
        last = self._parts[-1] if self._parts else None
        if last is not None and last.kind == kind and start - last.end <= 2:
            self._parts[-1] = Part(kind, last.start, end)
        else:
            self._parts.append(Part(kind, start, end))
