"""Hostile messages end in bounded time, with a status and a reason."""

import time

import pytest
from tests.ingest.made import end, read, sound

from unabridged.ingest.limits import Limits

HEAD = b"From: a@b.c\nSubject: s\n"
NESTED = b"The innermost text."
for level in range(2_000):
    NESTED = b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n%s\n--b%d--\n" % (level, level, NESTED, level)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(HEAD + b"Content-Type: text/plain" + b";" * 20_000 + b"\n\nx", id="20,000 semicolons"),
        pytest.param(HEAD + b"To: " + b"a@b.c, " * 10_000 + b"\n\nx", id="10,000 addresses"),
        pytest.param(HEAD + b"To: a@b.c\n" * 20_000 + b"\nx", id="20,000 headers"),
        pytest.param(HEAD + NESTED, id="2,000 nested multiparts", marks=pytest.mark.thorough),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 20_000 + b"--b--\n",
            id="20,000 parts",
        ),
        pytest.param(HEAD + b"Content-Type: message/rfc822\n\n" * 1_500 + b"x", id="1,500 nested messages"),
        pytest.param(HEAD + b"Subject: " + b"=?x-no?q?=E9=E8?= a " * 5_000 + b"\n\nx", id="5,000 unknown charsets"),
        pytest.param(HEAD + b"Content-Type: text/plain; " + b"a\xe9=\xe9; b=\xe8;" * 3_000 + b"\n\nx", id="raw names"),
        pytest.param(HEAD + b"References: " + b"<a@b> " * 50_000 + b"\n\nx", id="50,000 references"),
        pytest.param(HEAD + b"Received: " + b"; x\nReceived: " * 20_000 + b"\n\nx", id="20,000 relays"),
        pytest.param(HEAD + b"\n" + b"begin 644 a\n" * 20_000, id="20,000 uuencoded beginnings"),
        pytest.param(HEAD + b"\n" + b"-----BEGIN PGP SIGNED MESSAGE-----\n" * 5_000, id="5,000 armours"),
        pytest.param(HEAD + b"\n" + b"=ybegin name=a\n" * 20_000, id="20,000 yEnc beginnings"),
        pytest.param(HEAD + b"Content-Transfer-Encoding: base64\n\n" + b"!=" * 200_000, id="broken base64"),
        pytest.param(
            HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\nContent-Type: multipart/mixed\n\n" * 2_000,
            id="2,000 multiparts without boundaries",
        ),
    ],
)
def test_hostile_messages_take_less_than_five_seconds(raw: bytes) -> None:
    start = time.process_time()
    items = read("a.eml", raw, Limits(ocr="off"))
    assert time.process_time() - start < 5
    sound(items)
    assert "reading failed" not in end(items).reason
