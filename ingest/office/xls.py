"""An Excel workbook of the old binary format (.xls) to pages of rows, by xlrd, as its cells are shown."""

import io
from collections.abc import Iterator
from typing import Any

from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office import labels
from unabridged.ingest.office.number_formats import general, moment, shown
from unabridged.ingest.office.ole import stream
from unabridged.ingest.office.ole_encrypted import opened_again
from unabridged.ingest.office.ole_facts import facts
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager
from unabridged.ingest.texts.table import Table, column

EXTRACTOR = "xls 1"
_TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR = 1, 2, 3, 4, 5
_DRAIN = 500  # rows


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """A workbook of Excel 2 to 4, which had no container. Raises Unreadable."""
    return _workbook(source.data, ("", {}), source, reading, place)


def read_ole(container: Any, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The workbook in a container. Raises Unreadable."""
    limit = reading.limits.file_bytes
    data = stream(container, "Workbook", limit) or stream(container, "Book", limit)
    return _workbook(data, facts(container), source, reading, place)


def _workbook(
    data: bytes, about: tuple[str, dict[str, str]], source: Source, reading: Reading, place: Place
) -> Iterator[Item]:
    try:
        book = _opened(data)
    except Exception as error:  # xlrd lets whatever a damaged record causes through
        if "encrypted" in str(error):
            yield from opened_again(source, reading, place)
            return
        reason = f"a damaged Excel workbook ({type(error).__name__}: {one_line(str(error), 200)})"
        raise Unreadable(Status.DAMAGED, reason) from error
    ref = reading.ref()
    title, meta = about
    yield source.opened(ref, place, Kind.SHEET, title, meta)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    notes: list[str] = []
    for index in range(book.nsheets):
        name = one_line(book.sheet_names()[index], 100)
        try:
            sheet = _loaded(book, data, index)
            yield from _sheet(book, sheet, name, pager)
        except (Unreadable, MemoryError):
            raise
        except Exception as error:  # as above
            notes.append(f"sheet {name} is damaged ({type(error).__name__})")
        pager.close()
        yield from pager.take()
        book.unload_sheet(index)
    yield pager.ended(notes, "no cell is filled")


def _opened(data: bytes, formats: bool = True) -> Any:
    """The workbook, with the formats of its cells, or without where they are damaged."""
    import xlrd

    try:
        return xlrd.open_workbook(
            file_contents=data, formatting_info=formats, on_demand=True, ragged_rows=True, logfile=io.StringIO()
        )
    except Exception as error:
        if not formats or "encrypted" in str(error):
            raise
        return _opened(data, formats=False)


def _loaded(book: Any, data: bytes, index: int) -> Any:
    """A sheet; without formats where those are damaged."""
    try:
        return book.sheet_by_index(index)
    except Exception:
        return _opened(data, formats=False).sheet_by_index(index)


def _sheet(book: Any, sheet: Any, name: str, pager: Pager) -> Iterator[Item]:
    label = labels.sheet(pager, name, bool(sheet.visibility))
    remarks: dict[int, list[str]] = {}
    for (row, at), note in sorted(sheet.cell_note_map.items()):
        remarks.setdefault(row, []).append(_remark(row, at, note))
    hidden = [str(row + 1) for row, info in sorted(sheet.rowinfo_map.items()) if info.hidden]
    if hidden:
        more = f" and {len(hidden) - 30} more" if len(hidden) > 30 else ""
        pager.aside(PartKind.NOTE, f"Hidden rows: {', '.join(hidden[:30])}{more}")
    table = Table(pager, label)
    for row in range(sheet.nrows):
        table.add(row + 1, [_shown(book, cell) for cell in sheet.row(row)])
        for remark in remarks.pop(row, ()):
            pager.aside(PartKind.NOTE, remark)
        if row % _DRAIN == 0:
            yield from pager.take()
    for rest in remarks.values():
        for remark in rest:
            pager.aside(PartKind.NOTE, remark)
    table.finish()


def _remark(row: int, at: int, note: Any) -> str:
    who = one_line(note.author or "", 100)
    by = f" by {who}" if who else ""
    return f"Comment on {column(at)}{row + 1}{by}: {one_line(note.text, 5_000)}"


def _shown(book: Any, cell: Any) -> str:
    """A cell's value as it is shown."""
    if cell.ctype == _TEXT:
        return str(cell.value)
    if cell.ctype == _BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype == _ERROR:
        import xlrd

        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR"))
    if cell.ctype not in (_NUMBER, _DATE):
        return ""
    try:
        code = book.format_map[book.xf_list[cell.xf_index].format_key].format_str
    except (KeyError, IndexError, TypeError):
        return moment(cell.value, True, False) if cell.ctype == _DATE else general(cell.value)
    try:
        return shown(cell.value, code, bool(book.datemode))
    except (ValueError, OverflowError):
        return str(cell.value)
