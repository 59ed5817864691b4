"""MIME structure of broken mail, in linear time."""

import base64
import random
import time

import pytest

from unabridged.ingest.mail import mime


def _split(body: bytes, boundary: str = "b") -> tuple[list[bytes], bool]:
    return mime.split(mime.parse(b'Content-Type: multipart/mixed; boundary="%s"\n\n' % boundary.encode() + body))


def test_parts_are_found_between_their_boundaries() -> None:
    assert _split(b"preamble\n--b\n\none\n--b\n\ntwo\n--b--\nepilogue") == ([b"\none", b"\ntwo"], True)


def test_a_longer_boundary_is_another_one() -> None:
    assert _split(b"--b\n\none\n--bb\nstill one\n--b--\n") == ([b"\none\n--bb\nstill one"], True)


def test_a_missing_end_loses_nothing() -> None:
    assert _split(b"--b\n\none\n--b\n\ntwo") == ([b"\none", b"\ntwo"], False)


def test_a_wrong_boundary_is_guessed_from_the_parts() -> None:
    assert _split(b"--other\nContent-Type: text/plain\n\none\n--other--\n")[0] == [b"Content-Type: text/plain\n\none"]


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        pytest.param(b"Subject: a\n b\n\nbody", b"a b", id="folded"),
        pytest.param(b"From - Tue\nSubject: a\n\nbody", b"a", id="From line"),
        pytest.param(b"To: x\n>From - Tue\nSubject: a\n\nbody", b"a", id="mangled From line within"),
        pytest.param(b"Subject : a\n\nbody", b"a", id="space before the colon"),
        pytest.param(b"To: x\nsome garbage\nSubject: a\n\nbody", b"a", id="garbage line"),
        pytest.param(b"Received: by x\nwith y;\nat noon\nSubject: a\n\nbody", b"a", id="indentation lost"),
        pytest.param(b"Subject: a\r\n\r\nbody", b"a", id="CRLF"),
        pytest.param(b"lone\rreturn\nSubject: a\n\nbody", b"a", id="lone carriage return"),
        pytest.param(b"Subject: a\nbody", b"a", id="no empty line"),
    ],
)
def test_headers_end_where_the_body_begins(raw: bytes, subject: bytes) -> None:
    entity = mime.parse(raw)
    assert (entity.get("subject"), entity.body) == (subject, b"body")


def test_base64_is_read_around_what_does_not_belong() -> None:
    encoded = base64.encodebytes(b"The ferry leaves at nine. " * 9)
    assert mime.base64(encoded) == (b"The ferry leaves at nine. " * 9, True)
    assert mime.base64(encoded + b"-- list footer, added later\n") == (b"The ferry leaves at nine. " * 9, False)
    assert mime.base64(base64.b64encode(b"one") + b"\n" + base64.b64encode(b"two!") + b"\n") == (b"onetwo!", True)
    assert mime.base64(encoded[:57])[1] is False
    assert mime.base64(b"") == (b"", True)


def test_uuencoded_files_are_found() -> None:
    text = b"See:\nbegin 644 memo.txt\n+:&5L;&\\@=V]R;&0 \n`\nend\nbye"
    ((name, data, start, end),) = mime.uuencoded(text)
    assert (name, data) == ("memo.txt", b"hello world")
    assert text[:start] + text[end:] == b"See:\n\nbye"


@pytest.mark.parametrize("seed", range(50))
def test_no_bytes_raise(seed: int) -> None:
    rng = random.Random(seed)
    words = [b"Content-Type: ", b"multipart/mixed", b"; boundary=", b'"b"', b"\n", b"\r\n", b"--b", b"--", b"=?"]
    words += [b"\xff", b"x*0*="]
    raw = b"".join(rng.choice(words) for _ in range(200))
    entity = mime.parse(raw)
    mime.split(entity)
    mime.payload(entity)
    mime.parameters(raw)
    assert len(entity.body) <= len(raw)


def test_headers_of_a_megabyte_take_linear_time() -> None:
    start = time.process_time()
    mime.parse(b"To: " + b"a@b.c,\n " * 200_000 + b"\n\nbody")
    mime.parse(b"x" * 1_000_000)
    mime.parse(b"a\n" * 200_000)
    assert time.process_time() - start < 2
