"""Mailboxes of every dialect, split without losing or inventing a message."""

import io
import random

import pytest
from tests.ingest.made import opened, read, text

from unabridged.ingest.document import Kind
from unabridged.ingest.mail.mbox import split

FROM = b"From dana@example.org Tue Mar  3 09:15:00 2026\n"


def _bodies(data: bytes, limit: int = 1 << 20) -> list[bytes]:
    return [raw.data.split(b"\n\n", 1)[1].strip() for raw in split(io.BytesIO(data), limit)]


def _message(number: int, body: bytes, extra: bytes = b"") -> bytes:
    return FROM + b"From: dana@example.org\nSubject: m%d\n" % number + extra + b"\n" + body + b"\n\n"


def test_from_lines_in_a_text_do_not_split_it() -> None:
    body = b"a\n\nFrom the desk of the mayor: closed at 10:30.\nSecond line.\nFrom now on: nothing"
    assert _bodies(_message(1, body) + _message(2, b"two")) == [body, b"two"]


def test_escaped_from_lines_lose_one_mark() -> None:
    assert _bodies(_message(1, b">From here\n>>From there\n> From afar")) == [b"From here\n>From there\n> From afar"]


def test_a_content_length_that_holds_is_honoured() -> None:
    body = b"a\n\n" + FROM + b"Subject: quoted mailbox\n\ntext\n>From kept"
    message = _message(1, body, b"Content-Length: %d\n" % len(body))
    assert _bodies(message + _message(2, b"two")) == [body, b"two"]


def test_a_mailbox_in_utf_16_is_split() -> None:
    whole = b"".join(_message(n, b"body %d" % n) for n in range(1, 4)).decode()
    items = read("saved.mbox", whole.encode("utf-16"))
    assert [document.kind for document in opened(items)] == [Kind.MAILBOX, *[Kind.MESSAGE] * 3]
    assert text(items, 3).endswith("body 3")


def test_a_counted_text_without_bare_from_lines_is_escaped_as_well() -> None:
    body = b"a\n\n>From here on\nb"
    message = _message(1, body, b"Content-Length: %d\n" % len(body))
    assert _bodies(message + _message(2, b"two")) == [b"a\n\nFrom here on\nb", b"two"]


def test_a_content_length_that_lies_is_not() -> None:
    assert _bodies(_message(1, b"one", b"Content-Length: 7\n") + _message(2, b"two")) == [b"one", b"two"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="byte order mark"),
        pytest.param(lambda data: data.rstrip(), id="no last line end"),
        pytest.param(lambda data: data.replace(FROM, b"From - Tue Mar  3 09:15:00 2026\n"), id="Thunderbird"),
        pytest.param(lambda data: data.replace(FROM, b"From - \n"), id="bare dash"),
        pytest.param(lambda data: data.replace(b"\n\n" + FROM, b"\n" + FROM), id="no empty lines between"),
        pytest.param(lambda data: b"\n\n" + data, id="empty lines at the start"),
    ],
)
def test_dialects_give_the_same_messages(change) -> None:  # type: ignore[no-untyped-def]
    data = change(b"".join(_message(n, b"body %d" % n) for n in range(1, 5)))
    found = [raw.data.replace(b"\r", b"").split(b"\n\n", 1)[1].strip() for raw in split(io.BytesIO(data), 1 << 20)]
    assert found == [b"body 1", b"body 2", b"body 3", b"body 4"]


def test_an_offset_leads_back_to_its_message() -> None:
    data = b"".join(_message(n, b"body") for n in range(5))
    for raw in split(io.BytesIO(data), 1 << 20):
        assert data[raw.offset :].startswith(FROM)
        assert raw.data[:60] in data[raw.offset : raw.offset + 200]


def test_a_message_over_the_limit_is_cut_and_counted() -> None:
    first, second = split(io.BytesIO(_message(1, b"line of text\n" * 1_000) + _message(2, b"two")), 5_000)
    assert len(first.data) <= 5_000
    assert len(first.data) + first.left_out >= 13_000
    assert second.left_out == 0


@pytest.mark.parametrize("seed", range(30))
def test_no_byte_of_random_mail_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    words = [
        b"word ",
        b"\n",
        b"\n\n",
        b"From ",
        b">From ",
        b"10:30 ",
        b"To: x\n",
        b"\r\n",
        b"a@b.c ",
        b"Content-Length: 9\n",
    ]
    body = b"".join(rng.choice(words) for _ in range(300))
    data = _message(1, body) + _message(2, b"two")
    found = list(split(io.BytesIO(data), 1 << 20))
    kept = b"".join(raw.data for raw in found)
    assert sum(kept.count(word) for word in (b"word ", b"two")) == sum(data.count(word) for word in (b"word ", b"two"))
