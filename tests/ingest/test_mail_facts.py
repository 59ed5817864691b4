"""What headers and places say of a message: threads, lists, labels, state, day."""

import base64
from pathlib import Path

import pytest
from tests.ingest.conftest import Adder
from tests.ingest.made import opened, read

from unabridged.ingest.adding.walk import Found, Passed, walk
from unabridged.ingest.document import Kind
from unabridged.ingest.library import Library
from unabridged.ingest.mail import place as mail_place


def _meta(*lines: bytes) -> dict[str, str]:
    return opened(read("a.eml", b"From: Dana <d@x.org>\nSubject: s\n" + b"\n".join(lines) + b"\n\ntext"))[0].meta


def test_threads_lists_and_labels() -> None:
    index = base64.b64encode(bytes(range(27)))
    meta = _meta(
        b"Thread-Index: " + index,
        b"Thread-Topic: the lease",
        b"X-GM-THRID: 1789",
        b"X-Gmail-Labels: =?utf-8?q?Wichtig,K=C3=BCche?=,Unread",
        b"List-Id: R help <r-help.r-project.org>",
        b"Reply-To: list@x.org",
        b"Sender: office@x.org",
        b"Bcc: hidden@x.org",
    )
    assert meta["thread_index"] == bytes(range(22)).hex()
    assert (meta["thread_topic"], meta["gm_thrid"], meta["list_id"]) == ("the lease", "1789", "r-help.r-project.org")
    assert meta["labels"] == "Wichtig, Küche, Unread"
    assert (meta["reply_to"], meta["sender"], meta["bcc"]) == ("list@x.org", "office@x.org", "hidden@x.org")


@pytest.mark.parametrize(
    ("lines", "flags"),
    [
        ((b"Status: RO", b"X-Status: AF"), "seen replied flagged"),
        ((b"X-Mozilla-Status: 0009",), "seen deleted"),
        ((b"X-Mozilla-Status: 1003",), "seen replied forwarded"),
        ((b"Status: 5.1.1 no such user",), None),
        ((b"X-Mozilla-Status: zz",), None),
    ],
)
def test_the_state_is_told_in_words(lines: tuple[bytes, ...], flags: str | None) -> None:
    assert _meta(*lines).get("flags") == flags


@pytest.mark.parametrize(
    ("lines", "date", "source"),
    [
        ((b"Date: Tue, 3 Mar 2026 09:15:00 +0100",), "2026-03-03T09:15:00+01:00", "header"),
        (
            (b"Date: soon", b"Delivery-date: Tue, 3 Mar 2026 09:15:00 +0100"),
            "2026-03-03T09:15:00+01:00",
            "delivery-date",
        ),
    ],
)
def test_the_day_has_a_source(lines: tuple[bytes, ...], date: str, source: str) -> None:
    meta = _meta(*lines)
    assert (meta["date"], meta["date_source"]) == (date, source)


def test_the_day_of_a_mailbox_line_is_the_last_that_a_header_could_say() -> None:
    data = b"From a@b.c Tue Mar  3 09:15:00 2026\nFrom: a@b.c\nSubject: undated\n\ntext\n"
    meta = opened(read("box.mbox", data * 2))[1].meta
    assert (meta["date"], meta["date_source"], meta["offset"]) == ("2026-03-03T09:15:00", "mbox From line", "0")


def test_apple_mail_tells_state_and_arrival_behind_a_message() -> None:
    message = b"From: a@b.c\nSubject: s\n\ntext\n"
    tail = b"<plist><dict><key>date-received</key><integer>1772526900</integer><key>flags</key><integer>17</integer>"
    meta = opened(read("1.emlx", b"%d\n" % len(message) + message + tail))[0].meta
    assert (meta["flags"], meta["date"], meta["date_source"]) == (
        "seen flagged",
        "2026-03-03T08:35:00+00:00",
        "Apple Mail",
    )


def _box(folder: Path, name: str, text: str = "From: a@b.c\nSubject: s\n\ntext\n") -> Path:
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    path = folder / "cur" / name
    path.write_text(text)
    return path


def test_maildirs_are_walked_without_what_is_no_mail(tmp_path: Path) -> None:
    _box(tmp_path / "Mail", "1772526900.M1.host:2,S")
    _box(tmp_path / "Mail" / ".Archive.2025", "1772526901.M2.host:2,")
    (tmp_path / "Mail" / "tmp" / "1772526902.M3.host").write_text("half")
    (tmp_path / "Mail" / "dovecot.index.log").write_bytes(b"\1\2")
    (tmp_path / "Mail" / ".hidden").mkdir()
    (tmp_path / "Mail" / ".hidden" / "file").write_text("x")
    places = list(walk(tmp_path))
    assert [Path(place.path).name for place in places if isinstance(place, Found)] == [
        "1772526901.M2.host:2,",
        "1772526900.M1.host:2,S",
    ]
    assert {Path(place.path).name: place.files for place in places if isinstance(place, Passed)} == {
        "tmp": 1,
        "dovecot.index.log": 1,
        ".hidden": 1,
    }


def test_indexes_of_mail_programs_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "INBOX").write_text("From a@b Mon Mar  3 09:12:44 2025\nFrom: a@b\n\nx\n")
    (tmp_path / "INBOX.msf").write_text("x")
    (tmp_path / "Unsent.msf").write_text('// <!-- <mdb:mork:z v="1.4"/> -->\n')
    (tmp_path / "genes.msf").write_text("PileUp of sequences")
    (tmp_path / "Box" / "cur").mkdir(parents=True)
    (tmp_path / "Box" / "maildirfolder").write_text("")
    places = list(walk(tmp_path))
    assert [Path(place.path).name for place in places if isinstance(place, Found)] == ["genes.msf", "INBOX"]
    passed = {Path(place.path).name: place.rule for place in places if isinstance(place, Passed)}
    assert {name for name, rule in passed.items() if rule.startswith("an index")} == {
        "INBOX.msf",
        "Unsent.msf",
        "maildirfolder",
    }


def test_a_tmp_folder_elsewhere_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "a.txt").write_text("x")
    assert [type(place) for place in walk(tmp_path)] == [Found]


@pytest.mark.parametrize(
    ("place", "folder", "flags"),
    [
        ("Mail/cur/1772526900.M1.host,S=230:2,FRS", "Mail", "flagged replied seen"),
        ("Mail/.Archive.2025/new/1772526900.M1.host", "Archive/2025", None),
        ("Mail/.Entw&APw-rfe/cur/1772526900.M1.host;2,D", "Entwürfe", "draft"),
    ],
)
def test_maildirs_tell_folder_state_and_day(tmp_path: Path, place: str, folder: str, flags: str | None) -> None:
    path = tmp_path / place
    for part in ("cur", "new"):
        (path.parent.parent / part).mkdir(parents=True, exist_ok=True)
    found = mail_place.of(str(path), 0.0)
    assert (found.meta["folder"], found.meta.get("flags")) == (folder, flags)
    assert found.dated[0] == ("2026-03-03T08:35:00+00:00", "Maildir name")
    assert found.message


def test_other_layouts_tell_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mh").mkdir()
    (tmp_path / "mh" / ".mh_sequences").write_text("unseen: 3 5-7\nreplied: 4\n")
    assert mail_place.of(f"{tmp_path}/mh/4", 0).meta == {"folder": "mh", "flags": "seen replied"}
    assert mail_place.of(f"{tmp_path}/mh/6", 0).meta == {"folder": "mh"}
    assert mail_place.of("/x/V10/A/Work.mbox/Deals.mbox/Data/Messages/1.emlx", 0).meta == {"folder": "Work/Deals"}
    assert mail_place.of("/x/Mail/Archive.sbd/2025", 0).meta == {"folder": "Archive/2025"}
    assert mail_place.of("/x/letters/a.eml", 86_400.0).dated == (("1970-01-02T00:00:00+00:00", "file time"),)


def test_mail_in_a_maildir_is_mail_whatever_it_begins_with(tmp_path: Path, library: Library, added: Adder) -> None:
    _box(tmp_path / "Mail", "1772526900.M1.host:2,S", "no header at all, said the relay\n\nSubject of a text\n")
    done = added(tmp_path / "Mail")
    assert done["1772526900.M1.host:2,S"].kind == Kind.MESSAGE
