"""The order in which a page is read: right-to-left lines, columns that the content runs across, and tables, which are
none."""

from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import NameObject
from tests.ingest.made import data, entries, line, pages, pdf, read, stream

from unabridged.ingest.document import Flag, Page

PROSE = """
the harbour committee met on Tuesday to review the dredging contract and found it wanting in two points of which the
first concerns the depth of the northern basin and the second the share that the town is to pay for the removal of mud
from the quay before the ferry season begins in April of next year if the weather allows it"""
TO_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
%s
endcmap end end"""


def _set(visual: str, x: int = 72, y: int = 700) -> str:
    """A line of glyphs as they stand from left to right, each 8 points wide."""
    return f"BT /F2 12 Tf {x} {y} Td <{visual.encode('utf-16-be').hex()}> Tj ET\n"


def _with_unicode(*contents: str, ligatures: dict[int, str] | None = None) -> bytes:
    """Pages whose font F2 takes Unicode for its codes; `ligatures` are codes for several characters."""
    writer: PdfWriter = pdf(*contents)
    ranges = [f"<{high:02x}00> <{high:02x}FF> <{high:02x}00>" for high in range(256)]
    blocks = [f"{len(part)} beginbfrange\n" + "\n".join(part) + "\nendbfrange" for part in (ranges[:100], ranges[100:])]
    chars = [f"<{code:04x}> <{text.encode('utf-16-be').hex()}>" for code, text in (ligatures or {}).items()]
    if chars:
        blocks.append(f"{len(chars)} beginbfchar\n" + "\n".join(chars) + "\nendbfchar")
    to_unicode = writer._add_object(stream(TO_UNICODE % "\n".join(blocks).encode()))
    system = entries(Registry="Adobe", Ordering="Identity", Supplement=0)
    inner = entries(Type="/Font", Subtype="/CIDFontType2", BaseFont="/Some", CIDSystemInfo=system, DW=667)
    font = entries(Type="/Font", Subtype="/Type0", BaseFont="/Some", Encoding="/Identity-H")
    font.update(entries(DescendantFonts=[writer._add_object(inner)], ToUnicode=to_unicode))
    for page in writer.pages:
        page["/Resources"]["/Font"][NameObject("/F2")] = font  # type: ignore[index]
    return data(writer)


def _text(content: bytes) -> str:
    return pages(read("a.pdf", content))[0].text


@pytest.mark.parametrize(
    ("visual", "logical"),
    [
        pytest.param("םלוע םולש", "שלום עולם", id="Hebrew"),
        pytest.param("2024 ראוני 4821 תינובשח", "חשבונית 4821 ינואר 2024", id="numbers"),
        pytest.param("12.5% תיבירו 3,400 לש", "של 3,400 וריבית 12.5%", id="amounts"),
        pytest.param("הרבחה Acme Holdings Ltd תא השכר", "רכשה את Acme Holdings Ltd החברה", id="a name in Latin"),
        pytest.param("קוחל (4)(ב)15 ףיעס", "סעיף 15(ב)(4) לחוק", id="brackets"),
        pytest.param("the word םולש means peace", "the word שלום means peace", id="Hebrew in English"),
        pytest.param("Section 15(b) of the Act", "Section 15(b) of the Act", id="no Hebrew"),
    ],
)
def test_lines_from_right_to_left_are_in_reading_order(visual: str, logical: str) -> None:
    assert _text(_with_unicode(_set(visual))) == logical


def test_a_page_set_from_right_to_left_reads_its_mixed_lines_so() -> None:
    # The short Hebrew lines end at one edge on the right, so the line that begins with Latin on paper ends with it.
    lines = [("הנושאר הרוש", 300), ("הצק הינש הרוש", 284), ("Microsoft Corporation Limited תרבח", 124)]
    content = "".join(_set(visual, x, 700 - 20 * n) for n, (visual, x) in enumerate(lines))
    assert _text(_with_unicode(content)).splitlines()[2] == "חברת Microsoft Corporation Limited"


@pytest.mark.parametrize("forms", ["\ufefb", "\ue000"])
def test_lam_alef_stays_lam_alef(forms: str) -> None:
    # As a character of its own, and as a glyph of two characters.
    content = _with_unicode(_set(f"ديدج مالس{forms}"), ligatures={0xE000: "لا"})
    assert _text(content) == "لاسلام جديد"


def _columns(count: int, rows: int = 24, order: str = "rows", x: int = 60, width: int = 150) -> str:
    """Columns of prose, 30 points apart, written by rows, by columns, or the right column first."""
    words = iter(PROSE.split() * 12)
    lines: dict[tuple[int, int], str] = {}
    for column in range(count):
        for row in range(rows):
            text = ""
            while len(text) < width / 6.2:
                text += next(words) + " "
            lines[column, row] = text.strip()
    places = sorted(lines, key=lambda place: (place[1], place[0]) if order == "rows" else place)
    if order == "right":
        places = sorted(lines, key=lambda place: (-place[0], place[1]))
    return "".join(
        f"BT /F1 10 Tf {x + column * (width + 30)} {720 - 14 * row} Td ({lines[column, row]}) Tj ET\n"
        for column, row in places
    )


def _page(content: str) -> Page:
    return pages(read("a.pdf", data(pdf(content))))[0]


@pytest.mark.parametrize("count", [2, 3])
def test_columns_written_by_rows_are_read_one_after_the_other(count: int) -> None:
    page = _page(line("A Title Across The Page", 750) + _columns(count))
    assert Flag.COLUMNS in page.flags
    assert page.text.splitlines()[0] == "A Title Across The Page"
    words = page.text.split()[5:]
    expected = _page(line("A Title Across The Page", 750) + _columns(count, order="columns"))
    assert words == expected.text.split()[5:]
    assert expected.flags == ()


def test_a_right_column_that_is_written_first_is_read_second() -> None:
    assert _page(_columns(2, order="right")).text.split() == _page(_columns(2, order="columns")).text.split()


def test_a_word_broken_at_the_end_of_a_columns_line_is_joined() -> None:
    content = _columns(2).replace("committee) Tj", "commit-) Tj", 1)
    start = content.index("commit-)")
    after = content.index("Td (", content.index("Td (", start) + 4) + 4  # the next line of the same column
    page = _page(content[:after] + "tee " + content[after:])
    assert "committee" in page.text


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param([("Rent", "1,200.00", "1,250.00"), ("Heating", "310.50", "333.10")], id="figures"),
        pytest.param(
            [("Ada Lovelace", "Mathematician", "London"), ("Alan Turing", "Logician", "Manchester")], id="names"
        ),
        pytest.param([("4.1", "The tenant pays the rent", "yes"), ("4.2", "The tenant repairs", "no")], id="clauses"),
        pytest.param(
            [("st sp[0], v0", "// store the primes to the stack of it"), ("xf v5", "// side exit")], id="code"
        ),
    ],
)
def test_tables_keep_their_rows(cells: list[tuple[str, ...]]) -> None:
    rows = cells * 10
    content = "".join(
        f"BT /F1 10 Tf {60 + 180 * column} {720 - 14 * n} Td ({cell}) Tj ET\n"
        for n, row in enumerate(rows)
        for column, cell in enumerate(row)
    )
    page = _page(content)
    assert page.flags == ()
    assert page.text.splitlines()[:2] == [" ".join(row) for row in rows[:2]]


def test_real_files_are_read_in_order(shared_data: Path) -> None:
    found = pages(read("a.pdf", (shared_data / "ingest/made/pdf_two_columns_rowwise.pdf").read_bytes()))[0]
    assert "LEFT20 alpha beta gamma delta\nRIGHT01 one two three four" in found.text
    found = pages(read("a.pdf", (shared_data / "ingest/made/pdf_hebrew_arabic_bidi.pdf").read_bytes()))[0]
    assert found.text.splitlines()[1:] == ["الوثيقة التجريبية الأولى", "Mixed: invoice 4821 של חברת אורן"]
