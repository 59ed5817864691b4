"""Makes extracted text safe to store and compare, without changing what a reader sees.

`normalise` is the one gate through which every character of every document passes: no NUL, control characters, lone
surrogates or noncharacters, "\\n" line ends, NFC. It does not fold case, accents or compatibility forms other than
ligatures and shaped Arabic letters: the text is shown and quoted as it stands, and the index does its own folding.
"""

import re
import unicodedata

_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
# What fonts of Adobe's have in the private area by a list of theirs, and the bullets of Symbol and Wingdings.
_PRIVATE = {
    **{0xF730 + digit: str(digit) for digit in range(10)},  # old-style digits
    **{0xF700 + ord(letter): letter for letter in "abcdefghijklmnopqrstuvwxyz"},  # small capitals
    **{0xF000 + ord(sign): sign for sign in "()+,-./0123456789:;<=>?"},  # of Symbol
    0xF0B7: "•",
    0xF0A7: "▪",
    0xF0D8: "➢",
    0xF0FC: "✓",
    0xF0E0: "→",
}
_LINE_ENDS = {0x0B: "\n", 0x0C: "\n", 0x85: "\n", 0x2028: "\n", 0x2029: "\n\n"}
# Bidi embeddings and overrides, tags and interlinear marks: invisible, and able to show a text that is not there.
_INVISIBLE = [
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xE0000, 0xE0080),
    *range(0xFFF9, 0xFFFC),
    0xFEFF,
    0x200B,
    0x2060,
]
_CONTROLS = [*range(0x01, 0x09), *range(0x0E, 0x20), *range(0x7F, 0x85), *range(0x86, 0xA0)]
_NONCHARACTERS = [*range(0xFDD0, 0xFDF0), *(p << 16 | low for p in range(17) for low in (0xFFFE, 0xFFFF))]

_TABLE: dict[int, str | None] = {
    **dict.fromkeys(_INVISIBLE),
    **dict.fromkeys(_CONTROLS),
    **dict.fromkeys(_NONCHARACTERS),
    **_LIGATURES,
    **_PRIVATE,
    **_LINE_ENDS,
    # A reader sees a space and types a space.
    **dict.fromkeys((0xA0, 0x2007, 0x202F), " "),
    0x00: " ",  # a separator in the files that have it; between letters of a broken font the page gate sees it first
}
_SPECIAL = (
    "\x00-\x08\x0b-\x1f\x7f-\xa0\u2007\u200b\u2028-\u202f\u2060\u2066-\u2069\uf000-\uf77a\ufb00-\ufb06\ufdd0-\ufdef\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\U0001fffe\U0001ffff\U000e0000-\U000e007f"
)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
# Arabic letters in the shape that they have on paper, and their ligatures; not the words and signs among them.
_SHAPES = "\ufb50-\ufbb1\ufbd3-\ufd3d\ufd50-\ufd8f\ufd92-\ufdc7\ufe70-\ufe74\ufe76-\ufefc"
_SHAPED = re.compile(f"[{_SHAPES}]+")
_ANY = re.compile(f"[{_SPECIAL}{_SHAPES}\u00ad\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SOFT_HYPHEN = re.compile("\u00ad(?:[ \t]*\r?\n[ \t]*)?")


def mend_surrogates(text: str) -> str:
    """Surrogate pairs become the character they stand for; lone ones are dropped."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore"))


def normalise(text: str) -> str:
    """The text that is stored and shown."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text.translate(_TABLE) if _CONTROL.search(text) else text
    if _ANY.search(text):
        text = mend_surrogates(text)
        text = _SOFT_HYPHEN.sub("", text).translate(_TABLE)
        text = _SHAPED.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def one_line(text: str, limit: int = 500) -> str:
    """A title or a header value: normalised, white space folded, at most `limit` characters."""
    line = " ".join(normalise(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
