"""Who wrote a document of the old binary formats, and when: its stream of summary properties ([MS-OLEPS])."""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

from unabridged.ingest.office.ole import stream
from unabridged.ingest.office.rtf_words import page_codec
from unabridged.ingest.texts.normalise import one_line

_STREAM = "\x05SummaryInformation"
_BYTES = 1 << 20
_PROPERTIES = 200
_CODEPAGE, _TEXTS, _TIMES = 1, {2: "title", 3: "subject", 4: "author", 5: "keywords"}, {12: "created", 13: "modified"}
_SHORT, _NARROW, _WIDE, _TIME = 2, 30, 31, 64
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_CLOCKS = range(1980, 2200)  # years; others are durations, or damage


def facts(container: Any) -> tuple[str, dict[str, str]]:
    """Title, and author, subject, keywords, created, modified, as far as they are there."""
    data = stream(container, _STREAM, _BYTES)
    if len(data) < 48:
        return "", {}
    (section,) = struct.unpack_from("<I", data, 44)
    if section + 8 > len(data):
        return "", {}
    (count,) = struct.unpack_from("<I", data, section + 4)
    places: dict[int, int] = {}
    for n in range(min(count, _PROPERTIES)):
        at = section + 8 + 8 * n
        if at + 8 <= len(data):
            name, offset = struct.unpack_from("<2I", data, at)
            places[name] = section + offset
    found = {name: _value(data, places.get(number, len(data)), places) for number, name in (_TEXTS | _TIMES).items()}
    return found.pop("title"), {name: value for name, value in found.items() if value}


def _value(data: bytes, at: int, places: dict[int, int]) -> str:
    """A property as text, "" where it is missing or of another kind."""
    if at + 12 > len(data):
        return ""
    kind, size = struct.unpack_from("<2I", data, at)
    if kind == _NARROW:
        return one_line(data[at + 8 : at + 8 + size].split(b"\0")[0].decode(_codec(data, places), "replace"))
    if kind == _WIDE:
        return one_line(data[at + 8 : at + 8 + 2 * size].decode("utf-16-le", "replace").split("\0")[0])
    if kind == _TIME:
        (ticks,) = struct.unpack_from("<Q", data, at + 4)
        year = 1601 + ticks // (10_000_000 * 86_400 * 365)
        return (_EPOCH + timedelta(microseconds=ticks // 10)).isoformat(timespec="seconds") if year in _CLOCKS else ""
    return ""


def _codec(data: bytes, places: dict[int, int]) -> str:
    at = places.get(_CODEPAGE, len(data))
    if at + 6 > len(data) or struct.unpack_from("<I", data, at)[0] != _SHORT:
        return "cp1252"
    return page_codec(struct.unpack_from("<H", data, at + 4)[0])
