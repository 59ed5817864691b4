"""Bytes to text when the label is missing, unknown or wrong. Knows nothing of files or mail.

The ladder: byte order mark; the declared charset, strictly; UTF-8, strictly; UTF-16 without a mark; UTF-8 with stray
bytes of another charset; chardet; cp1252, which accepts anything. What was used is returned beside the text.
"""

import codecs
import re
from typing import NamedTuple

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What mail programs write, against what they mean. Latin-1 and ASCII labels carry cp1252 text more often than not.
_ALIASES = {
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "ansi_x3.4-1968": "cp1252",
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "iso_8859-1": "cp1252",
    "latin1": "cp1252",
    "latin-1": "cp1252",
    "iso-8859-9": "cp1254",
    "tis-620": "cp874",
    "ks_c_5601": "cp949",
    "ks_c_5601-1987": "cp949",
    "euc-kr": "cp949",
    "ksc5601": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb_2312-80": "gb18030",
    "x-gbk": "gb18030",
    "x-sjis": "cp932",
    "x-ms-cp932": "cp932",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "windows-31j": "cp932",
    "x-mac-roman": "mac-roman",
    "macintosh": "mac-roman",
    "big5": "big5hkscs",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-8-e": "iso-8859-8",
    "unicode-1-1-utf-7": "utf-7",
    "utf8": "utf-8",
    "x-utf-8": "utf-8",
}
_UNKNOWN = frozenset(
    {"", "unknown", "unknown-8bit", "x-unknown", "8bit", "binary", "default", "none", "x-user-defined"}
)
_VALID_UTF8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}",
)
_HIGH = re.compile(rb"[\x80-\xff]+")
_SAMPLE = 200_000
# What "surrogateescape" makes of a byte that is not UTF-8, back to what the byte is in cp1252.
_STRAY = {0xDC00 + b: bytes((b,)).decode("cp1252", "ignore") or chr(b) for b in range(0x80, 0x100)}


class Decoded(NamedTuple):
    """Text and the charset that gave it. `sure` is False for a guess."""

    text: str
    charset: str
    sure: bool


def canonical(label: str) -> str | None:
    """The codec for a charset label of the wild, None when there is no such charset."""
    name = label.strip().strip("\"'").strip().lower()
    if name in _UNKNOWN:
        return None
    name = _ALIASES.get(name, name)
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    return info.name if info._is_text_encoding else None


def decode(data: bytes, declared: str = "") -> Decoded:
    """The text of `data`; `declared` is what its label says, which is believed only as far as it holds."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return Decoded(data[len(bom) :].decode(name, "replace"), name, True)
    codec = canonical(declared)
    if codec and (found := _declared(data, codec)) is not None:
        return found
    if (text := _strict(data, "utf-8")) is not None and not utf16_order(data):
        return Decoded(text, "utf-8", True)
    return _guess(data)


def _declared(data: bytes, codec: str) -> Decoded | None:
    """By the label, as far as it holds."""
    single_byte = codec.startswith(("cp125", "iso8859", "koi8", "mac", "cp8", "cp4"))
    if single_byte and not data.isascii() and (text := _strict(data, "utf-8")) is not None:
        # Text of a single-byte charset is UTF-8 by accident about never: the label is wrong.
        return Decoded(text, "utf-8", True)
    if codec == "cp1252" and not data.isascii():
        return Decoded(_cp1252(data), codec, True) if _plausible_cp1252(data) else None
    strict = _strict(data, codec)
    return None if strict is None else Decoded(strict, codec, True)


def _strict(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except (UnicodeError, LookupError):
        return None


def _cp1252(data: bytes) -> str:
    """cp1252 with its five holes filled from Latin-1."""
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(chr(b) if b in b"\x81\x8d\x8f\x90\x9d" else bytes((b,)).decode("cp1252") for b in data)


def _plausible_cp1252(data: bytes) -> bool:
    """False where runs of high bytes are so long that the text is of another script."""
    runs = _HIGH.findall(data[:_SAMPLE])
    return not runs or sum(map(len, runs)) / len(runs) < 3.5


def is_marked(data: bytes) -> bool:
    """Begins with a byte order mark."""
    return data.startswith(tuple(bom for bom, _ in _BOMS))


def utf16_order(data: bytes) -> str | None:
    """The byte order of UTF-16 without a mark: NULs at every other place."""
    sample = data[:4096]
    if len(sample) < 4 or b"\0" not in sample:
        return None
    half = len(sample) // 2
    even, odd = sample[0::2].count(0) / half, sample[1::2].count(0) / half
    if odd > 0.4 and even < 0.1:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.1 else None


def _guess(data: bytes) -> Decoded:
    if utf16 := utf16_order(data):
        return Decoded(data.decode(utf16, "replace"), utf16, False)
    if (text := _mixed_utf8(data)) is not None:
        return Decoded(text, "utf-8 with stray cp1252", False)
    if name := detected(data):
        text = _strict(data, name)
        if text is not None:
            return Decoded(text, name, False)
    return Decoded(_cp1252(data), "cp1252", False)


def _mixed_utf8(data: bytes) -> str | None:
    """UTF-8 in which single bytes are of another charset: files put together from several sources."""
    high = len(data) - len(data.translate(None, bytes(range(0x80, 0x100))))
    good = sum(map(len, _VALID_UTF8.findall(data)))
    if good * 3 < high * 2:
        return None
    return data.decode("utf-8", "surrogateescape").translate(_STRAY)


def detected(data: bytes) -> str | None:
    """chardet's opinion on a sample, as a codec name; None for binary data."""
    import chardet

    result = chardet.detect(data[:_SAMPLE])
    label = result["encoding"]
    return canonical(label) if label else None
