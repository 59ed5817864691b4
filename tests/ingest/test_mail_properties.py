"""What must hold for any bytes that claim to be mail or a PDF, on small made-up inputs (`tests/fuzz/fuzz.py` looks
further)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.properties import TARGETS

_WORDS = [
    b"From dana@example.org Tue Mar  3 09:15:00 2026\n",
    b"From - Tue\r\n",
    b">From ",
    b"From ",
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n",
    b"Subject: x\n",
    b"Content-Length: 20\n",
    b"Content-Type: multipart/mixed; boundary=b\n",
    b"Content-Type: message/rfc822\n",
    b"Content-Type: application/pkcs7-mime; smime-type=signed-data\n",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"--b\n",
    b"--b--\n",
    b"=?utf-8?q?=C5?=",
    b"=?utf-8?b?xZk=?=",
    b" 10:30 a@b.c",
    b"begin 644 a.txt\n",
    b"end\n",
    b"BEGIN:VEVENT\n",
    b"DTSTART;TZID=X:20260412T100000\n",
    b"ATTACH;ENCODING=BASE64:aGk=\n",
    b"-----BEGIN PGP SIGNED MESSAGE-----\n",
    b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80",
    b"\x02\x03\x90\x06\x00\x20\x00\x00\x00\x02\x00\x00\x00",
    b"\x1e\x00\x37\x00\x01\x00\x00\x00\x04\x00\x00\x00abc\x00",
    b"\xff\xfe",
    b"\x00",
    b"word ",
]
_BYTES = st.lists(st.one_of(st.sampled_from(_WORDS), st.binary(max_size=12)), max_size=25).map(b"".join)


@pytest.mark.parametrize("target", ["mailbox", "header", "structure", "envelope", "place"])
@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=_BYTES)
def test_any_bytes_are_read_to_their_end(target: str, data: bytes) -> None:
    TARGETS[target](data)


@pytest.mark.thorough
@pytest.mark.parametrize("target", list(TARGETS))
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=_BYTES)
def test_any_bytes_are_read_to_their_end_at_length(target: str, data: bytes) -> None:
    TARGETS[target](data)
