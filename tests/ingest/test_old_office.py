"""Office documents of the old binary formats, made record by record; encrypted ones; what the container may hide."""

import io
import random
import struct

import pytest
from tests.ingest.made import end, opened, pages, read, sound, text
from tests.ingest.office import docx, ole, p

from unabridged.ingest.document import Flag, Kind, PartKind, Status

PAGE = 512


def _doc(body: str, notes: str = "", hidden: tuple[int, int] | None = None, flags: int = 0) -> bytes:
    """A Word document: text in one piece at 2,048, formatting in the pages behind it; `hidden` characters of it."""
    whole = body + notes
    raw = whole.encode("utf-16-le")
    text_at, end_at = 2_048, 2_048 + len(raw)
    chars_page, pars_page = 2_048 // PAGE + 20, 2_048 // PAGE + 21
    low, high = hidden or (0, 0)
    # Runs of characters: before, hidden, behind. A property: number and operand, its length in front.
    places = struct.pack("<4I", text_at, text_at + 2 * low, text_at + 2 * high, end_at)
    chars = places + bytes((0, 200, 0))
    chars = chars.ljust(400, b"\0") + bytes((3,)) + struct.pack("<HB", 0x083C, 1)
    chars = chars.ljust(511, b"\0") + b"\x03"
    # Paragraphs: the first is a heading; a mark of a row's end has its own run.
    ends = [n + 1 for n, char in enumerate(whole) if char in "\r\x07\x0c"]
    starts = [0, *ends[:-1]]
    pars = struct.pack(f"<{len(ends) + 1}I", *(text_at + 2 * n for n in [0, *ends]))
    for n, start in enumerate(starts):
        kind = 1 if n == 0 else 2 if whole[start] == "\x07" else 0
        pars += bytes(((0, 240, 230)[kind],)) + bytes(12)
    pars = pars.ljust(460, b"\0") + bytes((0, 3)) + struct.pack("<HHBB", 0, 0x2417, 1, 0)
    pars = pars.ljust(480, b"\0") + bytes((2,)) + struct.pack("<HB", 1, 0)
    pars = pars.ljust(511, b"\0") + bytes((len(ends),))
    piece = struct.pack("<2I", 0, len(whole)) + struct.pack("<HIH", 0, text_at, 0)
    clx = b"\x02" + struct.pack("<I", len(piece)) + piece
    table = clx.ljust(256, b"\0")
    tables = {33: (0, len(clx)), 12: (256, 12), 13: (288, 12), 2: (320, 10), 3: (352, 8)}
    table += struct.pack("<3I", text_at, end_at, chars_page).ljust(32, b"\0")
    table += struct.pack("<3I", text_at, end_at, pars_page).ljust(32, b"\0")
    table += struct.pack("<2IH", body.find("\x02") if notes else 0, len(body), 1).ljust(32, b"\0")
    table += struct.pack("<2I", 0, len(notes))
    head = bytearray(text_at)
    struct.pack_into("<HH6xH", head, 0, 0xA5EC, 0xC1, 0x0200 | flags)
    struct.pack_into("<2i", head, 0x4C, len(body), len(notes))
    for index, (at, size) in tables.items():
        struct.pack_into("<2I", head, 0x9A + 8 * index, at, size)
    main = bytes(head) + raw
    main = main.ljust(chars_page * PAGE, b"\0") + chars + pars
    return ole({"WordDocument": main, "1Table": table})


def test_a_word_document_has_headings_tables_notes_and_fields() -> None:
    field = "see \x13 HYPERLINK http://x \x14here\x15.\r"
    body = f"Terms\rThe well\x02 is deep.\r{field}Lot\x07Price\x07\x07\x0cSecond page\r"
    items = read("a.doc", _doc(body, "forty metres\r"))
    sound(items)
    first, second = pages(items)
    assert first.text == "# Terms\n\nThe well[^1] is deep.\n\nsee here.\n\nLot\tPrice\n\n[^1] forty metres"
    assert (first.label, second.text) == ("section Terms", "Second page")
    assert opened(items)[0].kind == Kind.WORD


def test_hidden_text_of_a_word_document_is_kept_apart() -> None:
    (page,) = pages(read("a.doc", _doc("Terms\rThe rent is not 200.\r", hidden=(18, 22))))
    assert page.text == "# Terms\n\nThe rent is 200.\n\nHidden text: not"
    assert (page.flags, page.parts[-1].kind) == ((Flag.HIDDEN,), PartKind.HIDDEN)


def test_a_locked_word_document_says_so() -> None:
    assert end(read("a.doc", _doc("Terms\r", flags=0x0100))).status in (Status.NEEDS_PASSWORD, Status.DAMAGED)


def _record(kind: int, body: bytes = b"") -> bytes:
    return struct.pack("<HH", kind, len(body)) + body


def _string(written: str, width: str = "<B") -> bytes:
    return struct.pack(width, len(written)) + b"\1" + written.encode("utf-16-le")


def _xls() -> bytes:
    """A workbook of two sheets: one shown, with texts, a number under a format and a date; one hidden."""
    start = _record(0x0809, struct.pack("<4H2I", 0x0600, 5, 0, 1997, 0, 6))
    formats = _record(0x041E, struct.pack("<H", 164) + _string("0.00%", "<H"))
    styles = b"".join(_record(0x00E0, struct.pack("<3H", 0, form, 0) + bytes(14)) for form in (0, 164, 14))
    font = _record(0x0031, struct.pack("<5H4B", 200, 0, 0, 400, 0, 0, 0, 0, 0) + _string("Arial"))
    shared = _record(0x00FC, struct.pack("<2I", 2, 2) + _string("Lot", "<H") + _string("Žofie", "<H"))
    sheet = _record(0x0809, struct.pack("<4H2I", 0x0600, 0x10, 0, 1997, 0, 6))
    cells = _record(0x00FD, struct.pack("<3HI", 0, 0, 0, 0)) + _record(0x00FD, struct.pack("<3HI", 0, 1, 0, 1))
    cells += _record(0x0203, struct.pack("<3Hd", 1, 0, 1, 0.125)) + _record(0x0203, struct.pack("<3Hd", 1, 1, 2, 46112))
    one, two = (
        sheet + cells + _record(0x000A),
        sheet + _record(0x0203, struct.pack("<3Hd", 4, 0, 0, 7)) + _record(0x000A),
    )

    def bounds(first: int, second: int) -> bytes:
        return b"".join(
            _record(0x0085, struct.pack("<IBB", at, state, 0) + _string(name))
            for at, state, name in ((first, 0, "Sales"), (second, 1, "Inner"))
        )

    head = start + font + formats + styles
    size = len(head) + len(bounds(0, 0)) + len(shared) + 4
    book = head + bounds(size, size + len(one)) + shared + _record(0x000A)
    return ole({"Workbook": book + one + two})


def test_a_workbook_shows_its_cells_and_hidden_sheets() -> None:
    items = read("a.xls", _xls())
    sound(items)
    assert [(page.label, page.text) for page in pages(items)] == [
        ("sheet Sales, rows 1-2", "Lot\tŽofie\n12.50%\t2026-03-31"),
        ("hidden sheet Inner, row 5", "7\n\nThe sheet Inner is hidden in its workbook."),
    ]


def _atom(kind: int, body: bytes, instance: int = 0) -> bytes:
    return struct.pack("<HHI", instance << 4, kind, len(body)) + body


def _box(kind: int, *inner: bytes, instance: int = 0) -> bytes:
    body = b"".join(inner)
    return struct.pack("<HHI", instance << 4 | 0xF, kind, len(body)) + body


def _words(text: str) -> bytes:
    return _atom(0x0FA0, text.encode("utf-16-le"))


def _ppt() -> bytes:
    """A presentation that was saved twice: its first slide has another text now."""
    title = _atom(0x0F9F, struct.pack("<I", 0))
    other = _atom(0x0F9F, struct.pack("<I", 4))
    note = _box(0x03F0, _atom(0x03F1, struct.pack("<2I", 256, 0)), _box(0x040C, _words("say it")))
    old = _box(0x03EE, _box(0x040C, title + _words("Old title")))
    new = _box(0x03EE, _box(0x040C, other + _words("12 percent\rless") + title + _atom(0x0F9E, struct.pack("<I", 0))))
    hidden = _box(0x03EE, _atom(0x03F9, bytes(10) + b"\4" + bytes(5)), _box(0x040C, _words("Plan B")))
    slides = _atom(0x03F3, struct.pack("<5I", 2, 0, 1, 256, 0)) + title + _words("Results")
    slides += _atom(0x03F3, struct.pack("<5I", 4, 0, 0, 257, 0))
    notes = _atom(0x03F3, struct.pack("<5I", 5, 0, 0, 300, 0))
    document = _box(0x03E8, _box(0x0FF0, slides), _box(0x0FF0, notes, instance=2))
    data, places = b"", {}
    for number, record in ((1, document), (2, old), (4, hidden), (5, note)):
        places[number] = len(data)
        data += record
    first = len(data)
    listed = struct.pack("<I2I", 2 << 20 | 1, places[1], places[2]) + struct.pack(
        "<I2I", 2 << 20 | 4, places[4], places[5]
    )
    data += _atom(0x1772, listed)
    edit = len(data)
    data += _atom(0x0FF5, struct.pack("<IIIIIII", 0, 0, 0, first, 1, 0, 0))
    moved = len(data)
    data += new
    second = len(data)
    data += _atom(0x1772, struct.pack("<2I", 1 << 20 | 2, moved))
    last = len(data)
    data += _atom(0x0FF5, struct.pack("<IIIIIII", 0, 0, edit, second, 1, 0, 0))
    user = _atom(0x0FF6, struct.pack("<3I", 20, 0xE391C05F, last))
    return ole({"PowerPoint Document": data, "Current User": user})


def test_a_presentation_is_read_as_it_was_saved_last() -> None:
    items = read("a.ppt", _ppt())
    sound(items)
    assert [(page.label, page.text) for page in pages(items)] == [
        ("slide 1", "# Results\n\n12 percent\nless\n\nNotes: say it"),
        ("hidden slide 2", "Plan B\n\nSlide 2 is hidden in its presentation."),
    ]


def test_a_document_with_a_password_is_read_with_it() -> None:
    from msoffcrypto.format.ooxml import OOXMLFile

    out = io.BytesIO()
    # msoffcrypto encrypts no files of less than 4,096 bytes.
    noise = random.Random(1).randbytes(4_000).hex()
    OOXMLFile(io.BytesIO(docx(p("The secret lease.") + p(noise)))).encrypt("open sesame", out)
    assert end(read("a.docx", out.getvalue(), password="wrong")).status == Status.NEEDS_PASSWORD
    items = read("a.docx", out.getvalue(), password="open sesame")
    assert (text(items)[:17], end(items).status) == ("The secret lease.", Status.READ)


@pytest.mark.parametrize("make", [lambda: _doc("Terms\rx\r"), _xls, _ppt])
def test_damage_ends_with_a_status(make) -> None:  # type: ignore[no-untyped-def]
    chance = random.Random(3)
    whole = make()
    for _ in range(40):
        data = bytearray(whole[: chance.choice((len(whole), chance.randrange(600, len(whole))))])
        for _ in range(chance.choice((1, 5, 30))):
            data[chance.randrange(512, len(data))] = chance.choice((0, 1, 0x7F, 0xFF))
        items = read("a.doc", bytes(data))
        sound(items)
        assert "reading failed" not in end(items).reason


def test_unknown_containers_say_what_they_are() -> None:
    assert "Visio" in end(read("a.vsd", ole({"VisioDocument": b"x"}))).reason
    assert end(read("a.doc", ole({"Something": b"x"}))).status == Status.UNSUPPORTED
    assert end(read("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))).status in (
        Status.DAMAGED,
        Status.UNSUPPORTED,
    )
