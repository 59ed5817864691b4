"""Kinds by content first, then by name."""

import pytest

from unabridged.ingest.detect import detect
from unabridged.ingest.document import Kind

MAIL = b"From: a@b.c\r\nSubject: Hello\r\nDate: Tue, 3 Mar 2026 09:15:00 +0100\r\n\r\nHi\r\n"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        pytest.param(b"%PDF-1.7\n", "report.txt", Kind.PDF, id="pdf named txt"),
        pytest.param(b"junk\n%PDF-1.4\n", "a.pdf", Kind.PDF, id="junk before the header"),
        pytest.param(b"", "a.pdf", Kind.PDF, id="empty pdf"),
        pytest.param(b"PK\x03\x04....word/document.xml", "report.pdf", Kind.OTHER, id="docx named pdf"),
        pytest.param(b"<!DOCTYPE html><html>", "report.pdf", Kind.HTML, id="html named pdf"),
        pytest.param(MAIL, "1772526900.M1P1.host,S=230:2,S", Kind.MESSAGE, id="maildir name"),
        pytest.param(MAIL, "note.txt", Kind.MESSAGE, id="message named txt"),
        pytest.param(MAIL.decode().encode("utf-16"), "a.eml", Kind.MESSAGE, id="utf-16 message"),
        pytest.param(b"From a@b.c Tue Mar  3 09:15:00 2026\n" + MAIL, "Inbox", Kind.MAILBOX, id="mbox"),
        pytest.param(
            b"\xef\xbb\xbfFrom - Tue Mar  3 09:15:00 2026\n" + MAIL, "Inbox", Kind.MAILBOX, id="mbox with mark"
        ),
        pytest.param(
            b"From here on the road is closed.\nNote: all day.\n", "a.txt", Kind.TEXT, id="text that begins From"
        ),
        pytest.param(b"Title: a\nAuthor: b\n\ntext", "a.txt", Kind.TEXT, id="text with fields"),
        pytest.param(b"From a@b.c Tue Mar  3 09:15:00 2026\n" + MAIL, "a.eml", Kind.MESSAGE, id="eml with From line"),
        pytest.param(b"# Heading\n", "a.md", Kind.MARKDOWN, id="markdown"),
        pytest.param(b"<p>one</p>", "a.md", Kind.MARKDOWN, id="markdown with tags"),
        pytest.param(b"BZh is a name\n", "a.txt", Kind.TEXT, id="letters of a magic number"),
        pytest.param("会議は四月".encode("cp932"), "a.txt", Kind.TEXT, id="shift-jis"),
        pytest.param(b"\x1f\x8b\x08\x00", "a.txt", Kind.OTHER, id="gzip named txt"),
    ],
)
def test_the_kind_is_found(head: bytes, name: str, kind: Kind) -> None:
    assert detect(head, name).kind == kind


def test_what_is_not_read_has_a_name_for_people() -> None:
    assert detect(b"PK\x03\x04....word/document.xml", "a.docx").what == "Word document (.docx)"
    assert detect(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.msg").what == "Outlook message (.msg)"
    assert detect(b"\x89PNG\r\n\x1a\n", "scan").what == "PNG image"
