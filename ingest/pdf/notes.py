"""Form fields and annotations of a PDF page, each as a line: what was filled in, noted, marked, stamped, linked.

    ("form", "Name: Ada"), ("form", "Agreed: [x]"), ("note", "Reviewer: check this (on "four weeks")"),
    ("note", "struck out: "with cost""), ("note", "link: https://example.org/terms")

Read through pdfium, which copes with more damage than others. A broken entry is left out, its page is not. What is set
not to be shown is HIDDEN.
"""

from typing import Any

from unabridged.ingest.document import PartKind
from unabridged.ingest.pdf.wide import octets, wide
from unabridged.ingest.texts.normalise import normalise, one_line

_NOTES = 2_000  # annotations of one page
_CHARACTERS = 20_000  # of one value or note
_ADDRESS = 2_000  # bytes of one link
_QUADS = 200  # lines of one marked passage
_LINK, _STAMP, _POPUP, _FILE, _WIDGET = 2, 13, 16, 17, 20
_MARKS = {9: "highlighted", 10: "underlined", 11: "underlined", 12: "struck out"}
_HIDDEN, _NO_VIEW = 1 << 1, 1 << 5
_BUTTON, _CHECK, _RADIO, _COMBO, _LIST, _SIGNATURE = 1, 2, 3, 4, 5, 7
_URI = 3
_USUAL = frozenset({"", "Off", "On", "Yes", "1", "true"})  # values of a check box that say no more than its mark

Note = tuple[PartKind, str]


def notes(page: Any, files: list[Any] | None = None) -> list[Note]:
    """The lines of a pypdfium2 page, in the order of the file, each once. Files that are pinned to it go to `files`, as
    pypdfium2's attachments."""
    import pypdfium2.raw as raw

    reader = _Reader(raw, page)
    try:
        for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _NOTES)):
            if annotation := raw.FPDFPage_GetAnnot(page.raw, index):
                try:
                    reader.read(annotation)
                finally:
                    raw.FPDFPage_CloseAnnot(annotation)
    finally:
        reader.close()
    if files is not None:
        files += reader.files
    return list(dict.fromkeys(reader.found))


def unseen(some: list[Note], text: str) -> list[Note]:
    """Without the links whose target stands on the page."""
    return [note for note in some if not (note[1].startswith("link: ") and _target(note[1]) in text)]


def _target(line: str) -> str:
    address = line.removeprefix("link: ").removeprefix("mailto:")
    return address.removeprefix("https://").removeprefix("http://").rstrip("/")


class _Reader:
    """The annotations of one page, one after the other."""

    def __init__(self, raw: Any, page: Any) -> None:
        self._raw = raw
        self._page = page
        self._form = page.formenv.raw if page.formenv else None
        self._textpage: Any = None
        self.found: list[Note] = []
        self.files: list[Any] = []

    def close(self) -> None:
        """Gives up the text that was looked at."""
        if self._textpage is not None:
            self._textpage.close()

    def read(self, annotation: Any) -> None:
        """Notes what there is to one annotation."""
        subtype = self._raw.FPDFAnnot_GetSubtype(annotation)
        if subtype == _POPUP:
            return
        kind = PartKind.FORM if subtype == _WIDGET else PartKind.NOTE
        if subtype == _WIDGET:
            line = self._field(annotation)
        elif subtype == _LINK:
            line = self._link(annotation)
        else:
            line = self._note(annotation, subtype)
        if line:
            flags = self._raw.FPDFAnnot_GetFlags(annotation)
            self.found.append((PartKind.HIDDEN if flags & (_HIDDEN | _NO_VIEW) else kind, line))

    def _field(self, annotation: Any) -> str:
        """Name and value. Empty fields are none; boxes that are not ticked are, where people are told their name."""
        raw, form = self._raw, self._form
        if not form:
            return _named(self._string(annotation, b"T"), self._string(annotation, b"V"))
        kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
        shown = wide(lambda *to: raw.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
        name = shown or wide(lambda *to: raw.FPDFAnnot_GetFormFieldName(form, annotation, *to))
        value = wide(lambda *to: raw.FPDFAnnot_GetFormFieldValue(form, annotation, *to))
        if kind in (_BUTTON, _SIGNATURE):
            return ""
        if kind in (_CHECK, _RADIO):
            return self._box(annotation, kind, name, bool(shown))
        if kind in (_COMBO, _LIST):
            value = "; ".join(self._chosen(annotation)) or value
        return _named(name, value)

    def _box(self, annotation: Any, kind: int, name: str, told: bool) -> str:
        raw, form = self._raw, self._form
        ticked = bool(raw.FPDFAnnot_IsChecked(form, annotation))
        stands_for = wide(lambda *to: raw.FPDFAnnot_GetFormFieldExportValue(form, annotation, *to))
        if kind == _RADIO:
            return _named(name, stands_for) if ticked else ""
        if not ticked:
            return _named(name, "[ ]") if told else ""
        return _named(name, "[x]" if stands_for in _USUAL else f"[x] {stands_for}")

    def _chosen(self, annotation: Any) -> list[str]:
        """What the chosen options are called, which need not be their value."""
        raw, form = self._raw, self._form
        count = min(max(0, raw.FPDFAnnot_GetOptionCount(form, annotation)), _NOTES)
        chosen = [index for index in range(count) if raw.FPDFAnnot_IsOptionSelected(form, annotation, index)]
        labels = [wide(lambda *to, i=i: raw.FPDFAnnot_GetOptionLabel(form, annotation, i, *to)) for i in chosen]
        return [one_line(label) for label in labels if label]

    def _link(self, annotation: Any) -> str:
        raw = self._raw
        action = raw.FPDFLink_GetAction(link) if (link := raw.FPDFAnnot_GetLink(annotation)) else None
        if not action or raw.FPDFAction_GetType(action) != _URI:
            return ""
        path = octets(lambda *to: raw.FPDFAction_GetURIPath(self._page.pdf.raw, action, *to), _ADDRESS)
        address = one_line(path.partition(b"\0")[0].decode("utf-8", "replace"))
        return f"link: {address}" if address else ""

    def _note(self, annotation: Any, subtype: int) -> str:
        if subtype == _FILE:
            self._pinned(annotation)
        text = normalise(self._string(annotation, b"Contents")[:_CHARACTERS]).strip()
        author = one_line(self._string(annotation, b"T"), 100)
        marked = self._marked(annotation) if subtype in _MARKS else ""
        if subtype == _STAMP and not text:
            text = one_line(self._string(annotation, b"Name") or self._string(annotation, b"Subj"), 100)
            text = f"stamp: {text}" if text else ""
        if not text:
            said = f'{_MARKS[subtype]}: "{marked}"' if marked else ""
            return f"{author} {said}" if said and author else said
        said = f'{text} (on "{marked}")' if marked and marked != text else text
        return f"{author}: {said}" if author else said

    def _pinned(self, annotation: Any) -> None:
        from pypdfium2 import PdfAttachment

        if handle := self._raw.FPDFAnnot_GetFileAttachment(annotation):
            self.files.append(PdfAttachment(handle, self._page.pdf))

    def _marked(self, annotation: Any) -> str:
        """The words under a mark."""
        raw = self._raw
        quad = raw.FS_QUADPOINTSF()
        words = []
        for index in range(min(raw.FPDFAnnot_CountAttachmentPoints(annotation), _QUADS)):
            if raw.FPDFAnnot_GetAttachmentPoints(annotation, index, quad):
                across = (quad.x1, quad.x2, quad.x3, quad.x4)
                up = (quad.y1, quad.y2, quad.y3, quad.y4)
                inset = 0.15 * (max(up) - min(up))  # a mark reaches into the lines above and below
                if self._textpage is None:
                    self._textpage = self._page.get_textpage()
                words.append(
                    self._textpage.get_text_bounded(min(across), min(up) + inset, max(across), max(up) - inset)
                )
        return one_line(" ".join(words), 1_000)

    def _string(self, annotation: Any, key: bytes) -> str:
        return wide(lambda *to: self._raw.FPDFAnnot_GetStringValue(annotation, key, *to))


def _named(name: str, value: str) -> str:
    value = normalise(value[:_CHARACTERS]).strip()
    return f"{one_line(name)}: {value}" if name and value else value
