"""Properties of Outlook's objects, as .msg, .pst and winmail.dat have them: numbers with a type and bytes.

Pure values. The containers fill a `Record`; what it says as a message is for `mapi_letter`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from unabridged.ingest.texts import charset
from unabridged.ingest.texts.normalise import normalise, one_line

INTEGER16, INTEGER, BOOLEAN, INTEGER64, TIME = 0x0002, 0x0003, 0x000B, 0x0014, 0x0040
STRING8, UNICODE, BINARY, OBJECT = 0x001E, 0x001F, 0x0102, 0x000D
MULTIPLE = 0x1000  # added to the type of a list
NAMED = 0x8000  # ids from here on mean what the container's table of names says
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_CODEPAGE, _BODY_CODEPAGE, _LANGUAGE = 0x3FFD, 0x3FDE, 0x3FF1
_CODEPAGES = {
    1200: "utf-16-le",
    20127: "ascii",
    20866: "koi8-r",
    20932: "euc-jp",
    21866: "koi8-u",
    50220: "iso-2022-jp",
    50221: "iso-2022-jp",
    50222: "iso-2022-jp",
    50225: "iso-2022-kr",
    51932: "euc-jp",
    51949: "euc-kr",
    52936: "hz",
    54936: "gb18030",
    65000: "utf-7",
    65001: "utf-8",
    **{28590 + part: f"iso-8859-{part}" for part in (*range(1, 10), 13, 15)},
}


# Where an object has no codepage, the language that it was written in tells one.
_LANGUAGES = {0x404: 950, 0x804: 936, 0xC04: 950, 0x411: 932, 0x412: 949, 0x419: 1251, 0x422: 1251, 0x408: 1253}
_LANGUAGES |= {0x41F: 1254, 0x40D: 1255, 0x401: 1256, 0x425: 1257, 0x426: 1257, 0x427: 1257, 0x42A: 1258, 0x41E: 874}
_LANGUAGES |= dict.fromkeys((0x405, 0x40E, 0x415, 0x418, 0x41A, 0x41B, 0x424), 1250)
_NAMES = 20_000
DATA = 0x3701  # the property that is an attachment's content
Names = dict[int, int | str]  # ids of named properties to what they stand for


def names(entries: bytes, strings: bytes) -> Names:
    """What the ids of named properties stand for, from the two streams in which .msg and .pst list them."""
    found: Names = {}
    for start in range(0, min(len(entries) - 7, 8 * _NAMES), 8):
        value = int.from_bytes(entries[start : start + 4], "little")
        number = NAMED + int.from_bytes(entries[start + 6 : start + 8], "little")
        if entries[start + 4] & 1:
            size = int.from_bytes(strings[value : value + 4], "little")
            found[number] = strings[value + 4 : value + 4 + min(size, 500)].decode("utf-16-le", "replace")
        else:
            found[number] = value
    return found


@dataclass
class Record:
    """One object: a message, a recipient or an attachment.

    `properties` maps an id to its type and bytes; `named` maps what a named property is (a number, or its name) to the
    same. `inner` opens the message that an attachment is.
    """

    properties: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    named: dict[int | str, tuple[int, bytes]] = field(default_factory=dict)
    recipients: list["Record"] = field(default_factory=list)
    attachments: list["Record"] = field(default_factory=list)
    inner: Callable[[], "Record"] | None = None
    notes: list[str] = field(default_factory=list)

    def put(self, number: int, kind: int, data: bytes, names: Names) -> None:
        """Adds a property; a named one is known by what its id stands for in `names`, and left out where that is
        nothing."""
        if number < NAMED:
            self.properties[number] = (kind, data)
        elif number in names:
            self.named[names[number]] = (kind, data)

    def has(self, key: int | str) -> bool:
        """Whether the property is there."""
        return self._found(key) is not None

    def raw(self, key: int | str) -> bytes:
        """The bytes of a property, b"" for none."""
        found = self._found(key)
        return found[1] if found else b""

    def text(self, key: int | str) -> str:
        """A property as normalised text, "" for none."""
        found = self._found(key)
        if not found:
            return ""
        kind, data = found
        if kind & ~MULTIPLE == UNICODE:
            return normalise(data.decode("utf-16-le", "replace")).strip("\0 ")
        data = data.rstrip(b"\0")
        return normalise(charset.decode(data, self.codepage(kind == BINARY)).text).strip(" ")

    def line(self, key: int | str, limit: int = 1_000) -> str:
        """A property as one line. Outlook puts two characters about the "Re: " in front of a subject."""
        found = self._found(key)
        if found and found[0] == UNICODE and found[1][:2] == b"\x01\0":
            return one_line(found[1][4:].decode("utf-16-le", "replace"), limit)
        if found and found[0] == STRING8 and found[1][:1] == b"\x01":
            return one_line(charset.decode(found[1][2:], self.codepage()).text.rstrip("\0"), limit)
        return one_line(self.text(key), limit)

    def number(self, key: int | str) -> int:
        """A number or a truth, 0 for none."""
        found = self._found(key)
        size = {INTEGER16: 2, BOOLEAN: 2, INTEGER: 4, INTEGER64: 8}.get(found[0], 0) if found else 0
        return int.from_bytes(found[1][:size], "little", signed=found[0] != BOOLEAN) if found and size else 0

    def moment(self, key: int | str) -> str:
        """A time as ISO 8601 in UTC, "" for none."""
        found = self._found(key)
        if not found or found[0] != TIME or len(found[1]) < 8:
            return ""
        ticks = int.from_bytes(found[1][:8], "little")
        try:
            moment = _EPOCH + timedelta(microseconds=ticks // 10)
        except OverflowError:
            return ""
        return moment.replace(microsecond=0).isoformat() if 1970 <= moment.year <= 2200 else ""

    def codepage(self, body: bool = False) -> str:
        """The charset of 8-bit text, "" where the object does not say."""
        own, of_body = self.number(_CODEPAGE), self.number(_BODY_CODEPAGE)
        number = of_body or own if body else own or _LANGUAGES.get(self.number(_LANGUAGE), 0) or of_body
        return _CODEPAGES.get(number, f"cp{number}") if number > 0 else ""

    def inherit(self, outer: "Record") -> None:
        """Takes over what a recipient or an attachment is not told of its charset."""
        for key in (_CODEPAGE, _BODY_CODEPAGE, _LANGUAGE):
            if key in outer.properties:
                self.properties.setdefault(key, outer.properties[key])

    def _found(self, key: int | str) -> tuple[int, bytes] | None:
        return self.properties.get(key) if isinstance(key, int) and key < NAMED else self.named.get(key)
