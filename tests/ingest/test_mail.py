"""Messages: the text that people see, what is attached, and no part lost without a word."""

from pathlib import Path

import pytest
from tests.ingest.made import data, end, line, opened, pages, pdf, read, sound, text

from unabridged.ingest.document import Flag, Kind, PartKind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.mail.forms import DIFFERS

HEAD = (
    b"From: Dana Holt <dana@example.org>\nTo: pavel@example.net\nSubject: Lease\n"
    b"Date: Tue, 03 Mar 2026 09:15:00 +0100\n"
)


def _multipart(kind: str, *parts: bytes, head: bytes = HEAD) -> bytes:
    body = b"".join(b"--b\n" + part + b"\n" for part in parts)
    return head + b'Content-Type: multipart/%s; boundary="b"\n\n' % kind.encode() + body + b"--b--\n"


def test_a_message_begins_with_its_header_lines() -> None:
    items = read(
        "a.eml", HEAD + b"Message-ID: <1@example.org>\nReferences: <0@example.org>\n\nThe lease ends in June.\n"
    )
    sound(items)
    page = pages(items)[0]
    assert page.text == (
        "Subject: Lease\nFrom: Dana Holt <dana@example.org>\nTo: pavel@example.net\nDate: 2026-03-03T09:15:00+01:00\n\n"
        "The lease ends in June."
    )
    assert page.parts[0].kind == PartKind.HEADER
    assert opened(items)[0].title == "Lease"
    assert opened(items)[0].meta["message_id"] == "1@example.org"
    assert opened(items)[0].meta["references"] == "0@example.org"


def test_plain_text_is_preferred_unless_it_says_nothing() -> None:
    html = b"Content-Type: text/html\n\n<p>The <b>orchard</b> lease"
    assert "plain" in text(read("a.eml", _multipart("alternative", b"\nplain words", html)))
    assert "orchard" in text(read("a.eml", _multipart("alternative", b"Content-Type: text/plain\n\n \n", html)))
    stub = b"\nThis mail needs HTML."
    long = b"Content-Type: text/html\n\n" + b"<p>A paragraph of the real text." * 40
    assert "real text" in text(read("a.eml", _multipart("alternative", stub, long)))


def test_what_only_the_html_says_is_read_too() -> None:
    plain = b"\nYou may not sublet *the quay* (https://x.example/a?b=1).\nThe rent is 1,312 pounds."
    same = b"<p>You may not\nsublet <b>the quay</b>.</p><p>The rent is <a href='https://x.example'>1,312</a> pounds."
    html = b"Content-Type: text/html\n\n"
    items = read("a.eml", _multipart("alternative", plain, html + same))
    assert DIFFERS not in text(items)
    assert "forms" not in opened(items)[0].meta
    for old, new, shown in [
        (b"1,312", b"1,912", "The rent is 1,912 pounds."),
        (b"<p>The rent", b"<p>You may not pay late. The rent", "You may not pay late."),
        (b"<p>The rent", b"<p>Not the rent", "Not the rent"),
    ]:
        items = read("a.eml", _multipart("alternative", plain, html + same.replace(old, new)))
        before, _, behind = text(items).partition(DIFFERS)
        assert "The rent is 1,312 pounds." in before
        assert shown in behind
        assert "sublet" not in behind
        assert opened(items)[0].meta["forms"] == "the HTML says other things than the plain text"


def test_attachments_are_documents_below_the_message() -> None:
    attached = b'Content-Type: application/octet-stream; name="../SCAN.PDF"\n\n' + data(pdf(line("Invoice 4821.")))
    inner = b"Content-Type: message/rfc822\n\nSubject: inner\nFrom: a@b.c\n\nThe inner text."
    items = read("a.eml", _multipart("mixed", b"\nSee files.", attached, inner))
    sound(items)
    assert [(document.name, document.kind) for document in opened(items)[1:]] == [
        ("SCAN.PDF", Kind.PDF),
        ("inner.eml", Kind.MESSAGE),
    ]
    assert text(items, 1) == "Invoice 4821."
    assert "The inner text." in text(items, 2)
    assert "Attachments: SCAN.PDF, inner.eml" in text(items)


def test_parts_without_their_boundaries_are_read_as_text() -> None:
    raw = HEAD + b'Content-Type: multipart/mixed; boundary="never"\n\nText that no boundary frames.\n'
    items = read("a.eml", raw)
    assert "Text that no boundary frames." in text(items)
    assert "salvaged" in opened(items)[0].meta


def test_quotations_are_labelled_and_kept() -> None:
    items = read("a.eml", HEAD + b"\nYes.\n\nOn Monday Pavel wrote:\n> Shall we sign?\n\n-- \nDana\n")
    page = pages(items)[0]
    labelled = {part.kind: page.text[part.start : part.end].strip() for part in page.parts}
    assert labelled[PartKind.QUOTED] == "> Shall we sign?"
    assert labelled[PartKind.ATTRIBUTION] == "On Monday Pavel wrote:"
    assert labelled[PartKind.SIGNATURE] == "-- \nDana"


def test_a_long_message_has_pages_and_its_labels_follow() -> None:
    items = read("a.eml", HEAD + b"\nIntro.\n\n" + b"> quoted line of the old message\n" * 400)
    sound(items)
    found = pages(items)
    assert len(found) > 2
    assert all(part.kind == PartKind.QUOTED for page in found[1:] for part in page.parts)
    assert all(len(page.text) <= 5_000 for page in found)


def test_hidden_html_is_kept_apart() -> None:
    raw = HEAD + b'Content-Type: text/html\n\n<div style="display:none">preheader</div><p>Seen.'
    page = pages(read("a.eml", raw))[0]
    assert page.flags == (Flag.HIDDEN,)
    assert page.parts[-1].kind == PartKind.HIDDEN
    assert page.text.endswith("Seen.\n\npreheader")


def test_what_is_sealed_says_so() -> None:
    items = read("a.eml", HEAD + b"Content-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMIIB")
    assert end(items).status == Status.NO_TEXT
    assert end(items).reason == "encrypted with S/MIME: its text cannot be read"
    items = read("a.eml", HEAD + b"\nHello\n-----BEGIN PGP MESSAGE-----\n\nabc\n-----END PGP MESSAGE-----\n")
    assert end(items).reason == "encrypted with PGP: its text cannot be read"


def test_signed_text_loses_its_armour() -> None:
    signed = (
        b"\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\nBees.\n- -- \n-----BEGIN PGP SIGNATURE-----\nx\n"
        b"-----END PGP SIGNATURE-----\n"
    )
    items = read("a.eml", HEAD + signed)
    assert text(items).split("\n\n", 1)[1] == "Bees.\n-- "
    assert opened(items)[0].meta["signed"] == "PGP"


def test_flowed_text_is_joined() -> None:
    raw = HEAD + b"Content-Type: text/plain; format=flowed\n\nOne \nparagraph.\n> quoted \n> line\n-- \nDana\n"
    assert text(read("a.eml", raw)).endswith("One paragraph.\n> quoted line\n-- \nDana")


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param(lambda raw: raw.decode().encode("utf-16"), id="UTF-16"),
        pytest.param(lambda raw: b"\xef\xbb\xbf" + raw, id="byte order mark"),
        pytest.param(lambda raw: raw.replace(b"\n", b"\r"), id="bare CR"),
        pytest.param(lambda raw: b"\n\n" + raw, id="empty lines in front"),
    ],
)
def test_files_saved_in_odd_ways(saved) -> None:  # type: ignore[no-untyped-def]
    items = read("a.eml", saved(HEAD + b"\nThe text.\n"))
    assert opened(items)[0].meta["subject"] == "Lease"
    assert text(items).endswith("The text.")


def test_apple_mail_files_lose_their_frame() -> None:
    message = HEAD + b"\nThe text.\n"
    items = read("1.emlx", b"%d\n" % len(message) + message + b'<?xml version="1.0"?><plist></plist>')
    assert text(items).endswith("The text.")


def test_a_date_that_is_none_falls_back_to_the_oldest_relay() -> None:
    raw = b"Received: by b; Wed, 4 Mar 2026 11:22:35 +0000\nReceived: by a; Wed, 4 Mar 2026 11:22:33 +0000\n"
    meta = opened(read("a.eml", raw + b"From: a@b.c\nDate: never\n\nx"))[0].meta
    assert (meta["date"], meta["date_source"], meta["date_raw"]) == ("2026-03-04T11:22:33+00:00", "received", "never")


def test_nesting_ends_at_the_limit_and_loses_no_text() -> None:
    raw = HEAD + b"\nThe innermost text."
    for _ in range(30):
        raw = HEAD + b"Content-Type: message/rfc822\n\n" + raw
    items = read("a.eml", raw, Limits(depth=3))
    sound(items)
    assert len(opened(items)) == 4
    assert any("The innermost text." in page.text for page in pages(items, 3))
    assert "nested more than 3 levels deep" in end(items, 3).reason


def test_thousands_of_multiparts_are_walked_without_recursion() -> None:
    raw = b"\nThe innermost text."
    for level in range(400):
        raw = b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n%s\n--b%d--\n' % (level, level, raw, level)
    items = read("a.eml", HEAD + raw)
    sound(items)
    assert "The innermost text." in text(items)


def test_parts_over_the_limit_are_counted() -> None:
    items = read("a.eml", _multipart("mixed", *[b"\nx"] * 50), Limits(parts=10))
    assert end(items).status == Status.PARTIAL
    assert end(items).reason == "more than 10 parts: 41 not read"


def test_a_saved_page_is_its_text() -> None:
    page = b"Content-Type: text/html\nContent-Location: https://x.org/a\n\n<h1>Title</h1><p>words"
    style = b"Content-Type: text/css\nContent-Location: https://x.org/a.css\n\nbody{}"
    image = b"Content-Type: image/png\nContent-Location: https://x.org/a.png\n\nx"
    items = read("a.mht", _multipart("related", page, style, image))
    assert len(opened(items)) == 1
    assert text(items).endswith("Title\n\nwords")
    assert opened(items)[0].meta["images"] == "1"


def test_what_a_mail_program_took_out_is_said() -> None:
    gone = b'Content-Type: text/plain; name="Deleted: a.pdf"\nX-Mozilla-Altered: AttachmentDeleted\n\nYou deleted it.'
    apart = b"Content-Type: application/pdf; name=b.pdf\nX-Apple-Content-Length: 900\n"
    items = read("1.partial.emlx", _multipart("mixed", b"\ntext", gone, apart))
    assert len(opened(items)) == 1
    assert end(items).reason == (
        "attachment Deleted: a.pdf was deleted or detached in Thunderbird; "
        "attachment b.pdf lies apart, in the folder Attachments of Apple Mail"
    )


def test_a_charset_that_is_not_the_one_of_the_label_is_told() -> None:
    meta = opened(read("a.eml", HEAD + "Content-Type: text/plain; charset=iso-8859-1\n\nPříliš".encode()))[0].meta
    assert meta["charset"] == "utf-8 (labelled iso-8859-1)"


def test_an_invitation_that_is_attached_again_is_one_document() -> None:
    invitation = b"\n\nBEGIN:VCALENDAR\nBEGIN:VEVENT\nLOCATION:Room 4\nEND:VCALENDAR"
    beside = b"Content-Type: text/calendar; method=REQUEST" + invitation
    inner = b'Content-Type: multipart/alternative; boundary="a"\n\n--a\n\nCome.\n--a\n' + beside + b"\n--a--"
    items = read("a.eml", _multipart("mixed", inner, b"Content-Type: application/ics; name=invite.ics" + invitation))
    assert [document.name for document in opened(items)[1:]] == ["invite.ics"]


def test_a_file_under_the_label_of_a_message_is_read_as_what_it_is() -> None:
    attached = b"Content-Type: message/rfc822; name=scan.pdf\n\n" + data(pdf(line("Invoice 4821.")))
    items = read("a.eml", _multipart("mixed", b"\nSee file.", attached))
    assert (opened(items)[1].kind, text(items, 1)) == (Kind.PDF, "Invoice 4821.")


def test_an_invitation_beside_the_text_is_attached() -> None:
    invitation = (
        b"Content-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\nBEGIN:VEVENT\nLOCATION:Room 4\nEND:VCALENDAR"
    )
    items = read("a.eml", _multipart("alternative", b"\nPlease come.", invitation))
    assert "Location: Room 4" in text(items, 1)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("made/mail_wrong_charset_label.eml", "žluťoučký"),
        ("made/mail_rfc2047_split_char.eml", "Žádost o prodloužení nájmu sadu"),
        ("made/mail_qp_broken.eml", "Price = 40 €"),
        ("made/mail_base64_broken.eml", "ferry timetable changes on 12 April"),
        ("made/mail_html_only.eml", "Rent\t4 200"),
        ("mail/mk_raw_email_with_illegal_boundary.eml", "Testing outlook"),
    ],
)
def test_real_files_give_what_people_see(shared_data: Path, name: str, found: str) -> None:
    items = read(name, (shared_data / "ingest" / name).read_bytes())
    sound(items)
    assert found in text(items)
