"""MIME structure of a message: headers, parameters, parts, transfer encodings. Bytes in, bytes out.

Written for what mail really contains: broken boundaries, missing ends, headers of megabytes, thousands of levels. Every
function takes time linear in its input and none recurses or raises. Knows nothing of charsets but for parameters.
"""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote_to_bytes

from unabridged.ingest.mail.headers import NOT_BASE64, decode_header, text_of, unpadded

_KIND = re.compile(r"[\w.+-]+/[\w.+-]+")
_HEADER_LINE = re.compile(rb"([!-9;-~]{1,200})[ \t]*:[ \t]*([^\r\n]*(?:\r?\n[ \t]+[^\r\n]*)*)(?:\r?\n|\Z)")
_LINE = re.compile(rb"([^\n]*)(?:\n|\Z)")
_UNFOLD = re.compile(rb"\r?\n[ \t]+")
_PARAMETER = re.compile(rb";[ \t\r\n]*([^\s=;\"]{1,100})[ \t\r\n]*=[ \t\r\n]*(?:\"((?:[^\"\\]|\\.)*)\"?|([^;]*))")
_CONTINUED = re.compile(r"([^*]+)\*(\d+)?(\*)?$")
_GUESS = re.compile(rb"^--([^\r\n]{1,200}?)[ \t]*\r?\nContent-[A-Za-z-]+:", re.M | re.I)
_BETWEEN = b"\r\n"
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=" + _BETWEEN
_FOREIGN = re.compile(rb"[^A-Za-z0-9+/=\s]|[^\s][ \t]+[^\s]")
_UU = re.compile(rb"^begin [0-7]{3,4} ([^\r\n]{1,200})\r?\n((?:[ -`]{1,62}\r?\n)*?)(?:`|[ ])?\r?\n?end[ \t]*$", re.M)
_PARAMETERS = 100  # of one value
# Folded lines that have lost their indentation stand between headers.
_HEADERS_AHEAD = re.compile(
    rb"(?:[^\r\n]+\r?\n){1,40}?(?:from|to|cc|subject|date|message-id|mime-version|content-[a-z-]+|received|return-path"
    rb"|authentication-results|received-spf|dkim-signature|x-[!-9;-~]+):",
    re.I,
)
_BEHIND_BOUNDARY = re.compile(rb"(--)?[ \t]*(?:\r?\n|\r?\Z)")
_PARTS = 100_000  # of one multipart; what follows is the last
_GARBAGE = 100  # lines that are no headers, skipped in front of further headers


@dataclass(frozen=True)
class Entity:
    """A message or a part: its header fields (names in lower case, values raw and unfolded) and the bytes behind them.
    `kind` is its content type in lower case."""

    fields: tuple[tuple[str, bytes], ...]
    body: bytes
    kind: str
    parameters: dict[str, str]

    def get(self, name: str) -> bytes:
        """The first field of that name, b"" for none."""
        return next(iter(self._named.get(name, ())), b"")

    def all(self, name: str) -> list[bytes]:
        """All fields of that name."""
        return self._named.get(name, [])

    @cached_property
    def _named(self) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for name, value in self.fields:
            found.setdefault(name, []).append(value)
        return found

    @property
    def disposition(self) -> str:
        """ "attachment", "inline" or ""."""
        return self.get("content-disposition").split(b";", 1)[0].strip().decode("ascii", "replace").lower()

    @cached_property
    def _disposed(self) -> dict[str, str]:
        return parameters(self.get("content-disposition"))

    @property
    def filename(self) -> str:
        """The name that the sender gave the part, as it stands there."""
        return self._disposed.get("filename") or self.parameters.get("name") or self.parameters.get("filename") or ""


def parse(data: bytes, default: str = "text/plain", cap: int = 64 * 1024) -> Entity:
    """Takes a part's headers off its body. A header longer than `cap` bytes is cut there."""
    fields, at = _fields(data, cap)
    value = next((v for k, v in fields if k == "content-type"), b"")
    kind = value.split(b";", 1)[0].strip().decode("ascii", "replace").lower()
    if not _KIND.fullmatch(kind):
        kind = "text/plain" if kind else default
    return Entity(tuple(fields), data[at:], kind, parameters(value))


def _fields(data: bytes, cap: int) -> tuple[list[tuple[str, bytes]], int]:
    """Header fields and where the body begins. Mangled "From " lines, and a few lines of garbage, are stepped over."""
    fields: list[tuple[str, bytes]] = []
    at = garbage = 0
    while at < len(data):
        match = _HEADER_LINE.match(data, at)
        if match:
            value = match[2][:cap]
            value = _UNFOLD.sub(b" ", value) if b"\n" in value else value
            fields.append((match[1].decode("ascii").lower(), value.strip()))
            at = match.end()
            continue
        line = _LINE.match(data, at)
        assert line is not None
        if not line[1].strip() and fields:
            return fields, line.end()
        more = _HEADER_LINE.match(data, line.end()) is not None or _HEADERS_AHEAD.match(data, line.end()) is not None
        if garbage >= _GARBAGE or not (more or line[1].startswith((b">From ", b"From ")) or not line[1].strip()):
            return fields, at
        garbage += 1
        at = line.end()
    return fields, at


def parameters(value: bytes) -> dict[str, str]:
    """The parameters of a header value, RFC 2231 continuations and RFC 2047 words decoded."""
    if b";" not in value:
        return {}
    plain: dict[str, str] = {}
    pieces: dict[str, list[tuple[int, bool, bytes]]] = {}
    for match in _PARAMETER.finditer(value[:65_536]):
        name = match[1].decode("ascii", "replace").lower()
        if name in plain or len(plain) >= _PARAMETERS:
            continue
        raw = re.sub(rb"\\(.)", rb"\1", match[2]) if match[2] is not None else match[3].strip().strip(b"'\"")
        continued = _CONTINUED.match(name)
        if continued:
            pieces.setdefault(continued[1], []).append(
                (int(continued[2] or 0), bool(continued[3]) or not continued[2], raw)
            )
        else:
            plain[name] = decode_header(raw)
    return {**plain, **{name: _joined(parts) for name, parts in pieces.items()}}


def _joined(parts: list[tuple[int, bool, bytes]]) -> str:
    """RFC 2231: charset'language'percent-encoded, in numbered pieces."""
    charset, out = "", b""
    for number, encoded, raw in sorted(parts, key=lambda part: part[0])[:1_000]:
        if encoded and number == 0 and raw.count(b"'") >= 2:
            label, _, raw = raw.split(b"'", 2)
            charset = label.decode("ascii", "replace")
        out += unquote_to_bytes(raw) if encoded else raw
    return text_of(out, charset)


def split(entity: Entity) -> tuple[list[bytes], bool]:
    """The raw parts of a multipart and whether its end is there. No parts: the body is not delimited at all."""
    boundary = entity.parameters.get("boundary", "").encode("utf-8", "replace").rstrip()
    found = _split(entity.body, boundary) if boundary else ([], False)
    if not found[0] and (guess := _GUESS.search(entity.body)):
        found = _split(entity.body, guess[1])
    return found


def _split(body: bytes, boundary: bytes) -> tuple[list[bytes], bool]:
    mark = b"--" + boundary
    parts: list[bytes] = []
    start = -1
    at = 0 if body.startswith(mark) else _line_with(mark, body, 0)
    while at >= 0:
        if match := _BEHIND_BOUNDARY.match(body, at + len(mark)):
            if start >= 0:
                parts.append(_without_last_line_end(body[start:at]))
            start = match.end()
            if match[1]:
                return parts, True
            if len(parts) >= _PARTS:
                break
        at = _line_with(mark, body, max(at, start - 1))
    if start >= 0 and (rest := body[start:]).strip():
        parts.append(rest)
    return parts, False


def _line_with(mark: bytes, body: bytes, at: int) -> int:
    """Where the next line begins that begins with `mark`, -1 for none."""
    found = body.find(b"\n" + mark, at)
    return found + 1 if found >= 0 else -1


def _without_last_line_end(part: bytes) -> bytes:
    return part[:-2] if part.endswith(b"\r\n") else part[:-1] if part.endswith(b"\n") else part


def payload(entity: Entity) -> tuple[bytes, bool]:
    """The body with its transfer encoding undone, and whether it is whole."""
    encoding = entity.get("content-transfer-encoding").split(b";", 1)[0].strip().lower()
    if encoding == b"base64":
        return base64(entity.body)
    if encoding == b"quoted-printable":
        return binascii.a2b_qp(entity.body), True
    if encoding in (b"x-uuencode", b"uuencode", b"x-uue", b"uue"):
        found = list(uuencoded(entity.body))
        return (found[0][1], True) if found else (entity.body, not entity.body.strip())
    return entity.body, True


def base64(body: bytes) -> tuple[bytes, bool]:
    """Decodes what can be decoded, and says whether that is all. Lines of text that a list server put behind it, and
    stray characters, are stepped over; texts put one behind the other are both read."""
    if not body.translate(None, _BASE64) or not _FOREIGN.search(body):
        return _decoded(body)
    lines, whole = [], True
    for line in body.split(b"\n"):
        if _FOREIGN.search(line):
            whole = False
            line = line.split(b"=", 1)[0] + b"=" if b"=" in line else b"" if len(line.split()) > 1 else line
        lines.append(line)
    data, closed = _decoded(b"\n".join(lines))
    return data, whole and closed


def _decoded(body: bytes) -> tuple[bytes, bool]:
    out, whole = [], True
    *padded, last = body.split(b"=")
    for run in (*filter(None, padded), last):
        clean = run.translate(None, _BETWEEN) if not run.translate(None, _BASE64) else NOT_BASE64.sub(b"", run)
        whole = whole and len(clean) % 4 != 1 and (run is not last or len(clean) % 4 == 0)
        out.append(unpadded(clean))
    return b"".join(out), whole


def uuencoded(body: bytes) -> Iterator[tuple[str, bytes, int, int]]:
    """The uuencoded files in a text: name, content, and where they stand."""
    for match in _UU.finditer(body):
        lines = []
        for line in match[2].splitlines():
            try:
                lines.append(binascii.a2b_uu(line))
            except binascii.Error:
                count = (((line[0] - 32) & 63) * 4 + 5) // 3
                lines.append(_uu_loose(line[:count]))
        yield decode_header(match[1]), b"".join(lines), match.start(), match.end()


def _uu_loose(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        return b""
