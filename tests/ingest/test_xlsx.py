"""Workbooks: cells as they are shown, every sheet told, rows numbered."""

import pytest
from tests.ingest.made import end, opened, pages, read, sound, text
from tests.ingest.office import relations, row, xlsx, zipped

from unabridged.ingest.document import Kind, PartKind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.office.number_formats import shown

STYLES = (
    '<numFmts><numFmt numFmtId="164" formatCode="#,##0.00\\ &quot;Kč&quot;"/></numFmts>'
    '<cellStyleXfs><xf numFmtId="9"/></cellStyleXfs>'
    '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="10"/></cellXfs>'
)


def _cell(ref: str, value: str, facts: str = "", formula: str = "") -> str:
    return f'<c r="{ref}" {facts}>{f"<f>{formula}</f>" if formula else ""}<v>{value}</v></c>'


def test_cells_are_as_they_are_shown() -> None:
    cells = [
        _cell("A2", "0", 't="s"'),
        _cell("B2", "46112", 's="1"'),
        _cell("D2", "1234.5", 's="2"', "SUM(B1:B9)"),
        _cell("E2", "0.125", 's="3"'),
        _cell("F2", "1", 't="b"'),
        _cell("G2", "#REF!", 't="e"'),
        "<c><f>NOW()</f></c>",
    ]
    strings = "<si><r><t>Vendor </t></r><r><t>One</t></r><rPh><t>reading</t></rPh></si>"
    book = xlsx({"Costs": row(1, "Who", "When", "-", "How much") + row(2, *cells)}, strings=strings, styles=STYLES)
    items = read("a.xlsx", book)
    page = pages(items)[0]
    assert page.text.split("\n")[1] == "Vendor One\t2026-03-31\t\t1,234.50 Kč\t12.50%\tTRUE\t#REF!\t=NOW()"
    assert page.label == "sheet Costs, rows 1-2"
    assert opened(items)[0].kind == Kind.SHEET


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        (-12.0, "#,##0;[Red](#,##0)", "(12)"),
        (42.0, "00000", "00042"),
        (46112.4, "dd/mm/yyyy hh:mm", "2026-03-31 09:36"),
        (1.5, "[h]:mm:ss", "36:00:00"),
        (1234567.0, '0.0,,"M"', "1.2M"),
        (1.005, "0.00", "1.01"),
        (123456789.0, "000-00-0000", "123-45-6789"),
        (1 / 3, "General", "0.33333333333"),
        (12345678901234.0, "", "12345678901234"),
        (0.0, '0;-0;"nil"', "nil"),
        (59.0, "yyyy-mm-dd", "1900-02-28"),
        (3.0, "[$-409]d-mmm-yy;@", "1900-01-03"),
        (-0.001, "0.00", "0.00"),
        (1e300, "0.00", "1e+300"),
        (0.00001, "", "0.00001"),
    ],
)
def test_numbers_take_their_format(value: float, code: str, expected: str) -> None:
    assert shown(value, code) == expected


def test_pages_repeat_the_header_and_number_their_rows() -> None:
    rows = row(3, "Lot", "Buyer") + "".join(row(n, f"lot {n}", "x" * 40) for n in range(4, 304))
    items = read("a.xlsx", xlsx({"Sales": rows}))
    found = pages(items)
    assert all(page.text.startswith("Lot\tBuyer\n") for page in found)
    assert found[0].label.startswith("sheet Sales, rows 3-")
    assert found[-1].label.endswith("-303")
    assert found[1].parts[0].kind == PartKind.HEADER
    assert sum(page.text.count("lot ") for page in found) == 300


def test_hidden_sheets_rows_and_columns_are_named_and_comments_stand_with_their_cell() -> None:
    hidden = '<cols><col min="3" max="4" hidden="1"/></cols><sheetData>' + row(1, "a", "b")
    hidden += '<row r="2" hidden="1"><c><v>5</v></c></row></sheetData>'
    comments = '<comments><authors><author>Ann</author></authors><commentList><comment ref="B1" authorId="0"><text><t>'
    files = {
        "xl/worksheets/_rels/sheet2.xml.rels": relations(comments="../comments1.xml"),
        "xl/comments1.xml": comments + "why b?</t></text></comment></commentList></comments>",
    }
    items = read("a.xlsx", xlsx({"Open": row(1, "x"), "Inner|veryHidden": hidden}, files))
    first, second = pages(items)
    assert (first.label, second.label) == ("sheet Open, row 1", "hidden sheet Inner, rows 1-2")
    for said in ("is hidden in its workbook", "Comment on B1 by Ann: why b?", "Hidden rows: 2", "Hidden columns: C-D"):
        assert said in second.text


def test_far_cells_cost_no_tabs_and_rows_without_references_are_counted() -> None:
    cells = _cell("A1", "1") + _cell("XFD1", "2")
    items = read("a.xlsx", xlsx({"S": f'<row r="1">{cells}</row><row><c><v>3</v></c></row>'}))
    assert text(items) == "1\t[XFD] 2\n3"
    assert pages(items)[0].label == "sheet S, rows 1-2"


def test_a_workbook_past_the_limit_says_where_it_stopped() -> None:
    rows = "".join(row(n, "word " * 20) for n in range(1, 2_001))
    items = read("a.xlsx", xlsx({"One": rows, "Two": row(1, "x")}), Limits(document_chars=20_000))
    assert end(items).status == Status.PARTIAL
    assert "sheet One read up to row" in end(items).reason
    assert "sheet Two not read" in end(items).reason


def test_sheets_are_found_where_their_list_is_lost() -> None:
    parts = {
        "xl/workbook.xml": "<workbook><sheets>",
        "xl/worksheets/sheet1.xml": f"<sheetData>{row(1, 'kept')}</sheetData>",
    }
    items = read("a.xlsx", zipped(parts))
    sound(items)
    assert text(items) == "kept"
    assert end(items).status == Status.PARTIAL


def test_an_empty_workbook_says_so() -> None:
    items = read("a.xlsx", xlsx({"S": ""}))
    assert (end(items).status, end(items).reason) == (Status.NO_TEXT, "no cell is filled")
