"""The words of RTF: which groups hold no text, what symbols stand for, and the code pages of its character sets."""

import codecs

_SKIPPED = """
aftncn aftnsep aftnsepc atnid atnparent atnref atndate atrfend atrfstart background bkmkend bkmkstart colorschememapping
colortbl datafield datastore docvar falt filetbl fldinst fontemb formfield ftncn ftnsep ftnsepc generator keycode
latentstyles listoverridetable listtable mmathPr nonshppict objclass objname panose passwordhash pgptbl pict pnseclvl
revtbl rsidtbl rxe shprslt sn sp sv tc template themedata userprops wgrffmtfilter xe xmlnstbl
"""
_READ = "annotation atnauthor footnote nesttableprops pntext shpinst shppict shptxt ud"
# Groups whose text is none of the document's; and those marked as optional whose text is.
SKIPPED = frozenset(_SKIPPED.split())
READ = frozenset(_READ.split())
SYMBOLS = {
    "line": "\n",
    "tab": "\t",
    "emdash": "—",
    "endash": "–",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "bullet": "•",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "zwj": "\u200d",
    "zwnj": "\u200c",
    "nestcell": " | ",
    "nestrow": "; ",
}
PUNCTUATION = {b"~": " ", b"_": "-", b"\t": "\t"}
_CHARSETS = {
    0: "cp1252",
    2: "cp1252",  # symbols
    77: "mac-roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
_PAGES = {708: "iso8859-6", 936: "gb18030", 10000: "mac-roman", 65001: "utf-8"}


def charset_codec(number: int) -> str:
    """The codec of a font's character set, "" for the document's own."""
    return _CHARSETS.get(number, "")


def page_codec(number: int) -> str:
    """The codec of a code page."""
    name = _PAGES.get(number, f"cp{number}")
    try:
        codecs.lookup(name)
    except LookupError:
        return "cp1252"
    return name
