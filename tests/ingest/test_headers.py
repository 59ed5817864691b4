"""Header values, parameters and dates of real and of broken mail."""

import time

import pytest

from unabridged.ingest.mail import dates, headers, mime


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        pytest.param(b"=?utf-8?q?P=C5=99=C3=ADloha?= a.pdf", "Příloha a.pdf", id="encoded word and text"),
        pytest.param(b"=?utf-8?q?=C5?= =?utf-8?q?=BD?=", "Ž", id="a character cut in two"),
        pytest.param(b'"=?utf-8?q?Ji=C5=99=C3=AD?=" <j@x.cz>', '"Jiří" <j@x.cz>', id="word in quotes"),
        pytest.param("Säying Hello".encode(), "Säying Hello", id="raw utf-8"),
        pytest.param(b"=?no-such?q?caf=E9?=", "café", id="invented charset"),
        pytest.param(b"=?broken", "=?broken", id="broken"),
    ],
)
def test_headers_are_decoded(raw: bytes, text: str) -> None:
    assert headers.decode_header(raw) == text


def test_parameters_are_read_in_all_their_forms() -> None:
    value = b"attachment; filename*0*=utf-8''P%C5%99%C3%AD; filename*1=\"loha.pdf\"; size=3"
    assert mime.parameters(value) == {"filename": "Příloha.pdf", "size": "3"}
    assert mime.parameters(b'x; name="a;b \\"c\\".txt"')["name"] == 'a;b "c".txt'


@pytest.mark.parametrize(
    "value",
    [b"text/plain" + b";" * 60_000, b"text/plain" + b"; a" * 20_000, b'text/plain; x="' + b"\\" * 60_000],
    ids=["semicolons", "names", "open quote"],
)
def test_parameters_take_linear_time(value: bytes) -> None:
    start = time.process_time()
    mime.parameters(value)
    assert time.process_time() - start < 1


def test_a_list_of_thousands_of_addresses_is_cut_and_counted() -> None:
    raw = b", ".join(b'"Member %d" <m%d@example.org>' % (n, n) for n in range(10_000))
    shown = headers.addresses([raw])
    assert shown.startswith('"Member 0" <m0@example.org>, ')
    assert shown.endswith("… (10,000 addresses)")


@pytest.mark.parametrize(
    ("raw", "stamp", "source"),
    [
        ("Tue, 03 Mar 2026 09:15:00 +0100", "2026-03-03T09:15:00+01:00", "header"),
        ("Thu, 4 May 2023 02:32:49 +0000 (UTC)", "2023-05-04T02:32:49+00:00", "header"),
        ("4 May 23 10:00 EST", "2023-05-04T10:00:00-05:00", "header"),
        ("Tue, 03 Mar 2026 09:15:00 -0000", "2026-03-03T09:15:00+00:00", "header, zone unknown"),
        ("Tue, 03 Mar 2026 09:15:00", "2026-03-03T09:15:00", "header, no zone"),
        ("Tue, 03 Mar 2026 09:15:00 +9999", "2026-03-03T09:15:00", "header, no such zone"),
        ("Tue Mar  3 09:15:00 2026", "2026-03-03T09:15:00", "header, no zone"),
        ("2026-03-03 09:15:00+01:00", "2026-03-03T09:15:00+01:00", "header"),
        ("Tue, 03 Mar 2026 09:15:00 GMT+0100", "2026-03-03T09:15:00+01:00", "header"),
        ("Di, 3. März 2026 09:15:00 +0100", "2026-03-03T09:15:00+01:00", "header"),
        ("mar., 3 juil. 2026 09:15:00 AEST", "2026-07-03T09:15:00+10:00", "header"),
        ("2026/03/03 09:15", "2026-03-03T09:15:00", "header, no zone"),
        ("Mon, 31 Feb 2022 10:00:00 +0000", "", ""),
        ("Thu, 4 May 2023 25:61:00 +0000", "", ""),
        ("Fri, 01 Jan 0000 00:00:00 +0000", "", ""),
        ("yesterday", "", ""),
    ],
)
def test_dates_are_iso_or_none(raw: str, stamp: str, source: str) -> None:
    assert dates.iso(raw) == (stamp, source)
