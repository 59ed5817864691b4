"""Outlook's formats: saved messages, mailboxes, winmail.dat, bodies in RTF. Real files and the smallest made ones."""

import sys
from pathlib import Path

import pytest
from tests.ingest.made import end, opened, read, sound, text

from unabridged.ingest.document import Item, Kind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.outlook import lzfu, mapi, tnef
from unabridged.ingest.outlook.mapi import Record


def _read(shared_data: Path, name: str) -> list[Item]:
    items = read(name, (shared_data / "ingest" / "mail" / name).read_bytes())
    sound(items)
    return items


def test_a_saved_message_is_read_with_the_messages_in_it(shared_data: Path) -> None:
    items = _read(shared_data, "tk_testMSG_att_msg.msg")
    meta = opened(items)[0].meta
    assert meta["from"] == "Nick Booth <nick.booth@pof.com.au>"
    assert meta["message_id"] == "3975CB0784A2C249A2EDDD4D43C53D08045B971A87@Stitch.pof.com.au"
    assert [(document.parent, document.name, document.kind) for document in opened(items)[1:]] == [
        (0, "Test Attachment.msg", Kind.MESSAGE),
        (0, "smbprn.00009008.KdcPjl.pdf", Kind.PDF),
    ]
    assert "Blah blah blah" in text(items, 1)


def test_an_appointment_says_when_and_where(shared_data: Path) -> None:
    shown = text(_read(shared_data, "tk_testMSG_Appointment.msg"))
    assert "Start: 2017-02-28T18:30:00+00:00\nEnd: 2017-02-28T19:00:00+00:00\nLocation: under lazy dog" in shown


def test_eight_bit_text_without_a_codepage_is_read_by_its_language(shared_data: Path) -> None:
    items = _read(shared_data, "tk_testMSG_chinese.msg")
    assert "中文測試" in text(items)
    assert opened(items)[0].meta["to"].startswith("Tests Chang@FT (張毓倫)")


def test_a_mailbox_gives_its_folders(shared_data: Path) -> None:
    pytest.importorskip("pypff")
    items = _read(shared_data, "tk_testPST_variousBodyTypes.pst")
    messages = opened(items)[1:]
    assert opened(items)[0].kind == Kind.MAILBOX
    assert [message.meta["subject"] for message in messages] == ["original email", *["FW: original email"] * 3]
    assert {message.meta["folder"] for message in messages} == {"Inbox/tmp"}
    assert "This is the original email (html)" in text(items, 1)


def test_without_its_library_a_mailbox_tells_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypff", None)
    closed = end(read("a.pst", b"!BDN" + bytes(600)))
    assert (closed.status, "pip install 'unabridged[outlook]'" in closed.reason) == (Status.UNSUPPORTED, True)


def test_a_damaged_mailbox_is_said_to_be_one() -> None:
    pytest.importorskip("pypff")
    assert end(read("a.pst", b"!BDN" + bytes(600))).status == Status.DAMAGED


def test_winmail_is_taken_apart_within_its_message(shared_data: Path) -> None:
    data = (shared_data / "ingest" / "mail" / "tk_testWINMAIL.dat").read_bytes()
    head = b"From: a@b.c\nSubject: five files\nContent-Type: application/ms-tnef; name=winmail.dat\n\n"
    items = read("a.eml", head + data)
    sound(items)
    assert [document.name for document in opened(items)[1:]] == [
        "quick.doc",
        "quick.html",
        "quick.pdf",
        "quick.txt",
        "quick.xml",
    ]
    assert "These are five files." in text(items)
    assert opened(items)[0].meta["container"] == "winmail.dat"


def test_a_body_in_rtf_is_read(shared_data: Path) -> None:
    assert "Senior Engineer/QADirector Team" in text(_read(shared_data, "mimekit_rtf.tnef"))


def test_a_receipt_says_what_was_read_and_when(shared_data: Path) -> None:
    shown = text(_read(shared_data, "mimekit_garbage-at-end.tnef"))
    assert "Message was read on" in shown
    assert "Reported: 2006-06-28T04:17:19+00:00" in shown


def _attribute(number: int, data: bytes, level: int = 1) -> bytes:
    return (
        bytes([level])
        + number.to_bytes(2, "little")
        + b"\6\0"
        + len(data).to_bytes(4, "little")
        + data
        + (sum(data) & 0xFFFF).to_bytes(2, "little")
    )


def _property(number: int, data: bytes, kind: int = mapi.STRING8) -> bytes:
    return (
        kind.to_bytes(2, "little")
        + number.to_bytes(2, "little")
        + (1).to_bytes(4, "little")
        + len(data).to_bytes(4, "little")
        + data
        + bytes(-len(data) % 4)
    )


def _winmail(*attributes: bytes) -> bytes:
    return tnef.MAGIC + b"\1\0" + b"".join(attributes)


def test_containers_within_containers_end_at_the_limit() -> None:
    data = _winmail(_attribute(0x9003, (1).to_bytes(4, "little") + _property(0x1000, b"the innermost text\0")))
    for level in range(30):
        named = (2).to_bytes(4, "little") + _property(0x3707, b"inner%d\0" % level)
        named += _property(0x3701, bytes(16) + data, mapi.OBJECT)
        data = _winmail(_attribute(0x9002, b"", 2), _attribute(0x9005, named, 2))
    items = read("winmail.dat", data, Limits(depth=3))
    sound(items)
    assert len(opened(items)) == 4
    assert "nested more than 3 levels deep" in end(items, 3).reason


def test_a_container_that_is_cut_short_gives_what_it_has() -> None:
    data = _winmail(
        _attribute(0x9003, (1).to_bytes(4, "little") + _property(0x1000, b"the whole text\0")),
        _attribute(0x9002, b"", 2),
        _attribute(0x8010, b"memo.txt\0", 2),
        _attribute(0x800F, b"half of the memo" + bytes(100), 2),
    )
    items = read("winmail.dat", data[:-90])
    sound(items)
    assert "the whole text" in text(items)
    assert "half of the memo" in text(items, 1)
    assert end(items).reason == "winmail.dat is cut short; attachment memo.txt is cut short"


def test_lengths_that_lie_cost_nothing() -> None:
    huge = (2**32 - 1).to_bytes(4, "little")
    for data in (huge * 4, huge + b"\x1e\x10\x37\0" + huge, (9).to_bytes(4, "little") + b"\x1e\0\x37\0" + huge * 2):
        sound(read("winmail.dat", _winmail(_attribute(0x9003, data), _attribute(0x9004, data))))


def test_compressed_rtf_is_unpacked() -> None:
    # The example of [MS-OXRTFCP] 4.1.
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert lzfu.rtf(packed, 100) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    assert lzfu.rtf(packed[:-12], 100) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello"
    assert lzfu.rtf(packed, 5) == b"{\\rtf"
    assert lzfu.rtf(b"\0\0\0\0\5\0\0\0MELA\0\0\0\0{\\rtf", 100) == b"{\\rtf"
    assert lzfu.rtf(b"no such thing, and longer", 100) == b""


def test_values_are_read_by_their_type() -> None:
    record = Record(
        {
            1: (mapi.UNICODE, "Žádost\0".encode("utf-16-le")),
            2: (mapi.STRING8, b"\x8e\xe1dost\0"),
            3: (mapi.INTEGER, b"\xff\xff\xff\xff"),
            4: (mapi.TIME, (116_444_736_000_000_000).to_bytes(8, "little")),
            5: (mapi.TIME, b"\xff" * 8),
            0x3FFD: (mapi.INTEGER, (1250).to_bytes(4, "little")),
            0x37: (mapi.UNICODE, "\x01\x04Re: x".encode("utf-16-le")),
        }
    )
    assert (record.text(1), record.text(2), record.number(3)) == ("Žádost", "Žádost", -1)
    assert (record.moment(4), record.moment(5)) == ("1970-01-01T00:00:00+00:00", "")
    assert record.line(0x37) == "Re: x"
    assert (record.text(99), record.number(99), record.moment(99), record.raw(99)) == ("", 0, "", b"")
