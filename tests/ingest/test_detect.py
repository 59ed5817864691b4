"""Kinds by content first, then by name."""

import pytest

from unabridged.ingest.detect import detect
from unabridged.ingest.document import Kind
from unabridged.ingest.texts.text import is_binary

MAIL = b"From: a@b.c\r\nSubject: Hello\r\nDate: Tue, 3 Mar 2026 09:15:00 +0100\r\n\r\nHi\r\n"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        pytest.param(b"%PDF-1.7\n", "report.txt", Kind.PDF, id="pdf named txt"),
        pytest.param(b"junk\n%PDF-1.4\n", "a.pdf", Kind.PDF, id="junk before the header"),
        pytest.param(b"", "a.pdf", Kind.PDF, id="empty pdf"),
        pytest.param(b"PK\x03\x04....word/document.xml", "report.pdf", Kind.WORD, id="docx named pdf"),
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
        pytest.param(b"\x1f\x8b\x08\x00", "a.txt", Kind.ARCHIVE, id="gzip named txt"),
        pytest.param(b"PK\x03\x04....", "a", Kind.ARCHIVE, id="zip without a name"),
        pytest.param(b"{\\rtf1\\ansi", "a.doc", Kind.WORD, id="rtf named doc"),
        pytest.param(b"a\tb\n1\t2\n", "export.xls", Kind.SHEET, id="separated values named xls"),
        pytest.param(b"<html><table><tr><td>1", "export.xls", Kind.HTML, id="html named xls"),
        pytest.param(b"a;b\n1;2\n", "a.csv", Kind.SHEET, id="csv"),
        pytest.param(b"import os\n", "a.py", Kind.CODE, id="code by name"),
        pytest.param(b"#!/bin/sh\necho\n", "configure", Kind.CODE, id="code by its first line"),
        pytest.param(b"<?php ?><html>", "a.php", Kind.CODE, id="code with markup"),
        pytest.param(b'{"a": 1}', "a.json", Kind.TEXT, id="data"),
        pytest.param(b"This is no zip file", "a.docx", Kind.TEXT, id="text named docx"),
        pytest.param(b"\x89PNG\r\n\x1a\n", "scan", Kind.IMAGE, id="png without an ending"),
        pytest.param(b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a.pdf", Kind.IMAGE, id="webp named pdf"),
        pytest.param(bytes(range(256)) * 9, "a.docx", Kind.WORD, id="docx without its beginning"),
    ],
)
def test_the_kind_is_found(head: bytes, name: str, kind: Kind) -> None:
    assert detect(head, name).kind == kind


def test_what_is_not_read_has_a_name_for_people() -> None:
    assert detect(b"7z\xbc\xaf\x27\x1c", "a.7z").what == "7-Zip archive: unpack it first"
    assert detect(b"RIFF\x00\x00\x00\x00WAVEfmt ", "a").what == "WAV audio"
    assert detect(b"AC1032" + bytes(9), "a.dwg").what == "AutoCAD drawing (.dwg): export it as PDF"
    assert detect(b"AC1032 is the part's number.", "a.txt").kind == Kind.TEXT


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"PLAN" + bytes(200) + b"x" * 90, True),
        ("Größe\n".encode("utf-16-le") * 40, False),
        (b"line\n" * 40 + bytes(4_096), False),
        (b"/a/long/path\0/another/long/path\0" * 40, False),
        (b"alpha\0beta\0\0gamma\0" * 9, False),
    ],
    ids=[
        "a format that nobody knows",
        "utf-16",
        "a log that was cut off",
        "names with ends",
        "words with NULs between them",
    ],
)
def test_nuls_among_letters_are_no_text(data: bytes, binary: bool) -> None:
    assert is_binary(data) == binary
