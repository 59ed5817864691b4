"""Opens a PDF by every way there is, and loads its pages: from pdfium, else from a rebuilt copy of the file, else, text
alone, from pypdf.

pdfium believes the page count that a file states. Here it is checked: against the pages that stand in the file, and
where a page does not load. No page below the true count is left out, none above it is made up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from unabridged.ingest.document import Status
from unabridged.ingest.pdf import password as pdf_password
from unabridged.ingest.pdf import salvage, wide
from unabridged.ingest.pdf.fallback import Fallback
from unabridged.ingest.reading import Reading, Unreadable
from unabridged.ingest.texts.normalise import normalise

_FAILURES = 40  # pages in a row that do not load: the rest is not tried one by one


@dataclass
class Pdf:
    """An open document. `damaged` where pages are known to be missing, or may be."""

    data: bytes
    document: Any | None  # pypdfium2's, None where pdfium opens neither the file nor a rebuilt copy
    fallback: Fallback
    total: int
    limit: int  # pages
    slots: tuple[int | None, ...] | None = None  # of a rebuilt document: where it has each page
    damaged: bool = False
    layers: bool = False  # it may have some that are switched off
    drawn: bool = True  # its pages may be drawn to see what is hidden on them
    notes: list[str] = field(default_factory=list)
    _spare: "Pdf | None" = None  # the rebuilt copy of a document of which pages do not load
    _spared: bool = False
    _failed: int = 0

    @contextmanager
    def page(self, number: int) -> Iterator[Any | None]:
        """pypdfium2's page, None for one that cannot be loaded."""
        found = self._load(number)
        try:
            yield found
        finally:
            if found is not None:
                found.close()

    def text(self, number: int) -> str:
        """What pypdf makes of a page, "" for nothing."""
        slot = self._slot(number)
        return "" if slot is None else self.fallback.text(slot)

    def lost(self, number: int) -> bool:
        """Whether a page that came out empty has a content that is not to be had."""
        if not self.fallback.pages() and (copy := self._copy()):
            return copy.lost(number)
        slot = self._slot(number)
        return slot is not None and self.fallback.lost(slot)

    def label(self, number: int) -> str:
        """The number printed on a page, where it differs from its place."""
        index = number - 1
        said = self.fallback.label(index) if self.document is None else wide.label(self.document, index)
        label = normalise(said).strip()
        return "" if label == str(number) else label

    def close(self) -> None:
        """Gives up pdfium's memory."""
        for document in (self.document, self._spare and self._spare.document):
            if document is not None:
                document.close()

    def _slot(self, number: int) -> int | None:
        if self.slots is None:
            return number - 1
        return self.slots[number - 1] if number <= len(self.slots) else None

    def _load(self, number: int) -> Any | None:
        from pypdfium2 import PdfiumError

        slot = self._slot(number)
        if self.document is None or slot is None or self._failed >= _FAILURES:
            return None
        try:
            page = self.document[slot]
        except PdfiumError:
            page = self._from_spare(number)
        self._failed = 0 if page is not None else self._failed + 1
        return page

    def _copy(self) -> "Pdf | None":
        """A rebuilt copy of a document that is none itself, made when first needed."""
        if self.slots is None and not self._spared:
            self._spared = True
            self._spare = _rebuilt(self.data, self.fallback, self.limit)
        return self._spare

    def _from_spare(self, number: int) -> Any | None:
        """The page of a rebuilt copy, which also tells how many pages there are."""
        spare = self._copy()
        if spare is None:
            return None
        if spare.total < number and not spare.damaged:
            self.notes.append(f"claims {len(self.document or ()):,} pages, has {spare.total:,}")
            self.total = spare.total
            return None
        return spare._load(number)


def open_pdf(data: bytes, reading: Reading) -> Pdf:
    """The document. Raises Unreadable when it needs a password, or no page can be had."""
    if not data:
        raise Unreadable(Status.DAMAGED, "the file is empty")
    password = pdf_password.opening(data, reading.passwords)
    fallback = Fallback(data, password)
    limit = reading.limits.pages
    document, error = pdfium(data, password)
    if document is not None and len(document):
        return _checked(Pdf(data, document, fallback, min(len(document), limit), limit))
    _ask_for_password(fallback, error, reading)
    if rebuilt := _rebuilt(data, fallback, limit):
        return rebuilt
    if pages := fallback.pages():
        return Pdf(data, None, fallback, min(pages, limit), limit)
    raise _hopeless(data, fallback)


def pdfium(data: bytes, password: str | None) -> tuple[Any | None, str]:
    """pypdfium2's document, or why not."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data, password=password)
        document.init_forms()
        return document, ""
    except pypdfium2.PdfiumError as error:
        return None, str(error)


def _checked(pdf: Pdf) -> Pdf:
    """The document with all its pages, if the file holds more than it states."""
    pages, pdf.layers = salvage.glance(pdf.data)
    pdf.drawn = not salvage.patterned(pdf.data)
    if pages <= pdf.total or pdf.total >= pdf.limit:
        return pdf
    rebuilt = _rebuilt(pdf.data, pdf.fallback, pdf.limit)
    if rebuilt is None or rebuilt.damaged or rebuilt.total <= pdf.total:
        return pdf
    rebuilt.notes = [f"claims {pdf.total:,} page{'s' * (pdf.total > 1)}, has {rebuilt.total:,}"]
    pdf.close()
    return rebuilt


def _rebuilt(data: bytes, fallback: Fallback, limit: int) -> Pdf | None:
    made = salvage.rebuild(data, limit)
    document, _ = pdfium(made.data, fallback.password) if made else (None, "")
    if made is None or document is None:
        return None
    again = Fallback(made.data, fallback.password)
    missing = made.cut or not made.whole or None in made.slots
    note = "damaged: its end is missing" if made.cut else "damaged: its table of objects was rebuilt"
    notes = [note] if made.whole else [note, "its page tree is lost, so there may have been more pages"]
    drawn = not salvage.patterned(made.data)
    return Pdf(made.data, document, again, len(made.slots), limit, made.slots, missing, True, drawn, notes)


def _ask_for_password(fallback: Fallback, error: str, reading: Reading) -> None:
    # pdfium's last error may be of another file: it is believed only where the file says that it is encrypted.
    if fallback.needs_password() or ("assword" in error and b"/Encrypt" in fallback.data and not fallback.pages()):
        reason = "no password given opens it" if reading.passwords else "needs a password"
        raise Unreadable(Status.NEEDS_PASSWORD, reason)


def _hopeless(data: bytes, fallback: Fallback) -> Unreadable:
    if b"%PDF-" not in data[:1024]:
        return Unreadable(Status.DAMAGED, "named .pdf, but not a PDF file")
    if b"%%EOF" not in data[-2048:]:
        return Unreadable(Status.DAMAGED, "damaged PDF: its end is missing, and no page could be recovered")
    if not fallback.error:
        return Unreadable(Status.NO_TEXT, "a PDF without pages")
    return Unreadable(Status.DAMAGED, "damaged PDF: no page could be read")
