"""Where messages lie in a mailbox: every byte in exactly one, and each found again at its offset."""

import io
import itertools
import time

import pytest

from unabridged.ingest.mail import mbox_split
from unabridged.ingest.mail.mbox import message_at, split

FROM = b"From dana@example.org Tue Mar  3 09:15:00 2026\n"


def _mailbox(count: int, body: bytes = b"body", extra: bytes = b"") -> bytes:
    return b"".join(FROM + b"Subject: m%d\n" % n + extra + b"\n" + body + b"\n\n" for n in range(count))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(_mailbox(5), id="plain"),
        pytest.param(b"\xef\xbb\xbf" + _mailbox(5), id="byte order mark"),
        pytest.param(b"\n\r\n" + _mailbox(5), id="empty lines in front"),
        pytest.param(b"a preamble\n\n" + _mailbox(4), id="text in front"),
        pytest.param(_mailbox(5).replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(_mailbox(5).replace(b"\n", b"\r"), id="CR"),
        pytest.param(_mailbox(5).rstrip(), id="no line end"),
        pytest.param(_mailbox(5, b"a\n\n" + FROM + b"Subject: in\n\nb", b"Content-Length: 64\n"), id="counted"),
    ],
)
def test_spans_tile_the_file_and_offsets_lead_back(data: bytes) -> None:
    file = io.BytesIO(data)
    spans = list(mbox_split.spans(file))
    assert len(spans) == 5
    assert (spans[0].start, spans[-1].end) == (0, len(data))
    assert all(before.end == after.start == after.offset for before, after in itertools.pairwise(spans))
    raws = list(split(file, 1 << 20))
    assert [message_at(file, raw.offset, 1 << 20) for raw in raws] == [raw.data for raw in raws]


def test_messages_longer_than_a_window_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _mailbox(40, b"line of text\n" * 30, b"Content-Length: 391\n")
    whole = list(mbox_split.spans(io.BytesIO(data)))
    monkeypatch.setattr(mbox_split, "_WINDOW", 64)
    assert list(mbox_split.spans(io.BytesIO(data))) == whole
    assert len(whole) == 40


def test_an_offset_within_a_message_begins_none() -> None:
    assert message_at(io.BytesIO(_mailbox(2)), 20, 1 << 20) == b""


def test_hostile_mailboxes_take_linear_time() -> None:
    start = time.process_time()
    for data in (
        b"From \n" * 40_000,
        b"From a@b 10:30\n" * 20_000,
        FROM + b"Content-Length: 99999999\n\n" + b"\n\nFrom x 10:30\nContent-Length: 9\n" * 10_000,
        b"From " + b"x" * 2_000_000,
    ):
        list(mbox_split.spans(io.BytesIO(data)))
    assert time.process_time() - start < 2
