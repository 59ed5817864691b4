"""An Excel workbook (.xlsx, .xlsm) to pages of rows, as its cells are shown. Memory is bounded by its distinct texts.

Every sheet is read; one that is hidden says so in its label and on its first page. Comments stand on the page of their
cell, hidden rows and columns are named at the sheet's end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from unabridged.ingest.archives.zipfiles import Zip
from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office import labels
from unabridged.ingest.office.embedded import children
from unabridged.ingest.office.opc import Drawing, Package
from unabridged.ingest.office.xlsx_sheet import Comments, Formats, Rows, SharedStrings
from unabridged.ingest.office.xmlfeed import Quiet, attribute
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager
from unabridged.ingest.texts.table import Table

EXTRACTOR = "xlsx 1"
_SHEETS = 5_000


@dataclass(frozen=True)
class _Sheet:
    name: str
    relation: str
    hidden: bool


@dataclass
class _Workbook(Quiet):
    """Reads xl/workbook.xml."""

    sheets: list[_Sheet] = field(default_factory=list)
    from_1904: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet" and len(self.sheets) < _SHEETS:
            hidden = attributes.get("state", "visible") != "visible"
            title = one_line(attributes.get("name", ""), 100)
            self.sheets.append(_Sheet(title, attribute(attributes, "id") or "", hidden))
        elif name == "workbookPr":
            self.from_1904 = attributes.get("date1904") in ("1", "true")


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The workbook, and what is embedded in it."""
    package = Package(archive)
    main = package.main("xl/workbook.xml")
    workbook = _Workbook()
    package.read(main, workbook)
    parts = {relation.id: relation for relation in package.relations(main)}
    places = [(sheet, parts[sheet.relation].target) for sheet in workbook.sheets if sheet.relation in parts]
    if len(places) < len(workbook.sheets) or not places:
        places = places or _by_name(archive, workbook.sheets)
        package.notes.append("its list of sheets is damaged")
    if not places:
        raise Unreadable(Status.DAMAGED, "; ".join(["a workbook without sheets", *package.notes]))
    ref = reading.ref()
    title, meta = package.metadata()
    yield source.opened(ref, place, Kind.SHEET, title, meta)
    strings, formats = SharedStrings(), Formats(workbook.from_1904)
    for kind, handler in (("sharedStrings", strings), ("styles", formats)):
        for part in package.related(main, kind)[:1]:
            package.read(part, handler)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    for sheet, part in places:
        yield from _sheet(package, sheet, part, strings, formats, pager)
    yield from children(package, "xl", reading, Place(parent=ref, depth=place.depth + 1))
    yield pager.ended(package.notes, "no cell is filled")


def _by_name(archive: Zip, sheets: list[_Sheet]) -> list[tuple[_Sheet, str]]:
    """The sheets that are there, where what should list them is lost."""
    names = [member.name for member in archive.members if member.name.lower().startswith("xl/worksheets/sheet")]
    names.sort(key=lambda name: (len(name), name))
    known = {str(n): sheet for n, sheet in enumerate(sheets, 1)}
    return [(known.get(str(n), _Sheet(str(n), "", False)), name) for n, name in enumerate(names[:_SHEETS], 1)]


def _sheet(
    package: Package, sheet: _Sheet, part: str, strings: SharedStrings, formats: Formats, pager: Pager
) -> Iterator[Item]:
    if pager.left_out:
        package.notes.append(f"sheet {sheet.name} not read")
        return
    kinds: dict[str, list[str]] = {}
    for relation in package.relations(part):
        kinds.setdefault(relation.kind, []).append(relation.target)
    comments = Comments()
    for target in kinds.get("comments", [])[:1]:
        package.read(target, comments)
    name = labels.sheet(pager, sheet.name, sheet.hidden)
    table = Table(pager, name)
    rows = Rows(table, pager, strings.found, formats, comments.found)
    for _ in package.feed(part, rows):
        yield from pager.take()
        if pager.left_out:
            package.notes.append(f"{name} read up to row {rows.number:,}")
            break
    rows.finish()
    for target in kinds.get("drawing", []):
        _drawn(package, target, pager)
    if pager.filled:
        pager.close(None if table.empty else pager.label)
    yield from pager.take()


def _drawn(package: Package, part: str, pager: Pager) -> None:
    """Text boxes of a sheet, and what its charts say."""
    charts = package.related(part, "chart")[:200]
    for target in (part, *charts):
        drawing = Drawing()
        package.read(target, drawing)
        pager.aside(PartKind.NOTE, " | ".join(drawing.lines[:1_000]))
