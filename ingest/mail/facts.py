"""What the headers of a message say, as the meta of its document. Pure; bounded by the caps of `mime` and `headers`.

Keys, each there only where the header is: subject, from, sender, to, cc, bcc, reply_to, date, date_source, date_raw,
message_id, in_reply_to, references, thread_index (22 bytes, hex), thread_topic, gm_thrid, labels, list_id, flags.
"""

import re
from collections.abc import Iterator
from itertools import chain

from unabridged.ingest.mail import dates, headers
from unabridged.ingest.mail.mime import Entity, base64

_IN_ANGLES = re.compile(r"<([^<>]+)>")
_LETTERS = re.compile(r"[ACDFNORTU]{1,8}")  # of Status and X-Status; a delivery report has another Status
_MOZILLA = ((0x1, "seen"), (0x2, "replied"), (0x4, "flagged"), (0x8, "deleted"), (0x1000, "forwarded"))
_STATUS = {"R": "seen", "A": "replied", "F": "flagged", "T": "draft", "D": "deleted"}
_THREAD_BYTES = 22  # of a Thread-Index: one for the whole thread; what follows is of the message
_ADDRESSES = (("to", "to"), ("cc", "cc"), ("bcc", "bcc"), ("reply-to", "reply_to"))


def facts(root: Entity, dated: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    """The meta of a message; `dated` are its container's dates, for one whose headers have none."""
    sender = headers.addresses(root.all("sender")[:1])
    author = headers.addresses(root.all("from")[:5])
    meta = {"subject": headers.line(root.get("subject")), "from": author or sender}
    if sender and author and sender != author:
        meta["sender"] = sender
    for name, key in _ADDRESSES:
        if values := root.all(name):
            meta[key] = headers.addresses(values[:50])
    meta.update(_date(root, dated))
    meta.update(_threading(root))
    meta["labels"] = _labels(root)
    meta["list_id"] = _list_id(headers.line(root.get("list-id"), 300))
    meta["flags"] = _flags(root)
    return {key: value for key, value in meta.items() if value}


def _date(root: Entity, dated: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The sender's date; where that is none the oldest relay's, the day of delivery, then what the container knows."""
    raw = headers.line(root.get("date"), 100)
    stamp, source = dates.iso(raw)
    if stamp:
        return {"date": stamp, "date_source": source}
    others = (other for other in chain(_delivered(root), dated) if other[0])
    stamp, source = next(others, ("", ""))
    return {"date": stamp, "date_source": source, "date_raw": raw}


def _delivered(root: Entity) -> Iterator[tuple[str, str]]:
    """What the headers say of the way that the message took: days, "" for none, with their sources."""
    for received in reversed(root.all("received")):
        yield dates.iso(headers.line(received.rsplit(b";", 1)[-1], 100))[0], "received"
    for name in ("delivery-date", "x-originalarrivaltime", "resent-date"):
        yield dates.iso(headers.line(root.get(name), 100))[0], name


def _threading(root: Entity) -> dict[str, str]:
    """The message's own id and what it says of the messages it belongs with."""
    own = root.get("message-id")
    topic = root.get("thread-topic")
    return {
        "message_id": next(iter(headers.ids(own)), "") or headers.line(own, 500),
        "in_reply_to": " ".join(headers.ids(root.get("in-reply-to"))),
        "references": " ".join(headers.ids(root.get("references"))),
        "thread_index": thread_index(base64(root.get("thread-index")[:1_000])[0]),
        "thread_topic": headers.line(topic) if topic else "",
        "gm_thrid": headers.line(root.get("x-gm-thrid"), 40),
    }


def thread_index(index: bytes) -> str:
    """What all messages of an Outlook conversation have in common, "" for none."""
    return index[:_THREAD_BYTES].hex() if len(index) >= _THREAD_BYTES else ""


def _labels(root: Entity) -> str:
    """Gmail's labels, Thunderbird's tags, keywords of other programs; separated by ", "."""
    for name, between in (("x-gmail-labels", ","), ("x-keywords", None), ("x-mozilla-keys", None)):
        if value := headers.line(root.get(name)):
            return ", ".join(label for piece in value.split(between) if (label := piece.strip(' "')))
    return ""


def _list_id(value: str) -> str:
    match = _IN_ANGLES.search(value)
    return match[1].strip() if match else value


def _flags(root: Entity) -> str:
    """The state of the message in its mail program, as words."""
    letters = (root.get("status") + root.get("x-status")).decode("ascii", "replace").upper()
    words = [_STATUS[letter] for letter in letters if letter in _STATUS] if _LETTERS.fullmatch(letters) else []
    try:
        bits = int(root.get("x-mozilla-status")[:8] or b"0", 16)
    except ValueError:
        bits = 0
    words += [word for bit, word in _MOZILLA if bits & bit]
    return " ".join(dict.fromkeys(words))
