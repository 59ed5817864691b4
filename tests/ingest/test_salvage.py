"""Damaged PDFs: every page that is in the bytes is read, every page that is named and lost keeps its number."""

import zlib

import pytest
from tests.ingest.made import data, end, line, pages, pdf, read, sound, text

from unabridged.ingest.document import Flag, Item, Status
from unabridged.ingest.pdf import objects as pdf_objects
from unabridged.ingest.pdf import salvage

SHEETS = [f"Sheet {n} of the ledger." for n in range(1, 21)]
WHOLE = data(pdf(*(line(sheet) for sheet in SHEETS)))
FONT = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"


def _plain(*objects: bytes, end: bytes = b"trailer\n<< /Root 1 0 R >>\n%%EOF\n") -> bytes:
    """A file of numbered objects without a table."""
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, entry) for number, entry in enumerate(objects, 1))
    return b"%PDF-1.5\n" + body + end


def _stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def _page(number: int, parent: int = 2) -> bytes:
    return b"<< /Type /Page /Parent %d 0 R /Contents %d 0 R >>" % (parent, number)


def _packed(cut: bool) -> bytes:
    """Catalogue, tree and pages in an object stream; with `cut` the file ends within it, before the second page."""
    kids = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 2 /Kids [3 0 R 4 0 R] /Resources %s >>" % FONT,
    ]
    kids += [_page(6), _page(7)]
    starts = [sum(len(kid) + 1 for kid in kids[:index]) for index in range(len(kids))]
    head = b" ".join(b"%d %d" % (number, start) for number, start in enumerate(starts, 1))
    plain = head + b"\n" + b"\n".join(kids)
    packed = zlib.compress(plain, 0)
    if cut:
        packed = packed[: len(packed) - 30]
    stream = b"<< /Type /ObjStm /N 4 /First %d /Filter /FlateDecode /Length %d >>\nstream\n%s" % (
        len(head) + 1,
        len(packed),
        packed,
    )
    streams = [_stream(line(f"Packed {n}.").encode()) for n in (1, 2)]
    content = b"".join(b"%d 0 obj\n%s\nendobj\n" % (number, body) for number, body in enumerate(streams, 6))
    return b"%PDF-1.5\n" + content + b"9 0 obj\n" + stream + (b"" if cut else b"\nendstream\nendobj\n")


def _sheets(items: list[Item]) -> list[str]:
    sound(items)
    return [page.text for page in pages(items)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"junk\n" * 2000 + WHOLE, id="garbage in front"),
        pytest.param(WHOLE[: WHOLE.rindex(b"xref\n", 0, -30)], id="no table, no end"),
        pytest.param(WHOLE[: WHOLE.rindex(b"startxref")] + b"startxref\n99999999\n%%EOF\n", id="table elsewhere"),
        pytest.param(WHOLE + b"\0" * 5000, id="garbage behind"),
        pytest.param(WHOLE.replace(b"%PDF-", b"%QQQ-"), id="no header"),
        pytest.param(WHOLE.replace(b"/Count 20", b"/Count 3 "), id="a count that is too low"),
        pytest.param(WHOLE.replace(b"/Count 20", b"/Count 99"), id="a count that is too high"),
        pytest.param(WHOLE.replace(b"/Count 20", b"/Count -1"), id="a negative count"),
    ],
)
def test_no_page_is_lost(content: bytes) -> None:
    items = read("a.pdf", content)
    assert _sheets(items) == SHEETS
    assert end(items).status == Status.READ


@pytest.mark.parametrize("share", range(20, 100, 5))
def test_cut_anywhere_every_page_that_is_left_is_read(share: int) -> None:
    cut = WHOLE[: len(WHOLE) * share // 100]
    items = read("a.pdf", cut)
    found = _sheets(items)
    assert [sheet for sheet in SHEETS if f"({sheet})".encode() in cut] == [sheet for sheet in found if sheet]
    assert (end(items).status == Status.READ) == (found == SHEETS)
    assert "its end is missing" in end(items).reason or "table of objects" in end(items).reason


def test_pages_that_the_tree_names_keep_their_numbers() -> None:
    kids = b"<< /Type /Pages /Count 5 /Kids [4 0 R 90 0 R 5 0 R] /Resources %s >>" % FONT
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", kids, b"null", _page(6), _page(7)]
    objects += [_stream(line(f"Sheet {n}.").encode()) for n in (1, 5)]
    items = read("a.pdf", _plain(*objects, end=b"startxref\n7\n"))
    assert _sheets(items) == ["Sheet 1.", "", "", "", "Sheet 5."]
    assert end(items).reason.endswith("pages 2-4 could not be read")


def test_pages_of_a_lost_branch_come_where_it_was() -> None:
    kids = b"<< /Type /Pages /Count 3 /Kids [4 0 R 90 0 R] /Resources %s >>" % FONT
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", kids, b"null", _page(7), _page(8, 90), _page(9, 90)]
    objects += [_stream(line(f"Sheet {n}.").encode()) for n in (1, 2, 3)]
    items = read("a.pdf", _plain(*objects, end=b""))
    assert _sheets(items) == ["Sheet 1.", "Sheet 2.", "Sheet 3."]


@pytest.mark.parametrize(("cut", "expected"), [(False, ["Packed 1.", "Packed 2."]), (True, ["Packed 1.", ""])])
def test_object_streams_are_taken_apart_as_far_as_they_go(cut: bool, expected: list[str]) -> None:
    items = read("a.pdf", _packed(cut))
    assert _sheets(items) == expected
    assert end(items).status == (Status.PARTIAL if cut else Status.READ)


def test_a_page_below_thousands_of_levels_is_read() -> None:
    levels = [b"<< /Type /Pages /Count 1 /Kids [%d 0 R] >>" % (number + 1) for number in range(2, 3002)]
    last = b"<< /Type /Page /Resources %s /Contents %d 0 R >>" % (FONT, 3003)
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", *levels, last, _stream(line("Bottom.").encode())]
    assert text(read("a.pdf", _plain(*objects))) == "Bottom."


def test_trees_that_loop_or_multiply_end() -> None:
    loop = b"<< /Type /Pages /Count 9 /Kids [2 0 R 3 0 R 2 0 R] /Resources %s >>" % FONT
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", loop, _page(4), _stream(line("Once.").encode())]
    found = salvage.rebuild(_plain(*objects), 100)
    assert found is not None
    assert found.slots == (0,)
    levels = [b"<< /Type /Pages /Count 1024 /Kids [%s] >>" % (b"%d 0 R " % (n + 1) * 2) for n in range(2, 40)]
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", *levels, _page(41), _stream(line("Once.").encode())]
    found = salvage.rebuild(_plain(*objects), 100)
    assert found is not None
    assert len(found.slots) == 2


def test_a_pdf_inside_a_stream_is_not_taken_for_the_file() -> None:
    inner = WHOLE.replace(b"Sheet", b"Inner")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] /Resources %s >>" % FONT,
        _page(4),
        _stream(line("Outer.").encode()),
        _stream(inner),
    ]
    assert text(read("a.pdf", _plain(*objects, end=b""))) == "Outer."


def test_a_content_that_is_gone_or_does_not_decode_is_no_empty_page() -> None:
    broken = _stream(b"\x99" * 200, b"/Filter /FlateDecode")
    kids = b"<< /Type /Pages /Count 3 /Kids [3 0 R 4 0 R 5 0 R] /Resources %s >>" % FONT
    good, bad = _stream(line("Fine.").encode()), _page(90)
    items = read("a.pdf", _plain(b"<< /Type /Catalog /Pages 2 0 R >>", kids, _page(6), bad, _page(7), good, broken))
    assert [page.flags for page in pages(items)] == [(), (Flag.UNREAD,), (Flag.UNREAD,)]
    assert end(items).reason.endswith("pages 2 and 3 could not be read")


@pytest.mark.parametrize(
    ("body", "key", "value"),
    [
        pytest.param(b"<< /A (1) /B [1 2 << /A 3 >>] /A2 7 0 R >>", b"/A2", b"7 0 R", id="reference"),
        pytest.param(b"<</A(\\)>>)/B<</A/C>>/D<3E3E>>>", b"/D", b"<3E3E>", id="strings"),
        pytest.param(b"<< % /A 1\n /A 2 >>", b"/A", b"2", id="comment"),
        pytest.param(b"<< /A /Name/B 2", b"/B", b"2", id="cut"),
        pytest.param(b"<< /Kids [1 0 R 2 0 R] /B << >> >>", b"/Kids", b"[1 0 R 2 0 R]", id="array"),
    ],
)
def test_dictionaries_are_taken_apart(body: bytes, key: bytes, value: bytes) -> None:
    assert pdf_objects.entries(body)[key] == value
