"""Calendars and contact cards: what an invitation shows, in any of their versions."""

import base64

from tests.ingest.made import end, opened, pages, read, sound, text

from unabridged.ingest.document import Kind, Status
from unabridged.ingest.limits import Limits

INVITATION = b"""BEGIN:VCALENDAR\r
METHOD:REQUEST\r
BEGIN:VEVENT\r
UID:1@x\r
SUMMARY:Signing\\, at last\r
DTSTART;TZID=Europe/Prague:20260412T100000\r
DTEND:20260412T090000Z\r
RRULE:FREQ=WEEKLY;COUNT=3\r
EXDATE;VALUE=DATE:20260419\r
ORGANIZER;CN="Holt, Dana":mailto:dana@example.org\r
ATTENDEE;CN=Pavel;PARTSTAT=ACCEPTED:mailto:pavel@example.net\r
DESCRIPTION:Line one\\nline \r
 two\\; and the rest\r
BEGIN:VALARM\r
DESCRIPTION:reminder\r
END:VALARM\r
END:VEVENT\r
END:VCALENDAR\r
"""


def test_an_invitation_says_what_when_where_and_who() -> None:
    items = read("a.ics", INVITATION)
    sound(items)
    assert text(items) == (
        "Invitation: Signing, at last\nStart: 2026-04-12 10:00 (Europe/Prague)\nEnd: 2026-04-12 09:00 UTC\n"
        "Repeats: freq weekly, count 3\nNot on: 2026-04-19\nOrganizer: Holt, Dana <dana@example.org>\n"
        "Attendees: Pavel <pavel@example.net> (accepted)\n\nLine one\nline two; and the rest"
    )
    document = opened(items)[0]
    assert (document.kind, document.title, document.meta["date"]) == (
        Kind.CALENDAR,
        "Signing, at last",
        "2026-04-12T10:00:00",
    )


def test_many_events_are_cited_by_their_number() -> None:
    event = b"BEGIN:VEVENT\nSUMMARY:number %d\nDESCRIPTION:" + b"word " * 100 + b"\nEND:VEVENT\n"
    items = read("a.ics", b"BEGIN:VCALENDAR\n" + b"".join(event % n for n in range(1, 21)) + b"END:VCALENDAR\n")
    sound(items)
    assert opened(items)[0].meta["events"] == "20"
    for page in pages(items):
        assert f"number {page.label.removeprefix('event ')}\n" in page.text.split("\n\n")[0] + "\n"


def test_a_file_in_an_event_is_a_document() -> None:
    attached = base64.b64encode(b"The agenda.")
    event = b"BEGIN:VEVENT\nATTACH;VALUE=BINARY;ENCODING=BASE64;X-FILENAME=../agenda.txt:" + attached + b"\n"
    items = read("a.ics", b"BEGIN:VCALENDAR\n" + event)
    assert opened(items)[1].name == "agenda.txt"
    assert text(items, 1) == "The agenda."


def test_calendars_of_version_one_are_read() -> None:
    summary = b"SUMMARY;ENCODING=QUOTED-PRINTABLE;CHARSET=UTF-8:P=C5=99=\n=C3=ADloha\n"
    raw = b"BEGIN:VCALENDAR\nVERSION:1.0\nBEGIN:VEVENT\n"
    assert opened(read("a.vcs", raw + summary))[0].title == "Příloha"


def test_a_calendar_without_entries_is_the_text_that_it_is() -> None:
    assert "LOCATION:Room 4" in text(read("a.ics", b"BEGIN:VCALENDAR\nLOCATION:Room 4\nEND:VCALENDAR"))
    assert end(read("a.ics", b"")).status == Status.NO_TEXT


def test_hostile_calendars_are_bounded() -> None:
    limits = Limits(document_chars=100_000)
    for raw in (
        b"BEGIN:VEVENT\n" * 10_000,
        b"BEGIN:VEVENT\n" + b"ATTENDEE:a@b\n" * 10_000,
        b"BEGIN:VEVENT\nSUMMARY" + b";" * 10_000 + b":x\n",
        b"BEGIN:VEVENT\nDESCRIPTION:" + b"x" * 200_000,
        b'BEGIN:VEVENT\nSUMMARY;X="a' + b'"a' * 5_000,
    ):
        items = read("a.ics", b"BEGIN:VCALENDAR\n" + raw, limits)
        sound(items)
        assert sum(len(page.text) for page in pages(items)) <= 200_000


def test_contact_cards_are_lines_of_people() -> None:
    raw = (
        b"BEGIN:VCARD\nVERSION:3.0\nN:Holt;Dana;;Dr.;\nFN:Dr. Dana Holt\nORG:Orchard Ltd;Leases\n"
        b"TEL;TYPE=WORK,VOICE:+420 1\nitem1.EMAIL;TYPE=INTERNET:dana@example.org\n"
        b"ADR;TYPE=HOME:;;Mill 4;Brno;;60200;CZ\nPHOTO;ENCODING=b:AAAA\nNOTE:keeps bees\nEND:VCARD\n"
        b"BEGIN:VCARD\nVERSION:2.1\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Nov=C3=A1k;Ji=C5=99=C3=AD\nTEL;CELL:2\nEND:VCARD\n"
    )
    items = read("people.vcf", raw)
    sound(items)
    assert text(items) == (
        "Name: Dr. Dana Holt\nOrganisation: Orchard Ltd, Leases\nPhone (work): +420 1\nE-mail: dana@example.org\n"
        "Address (home): Mill 4, Brno, 60200, CZ\nNote: keeps bees\n\nName: Jiří Novák\nPhone (cell): 2"
    )
    assert opened(items)[0].meta["contacts"] == "2"
