"""The lines of calendars and contact cards (RFC 5545, RFC 6350, and their 1.0 and 2.1): folded, with parameters.

Linear in its input; never raises. Knows nothing of what a line means.
"""

import binascii
import quopri
import re
from collections.abc import Iterator
from typing import NamedTuple

from unabridged.ingest.texts import charset
from unabridged.ingest.texts.normalise import normalise

_FOLD = re.compile(r"\n[ \t]")
# Possessive: what could be a name in two ways would cost time without end in a line that is none.
_HEAD = re.compile(
    r'\s*(?:[A-Za-z0-9-]{1,60}+\.)?([A-Za-z0-9-]{1,60}+)((?:;(?:[^":;\n]++|"[^"\n]*+"?+)*+){0,100}+):', re.S
)
_PARAMETER = re.compile(r';([^=;:"]{1,60}+)(?:=((?:[^";]++|"[^"]*+"?+)*+))?')
_ESCAPED = re.compile(r"\\(.)", re.S)
_PLAIN = {"n": "\n", "N": "\n"}


class Line(NamedTuple):
    """A line: name and parameter names in upper case; the value as it stands, transfer encodings undone."""

    name: str
    parameters: dict[str, str]
    value: str
    data: bytes = b""  # of a value in base64

    @property
    def text(self) -> str:
        """The value of a text property, for people."""
        return _ESCAPED.sub(lambda match: _PLAIN.get(match[1], match[1]), self.value).strip()

    def pieces(self, mark: str = ";") -> list[str]:
        """The fields of a structured value, for people."""
        found = re.split(rf"(?<!\\){mark}", self.value)
        return [_ESCAPED.sub(lambda match: _PLAIN.get(match[1], match[1]), piece).strip() for piece in found]


def lines(data: bytes, label: str = "") -> Iterator[Line]:
    """The lines of a file. What is no line belongs to none, as a base64 value that was not folded."""
    text = normalise(charset.decode(data, label).text)
    raw = iter(_FOLD.sub("", text).split("\n"))
    pending = next(raw, None)
    while pending is not None:
        line, pending = pending, next(raw, None)
        head = _HEAD.match(line)
        if head is None:
            continue
        parameters = _parameters(head[2])
        value = line[head.end() :]
        encoding = parameters.get("ENCODING", "8BIT").upper()
        if encoding == "QUOTED-PRINTABLE":
            while value.endswith("=") and pending is not None:
                value, pending = f"{value[:-1]}{pending}", next(raw, None)
            decoded = charset.decode(quopri.decodestring(value.encode()), parameters.get("CHARSET", label))
            yield Line(head[1].upper(), parameters, normalise(decoded.text))
        elif encoding in ("BASE64", "B"):
            yield Line(head[1].upper(), parameters, "", _bytes(value))
        else:
            yield Line(head[1].upper(), parameters, value)


def _parameters(text: str) -> dict[str, str]:
    """ "TYPE=home,work" as it is; the bare "HOME" of version 2.1 as a type; a bare encoding as one."""
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(text):
        name, value = match[1].strip().upper(), match[2]
        if value is None:
            name, value = ("ENCODING" if name in ("QUOTED-PRINTABLE", "BASE64", "8BIT", "7BIT") else "TYPE"), name
        value = value.strip().strip('"')
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _bytes(value: str) -> bytes:
    clean = re.sub(r"[^A-Za-z0-9+/]", "", value)
    clean = clean[:-1] if len(clean) % 4 == 1 else clean
    return binascii.a2b_base64(clean + "=" * (-len(clean) % 4))
