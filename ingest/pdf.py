"""PDF to items: pages first, then what is attached. Every page has its item, read or not.

pdfium gives the text, `quality` judges it, pypdf is asked where pdfium fails or the text is bad, and the better one is
kept. A file that neither opens is tried again with a mended end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from unabridged.ingest import pdf_extra, quality, salvage
from unabridged.ingest.document import Closed, Flag, Item, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.normalise import normalise
from unabridged.ingest.pdf_fallback import Fallback
from unabridged.ingest.pdf_page import PageText, page_text
from unabridged.ingest.reading import Place, Reading, Source, Unreadable, spoken

_FAILURES = 40  # pages in a row that do not load: the rest is not tried one by one
_USELESS = 8  # pages in a row for which pypdf did no better: it is asked no more
_CAPTION = 30  # characters: less beside a page-filling image is a stamp on a scan
_COVERED = 0.7
_EMPTY = PageText("", "", 0, 0.0, 0)


@dataclass
class _Pdf:
    """An open document and what has been found out about it."""

    document: Any | None  # pypdfium2's, None where only pypdf opens the file
    fallback: Fallback
    total: int
    versions: tuple[str, str]
    mended: bool = False
    notes: list[str] = field(default_factory=list)
    useless: int = 0
    failed_in_row: int = 0
    flagged: dict[Flag, list[int]] = field(default_factory=dict)
    with_text: int = 0


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of a PDF and of the files attached to it. Raises Unreadable when no page can be had."""
    pdf = _open(source.data, reading)
    ref = reading.ref()
    title, meta = pdf_extra.metadata(_information(pdf))
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.PDF,
        title=title,
        meta={**place.meta, **meta},
        sha256=source.sha256,
        size=source.size,
    )
    reading.expect(ref, pdf.total)
    skip = reading.skip if place.parent is None else 0
    number = skip
    while number < pdf.total:
        number += 1
        page = _page(pdf, ref, number, reading)
        if number <= pdf.total:
            yield page
    if number > pdf.total:
        reading.expect(ref, pdf.total)
    yield from _attached(pdf, ref, reading, place)
    yield _closed(pdf, ref)
    if pdf.document is not None:
        pdf.document.close()


def _open(data: bytes, reading: Reading) -> _Pdf:
    if not data:
        raise Unreadable(Status.DAMAGED, "the file is empty")
    import pypdf
    import pypdfium2
    from pypdfium2.version import PDFIUM_INFO

    versions = (f"pdfium {PDFIUM_INFO.build}", f"pypdf {pypdf.__version__}")
    fallback = Fallback(data, reading.password)
    document, error = _pdfium(pypdfium2, data, reading.password)
    if document is not None and len(document):
        return _Pdf(document, fallback, _plausible(document, data, reading), versions)
    if pages := fallback.pages():
        return _Pdf(None, fallback, min(pages, reading.limits.pages), versions)
    _ask_for_password(fallback, error, reading)
    mended = salvage.with_trailer(data)
    document, _ = _pdfium(pypdfium2, mended, reading.password) if mended else (None, "")
    if document is not None and len(document):
        return _Pdf(document, fallback, _plausible(document, data, reading), versions, mended=True)
    raise _hopeless(data, error, fallback)


def _pdfium(pypdfium2: Any, data: bytes, password: str | None) -> tuple[Any | None, str]:
    try:
        document = pypdfium2.PdfDocument(data, password=password)
        document.init_forms()
        return document, ""
    except pypdfium2.PdfiumError as error:
        return None, str(error)


def _plausible(document: Any, data: bytes, reading: Reading) -> int:
    """The page count, as far as the file can hold so many."""
    claimed = len(document)
    if claimed > 50:
        claimed = min(claimed, salvage.most_objects(data))
    return min(claimed, reading.limits.pages)


def _ask_for_password(fallback: Fallback, error: str, reading: Reading) -> None:
    # pdfium's last error may be of another file: it is believed only where the file says that it is encrypted.
    if fallback.needs_password() or ("assword" in error and b"/Encrypt" in fallback.data):
        reason = "the password given does not open it" if reading.password else "needs a password"
        raise Unreadable(Status.NEEDS_PASSWORD, reason)


def _hopeless(data: bytes, error: str, fallback: Fallback) -> Unreadable:
    if b"%PDF-" not in data[:1024]:
        return Unreadable(Status.DAMAGED, "named .pdf, but not a PDF file")
    if b"%%EOF" not in data[-2048:]:
        return Unreadable(Status.DAMAGED, "damaged PDF: its end is missing, and no page could be recovered")
    if not fallback.error:
        return Unreadable(Status.NO_TEXT, "a PDF without pages")
    return Unreadable(Status.DAMAGED, "damaged PDF: no page could be read")


def _information(pdf: _Pdf) -> dict[str, str]:
    if pdf.document is None:
        return pdf.fallback.information()
    found: dict[str, str] = pdf.document.get_metadata_dict(skip_empty=True)
    return found


def _page(pdf: _Pdf, ref: int, number: int, reading: Reading) -> Page:
    """One page, whatever happens to it."""
    loaded, raw, label = False, _EMPTY, ""
    notes: list[tuple[PartKind, str]] = []
    if pdf.document is not None and pdf.failed_in_row < _FAILURES:
        loaded, raw, notes, label = _load(pdf, number)
    text, score, extractor = _best(pdf, raw, number, loaded, reading)
    if not loaded and not text and number <= pdf.total:
        pdf.flagged.setdefault(Flag.UNREAD, []).append(number)
        return Page(ref=ref, number=number, text="", flags=(Flag.UNREAD,), score=0.0)
    return _assemble(pdf, ref, number, _Read(raw, text, score, extractor, notes, label), reading)


@dataclass(frozen=True)
class _Read:
    raw: PageText
    text: str
    score: float
    extractor: str
    notes: list[tuple[PartKind, str]]
    label: str


def _load(pdf: _Pdf, number: int) -> tuple[bool, PageText, list[tuple[PartKind, str]], str]:
    from pypdfium2 import PdfiumError

    assert pdf.document is not None
    try:
        page = pdf.document[number - 1]
    except PdfiumError:
        pdf.failed_in_row += 1
        _recount(pdf, number)
        return False, _EMPTY, [], ""
    pdf.failed_in_row = 0
    try:
        label = pdf.document.get_page_label(number - 1)
        notes = pdf_extra.notes(page)
        return True, page_text(page), notes, "" if label == str(number) else normalise(label).strip()
    except PdfiumError:
        return False, _EMPTY, [], ""
    finally:
        page.close()


def _recount(pdf: _Pdf, number: int) -> None:
    """A page does not load: perhaps because there are no so many. pypdf counts the pages that are there."""
    if pdf.failed_in_row == 1 and number > 1 and pdf.fallback.pages() == number - 1:
        pdf.notes.append(f"claims {len(pdf.document or ()):,} pages, has {number - 1:,}")
        pdf.total = number - 1


def _best(pdf: _Pdf, raw: PageText, number: int, loaded: bool, reading: Reading) -> tuple[str, float, str]:
    """Text, score and extractor of the better of the two."""
    limit = reading.limits.page_chars
    text, score = normalise(raw.visible[: limit + 1]).strip(), quality.score(raw.visible[:limit])
    good = loaded and (score >= quality.GOOD or not text)
    if good or pdf.useless >= _USELESS:
        return text, score, pdf.versions[0]
    other = pdf.fallback.text(number - 1)[: limit + 1]
    other_score = quality.score(other)
    if other.strip() and (not text or other_score > score + 0.05):
        pdf.useless = 0
        return normalise(other).strip(), other_score, pdf.versions[1]
    pdf.useless += 1
    return text, score, pdf.versions[0]


def _assemble(pdf: _Pdf, ref: int, number: int, read: _Read, reading: Reading) -> Page:
    """Visible text, then notes, form values and hidden text, each labelled."""
    limit = reading.limits.page_chars
    text, parts = read.text[:limit], []
    sections = [*read.notes]
    if hidden := normalise(read.raw.hidden[:limit]).strip():
        sections.append((PartKind.HIDDEN, hidden))
    for kind, section in sections:
        text += "\n" if text else ""
        parts.append(Part(kind, len(text), len(text) + len(section)))
        text += section
    flags = _flags(read, len(read.text) > limit, bool(hidden))
    for flag in flags:
        pdf.flagged.setdefault(flag, []).append(number)
    pdf.with_text += bool(read.text or read.notes) and Flag.GARBLED not in flags
    return Page(
        ref=ref,
        number=number,
        text=text,
        label=read.label,
        parts=tuple(parts),
        flags=flags,
        extractor=read.extractor,
        score=round(read.score, 3),
    )


def _flags(read: _Read, cut: bool, hidden: bool) -> tuple[Flag, ...]:
    flags = []
    if read.raw.images and (not read.text or (len(read.text) < _CAPTION and read.raw.covered > _COVERED)):
        flags.append(Flag.SCANNED)
    elif not read.text:
        flags.append(Flag.EMPTY)
    elif read.score < quality.BAD:
        flags.append(Flag.GARBLED)
    if hidden:
        flags.append(Flag.HIDDEN)
    if cut:
        flags.append(Flag.CUT)
    return tuple(flags)


def _attached(pdf: _Pdf, ref: int, reading: Reading, place: Place) -> Iterator[Item]:
    if pdf.document is None:
        return
    for name, data in pdf_extra.attachments(pdf.document, reading.limits.parts):
        why = "it cannot be taken out" if data is None else reading.refuses(len(data), place.depth + 1)
        if data is None or why:
            pdf.notes.append(f"attachment {name} not read: {why}")
            continue
        yield from reading.child(Source(name, data), reading, Place(parent=ref, depth=place.depth + 1))


def _closed(pdf: _Pdf, ref: int) -> Closed:
    """The end, with what is missing in words."""
    said = list(pdf.notes)
    if pdf.mended:
        said.insert(0, "damaged: its end is missing")
    words = {
        Flag.UNREAD: "could not be read",
        Flag.SCANNED: "without a text layer (images)",
        Flag.GARBLED: "with a text layer that decodes to nonsense",
        Flag.CUT: "longer than the limit of a page and cut",
    }
    if pdf.mended:
        words[Flag.EMPTY] = "came out empty"
    for flag, what in words.items():
        if numbers := pdf.flagged.get(flag):
            said.append(f"{spoken(numbers)} {what}")
    status = _status(pdf)
    if status == Status.NO_TEXT and not said:
        said.append("no text on its pages")
    return Closed(ref=ref, status=status, reason="; ".join(said))


def _status(pdf: _Pdf) -> Status:
    bad = [n for flag in (Flag.UNREAD, Flag.SCANNED, Flag.GARBLED, Flag.CUT) for n in pdf.flagged.get(flag, [])]
    if not pdf.with_text:
        return Status.DAMAGED if pdf.flagged.get(Flag.UNREAD) else Status.NO_TEXT
    return Status.PARTIAL if bad or pdf.mended else Status.READ
