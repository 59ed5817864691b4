"""PDF to items: pages first, then what is attached. Every page has its item, read or not.

pdfium gives the text, `quality` judges it, pypdf is asked where pdfium fails or the text is bad, and the better one is
kept. `open` finds a way into damaged files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from unabridged.ingest.document import Closed, Flag, Item, Kind, Page, Part, PartKind, Status
from unabridged.ingest.pdf import attached as pdf_attached
from unabridged.ingest.pdf import extra as pdf_extra
from unabridged.ingest.pdf import notes as pdf_notes
from unabridged.ingest.pdf import ocr as pdf_ocr
from unabridged.ingest.pdf import outline as pdf_outline
from unabridged.ingest.pdf import quality, wide
from unabridged.ingest.pdf import signed as pdf_signed
from unabridged.ingest.pdf import xfa as pdf_xfa
from unabridged.ingest.pdf.flags import flags
from unabridged.ingest.pdf.open import Pdf, open_pdf
from unabridged.ingest.pdf.page import PageText, page_text
from unabridged.ingest.reading import Place, Reading, Source, spoken
from unabridged.ingest.texts.normalise import normalise

_USELESS, _AGAIN = 2, 8  # pages in a row for which pypdf did no better: it is asked for each eighth then
_EMPTY = PageText("", "", 0, 0, 0.0)


@dataclass
class _Progress:
    """What has been found out about a document while its pages were read."""

    versions: tuple[str, str]  # of pdfium and of pypdf
    useless: int = 0
    flagged: dict[Flag, list[int]] = field(default_factory=dict)
    with_text: int = 0
    doubtful: list[int] = field(default_factory=list)  # recognised, but hardly
    pinned: list[Any] = field(default_factory=list)  # files that are attached to pages
    failures: dict[str, list[int]] = field(default_factory=dict)  # why pages were not recognised


@dataclass(frozen=True)
class _Read:
    raw: PageText
    text: str
    score: float
    extractor: str
    notes: list[tuple[PartKind, str]]
    label: str
    hidden: str
    flags: tuple[Flag, ...] = ()
    added: str = ""  # recognised beside a text layer


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of a PDF and of the files attached to it. Raises Unreadable when no page can be had."""
    pdf = open_pdf(source.data, reading)
    progress = _Progress(_versions())
    ref = reading.ref()
    title, meta = pdf_extra.metadata(_information(pdf))
    if pdf.document is not None:
        meta |= pdf_outline.meta(pdf.document, pdf.slots) | pdf_signed.meta(pdf.document)
    yield source.opened(ref, place, Kind.PDF, title, meta)
    reading.expect(ref, pdf.total)
    number = reading.skip if place.parent is None else 0
    while number < pdf.total:
        number += 1
        page = _page(pdf, progress, ref, number, reading)
        if number <= pdf.total:
            yield page
    if number > pdf.total:
        reading.expect(ref, pdf.total)
    yield from _attached(pdf, progress, ref, reading, place)
    yield _closed(pdf, progress, ref)
    pdf.close()


def _versions() -> tuple[str, str]:
    import pypdf
    from pypdfium2.version import PDFIUM_INFO

    return f"pdfium {PDFIUM_INFO.build}", f"pypdf {pypdf.__version__}"


def _information(pdf: Pdf) -> dict[str, str]:
    if pdf.document is None:
        return pdf.fallback.information()
    return wide.information(pdf.document)


def _page(pdf: Pdf, progress: _Progress, ref: int, number: int, reading: Reading) -> Page:
    """One page, whatever happens to it."""
    from pypdfium2 import PdfiumError

    loaded, raw = False, _EMPTY
    notes: list[tuple[PartKind, str]] = []
    with pdf.page(number) as page:
        if page is not None:
            try:
                notes, raw = pdf_notes.notes(page, progress.pinned), page_text(page, pdf.layers, pdf.drawn)
                loaded = True
            except PdfiumError:
                notes = []
    text, score, extractor = _best(pdf, progress, raw, number, loaded, reading)
    notes = pdf_notes.unseen(notes, text)
    if number == 1 and pdf.document is not None:
        notes += pdf_xfa.values(pdf.document, notes)
    blank = not text and not raw.objects and number <= pdf.total
    if blank and (not loaded or (not notes and pdf.lost(number))):
        progress.flagged.setdefault(Flag.UNREAD, []).append(number)
        return Page(ref=ref, number=number, text="", label=pdf.label(number), flags=(Flag.UNREAD,), score=0.0)
    limit = reading.limits.page_chars
    hidden = normalise(raw.hidden[:limit]).strip()
    read = _Read(raw, text, score, extractor, notes, pdf.label(number), hidden, flags(raw, text, score, hidden, limit))
    if pdf_ocr.wanted(read.flags, raw.covered, reading):
        read = _recognised(pdf, progress, number, read, reading)
    return _assemble(progress, ref, number, read, reading)


def _recognised(pdf: Pdf, progress: _Progress, number: int, read: _Read, reading: Reading) -> _Read:
    """The page with what stands in its image."""
    with pdf.page(number) as page:
        if page is None:
            return read
        found = pdf_ocr.recognised(page, reading)
    if found.failure:
        progress.failures.setdefault(found.failure, []).append(number)
        return replace(read, extractor=", ".join(filter(None, (read.extractor, found.extractor))))
    rest = tuple(flag for flag in read.flags if flag not in (Flag.SCANNED, Flag.GARBLED))
    if found.doubtful:
        progress.doubtful.append(number)
    if Flag.SCANNED not in read.flags and Flag.GARBLED not in read.flags:
        more = pdf_ocr.added(read.text, found.text)
        return replace(read, added=more, flags=(Flag.OCR, *rest) if more else rest)
    if not found.text:
        flags = read.flags if read.text else (Flag.EMPTY, *rest)
        return replace(read, flags=flags, extractor=f"{read.extractor}, {found.extractor}")
    keep = read.text if Flag.SCANNED in read.flags else ""  # a stamp on a scan; nonsense is replaced
    more = pdf_ocr.added(keep, found.text)
    text, more = (keep, more) if keep else (found.text, "")
    score, extractor = round(found.confidence, 3), found.extractor
    return replace(read, text=text, added=more, score=score, extractor=extractor, flags=(Flag.OCR, *rest))


def _best(
    pdf: Pdf, progress: _Progress, raw: PageText, number: int, loaded: bool, reading: Reading
) -> tuple[str, float, str]:
    """Text, score and extractor of the better of the two."""
    limit = reading.limits.page_chars
    text, score = normalise(raw.visible[: limit + 1]).strip(), quality.score(raw.visible[:limit])
    good = loaded and (score >= quality.GOOD or not (text or pdf.damaged))
    good = good or bool(raw.hidden)  # which pypdf would not tell from the rest
    if good:
        return text, score, progress.versions[0]
    if progress.useless >= _USELESS and progress.useless % _AGAIN:
        progress.useless += 1
        return text, score, progress.versions[0]
    other = pdf.text(number)[: limit + 1]
    other_score = quality.score(other)
    if other.strip() and (not text or other_score > score + 0.05):
        progress.useless = 0
        return normalise(other).strip(), other_score, progress.versions[1]
    progress.useless += 1
    return text, score, progress.versions[0]


def _assemble(progress: _Progress, ref: int, number: int, read: _Read, reading: Reading) -> Page:
    """Visible text, then notes, form values and hidden text, each labelled."""
    limit = reading.limits.page_chars
    text, parts = read.text[:limit], []
    sections = [(PartKind.OCR, read.added)] if read.added else []
    sections += read.notes
    if read.hidden:
        sections.append((PartKind.HIDDEN, read.hidden))
    for kind, section in sections:
        text += "\n" if text else ""
        parts.append(Part(kind, len(text), len(text) + len(section)))
        text += section
    for flag in read.flags:
        progress.flagged.setdefault(flag, []).append(number)
    progress.with_text += bool(read.text or read.notes or read.added) and Flag.GARBLED not in read.flags
    return Page(
        ref=ref,
        number=number,
        text=text,
        label=read.label,
        parts=tuple(parts),
        flags=read.flags,
        extractor=read.extractor,
        score=round(read.score, 3),
    )


def _attached(pdf: Pdf, progress: _Progress, ref: int, reading: Reading, place: Place) -> Iterator[Item]:
    if place.parent is None:
        for number in range(1, min(reading.skip, pdf.total) + 1):  # pages that another process has read
            with pdf.page(number) as page:
                if page is not None:
                    pdf_notes.notes(page, progress.pinned)
    limit = reading.limits.parts
    files = pdf_attached.attached(pdf.document, pdf.data, reading.passwords, progress.pinned, limit)
    return pdf_attached.children(files, pdf.notes, ref, reading, place)


def _closed(pdf: Pdf, progress: _Progress, ref: int) -> Closed:
    """The end, with what is missing in words."""
    said = list(pdf.notes)
    words = {
        Flag.UNREAD: "could not be read",
        Flag.SCANNED: "without a text layer (images)",
        Flag.GARBLED: "with a text layer that decodes to nonsense",
        Flag.CUT: "longer than the limit of a page and cut",
    }
    if pdf.damaged:
        words[Flag.EMPTY] = "came out empty"
    for flag, what in words.items():
        if numbers := progress.flagged.get(flag):
            said.append(f"{spoken(numbers)} {what}")
    said += [f"{spoken(numbers)} not recognised: {why}" for why, numbers in progress.failures.items()]
    if progress.doubtful:
        said.append(f"{spoken(progress.doubtful)} recognised with doubt")
    status = _status(pdf, progress)
    if status == Status.NO_TEXT and not said:
        said.append("no text on its pages")
    return Closed(ref=ref, status=status, reason="; ".join(said))


def _status(pdf: Pdf, progress: _Progress) -> Status:
    flagged = progress.flagged
    bad = bool(progress.doubtful) or any(
        flagged.get(flag) for flag in (Flag.UNREAD, Flag.SCANNED, Flag.GARBLED, Flag.CUT)
    )
    if not progress.with_text:
        return Status.DAMAGED if flagged.get(Flag.UNREAD) else Status.NO_TEXT
    return Status.PARTIAL if bad or pdf.damaged else Status.READ
