"""RTF to the paragraphs, rows and notes that it holds. One pass over its bytes, groups on a list, no recursion."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from unabridged.ingest.office.rtf_text import Collector, Group
from unabridged.ingest.office.rtf_words import PUNCTUATION, READ, SKIPPED, SYMBOLS, charset_codec, page_codec
from unabridged.ingest.office.word import Teller

_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,32})(-?\d{1,20})?[ ]?|\\'([0-9A-Fa-f]{2})|\\(.)|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)|\\", re.S
)
_HEADING = re.compile(rb"heading ([1-9]);", re.I)
_GROUPS = 5_000  # levels
_OBJECT_BYTES = 64 << 20
_DRAIN = 500  # tokens
_NOTES = {"footnote": "footnote", "annotation": "comment", "header": "Page header", "footer": "Page footer"}
_NOTES |= {f"{where}{side}": f"Page {where}" for where in ("header", "footer") for side in "lrf"}
_FACTS = frozenset({"title", "author", "subject", "keywords"})


class TooDeep(Exception):
    """More groups within groups than any document has."""


class Story:
    """Reads a document. `objects` that are embedded in it are filled on the way; `cite(kind, text)` is told each note
    and gives what stands for it."""

    def __init__(self, teller: Teller, cite: Callable[[str, str], str]) -> None:
        self.objects: list[bytes] = []
        self._teller = teller
        self._text = Collector(teller, cite)
        self._group = Group()
        self._stack: list[Group] = []
        self._bytes = bytearray()
        self._eat = 0  # characters left of a fallback
        self._default = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._headings: dict[int, int] = {}  # level by style
        self._style = 0
        self._style_name = bytearray()
        self._hex = bytearray()
        self._repeated = False  # RTF that only repeats the HTML that it wraps

    def read(self, data: bytes) -> Iterator[None]:
        """Tells all of the document; gives way now and then. Raises TooDeep."""
        at, count = 0, 0
        while (match := _TOKEN.match(data, at)) is not None:
            at = match.end()
            word, argument, code, symbol, brace, plain = match.groups()
            if plain is not None:
                self._plain(plain)
            elif word is not None:
                at += self._word(word.decode("ascii"), None if argument is None else int(argument))
            elif code is not None:
                self._plain(bytes((int(code, 16),)))
            elif brace == b"{":
                self._begin()
            elif brace is not None:
                self._end()
            elif symbol is not None:
                self._symbol(symbol)
            count += 1
            if count % _DRAIN == 0:
                yield
        self._flush()
        self._text.end_cell()
        self._text.end_row()
        self._text.end_paragraph()
        yield

    def _begin(self) -> None:
        self._flush()
        self._eat = 0
        self._stack.append(self._group)
        if len(self._stack) > _GROUPS:
            raise TooDeep
        self._group = replace(self._group, note=False, fact="", optional=False)

    def _end(self) -> None:
        self._flush()
        self._eat = 0
        group, self._group = self._group, self._stack.pop() if self._stack else Group()
        if group.note and self._text.in_note:
            self._text.end_note(self._group)
        if group.fact:
            self._text.end_fact(group.fact)
        if group.styles:
            self._end_style()
        if group.object and not self._group.object:
            self.objects.append(bytes.fromhex(self._hex[: len(self._hex) & ~1].decode("ascii")))
            self._hex.clear()

    def _plain(self, data: bytes) -> None:
        """Bytes of text, in the code page of their font."""
        if self._eat:
            eaten = min(self._eat, len(data))
            self._eat -= eaten
            data = data[eaten:]
        if self._group.object:
            self._hex += re.sub(rb"[^0-9A-Fa-f]", b"", data[: _OBJECT_BYTES - len(self._hex)])
        elif self._group.styles:
            self._style_name += data[:100]
        elif not self._group.skipped:
            self._bytes += data

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._group.optional = True
        elif symbol in b"\r\n":
            self._word("par", None)
        elif symbol in b"{}\\":
            self._plain(symbol)
        else:
            self._say(PUNCTUATION.get(symbol, ""))

    def _word(self, word: str, argument: int | None) -> int:
        """Obeys a control word; how many bytes behind it are none of the text."""
        group = self._group
        if word == "bin":
            return max(0, argument or 0)
        if word == "u" and argument is not None:
            self._say(chr(argument % 0x10000))
            self._eat = group.fallback
            return 0
        self._eat = max(0, self._eat - 1)
        optional, group.optional = group.optional, False
        if word == "fonttbl":
            group.fonts = group.skipped = True
        elif group.fonts:
            self._font_word(word, argument or 0)
        elif word == "stylesheet":
            group.styles = group.skipped = True
        elif group.styles:
            self._style = (argument or 0) if word == "s" else self._style
        elif word == "info":
            group.info = True
        elif word == "objdata":
            group.object = group.skipped = True
        elif word in SKIPPED or (optional and word not in READ):
            group.skipped = True
        elif not group.skipped:
            self._obey(word, argument)
        return 0

    def _obey(self, word: str, argument: int | None) -> None:
        group = self._group
        if group.info:
            group.fact = word if word in _FACTS else ""
            group.skipped = not group.fact and word != "info"
        elif word == "atnauthor":
            group.fact = word
        elif word in _NOTES:
            self._flush()
            group.note = True
            self._text.begin_note(_NOTES[word])
        elif word in SYMBOLS:
            self._say(SYMBOLS[word])
        else:
            self._format(word, argument)

    def _format(self, word: str, argument: int | None) -> None:
        """Words that change how text is read, or end a stretch of it."""
        group = self._group
        switch = argument != 0
        if word in ("par", "sect", "page", "cell", "row", "plain", "v", "deleted", "f", "htmlrtf"):
            self._flush()
        if word == "par" or word == "sect":
            self._text.end_paragraph()
        elif word == "page" and not self._text.in_note:
            self._text.end_paragraph()
            self._teller.page_break()
        elif word == "pagebb" and not self._text.in_note and not self._text.in_line:
            self._teller.page_break()
        elif word == "cell":
            self._text.end_cell()
        elif word == "row":
            self._text.end_row()
        elif word == "v":
            group.hidden = switch
        elif word == "deleted":
            group.deleted = switch
        elif word == "plain":
            group.hidden = group.deleted = False
            group.codec = ""
        elif word == "pard" and not group.mark:
            self._text.in_table, self._text.level = False, 0
        elif word == "intbl":
            self._text.in_table = True
        elif word == "outlinelevel":
            self._text.level = min(6, (argument or 0) + 1) if 0 <= (argument or 0) < 9 else 0
        elif word == "s":
            self._text.level = self._headings.get(argument or 0, 0)
        elif word in ("listtext", "pntext"):
            self._text.listed = group.mark = True
        elif word == "f":
            group.codec = self._fonts.get(argument or 0, "")
        elif word == "uc":
            group.fallback = max(0, min(10, argument or 0))
        elif word == "ansicpg":
            self._default = page_codec(argument or 0)
        elif word in ("mac", "pc", "pca"):
            self._default = {"mac": "mac-roman", "pc": "cp437", "pca": "cp850"}[word]
        elif word == "htmlrtf":
            self._repeated = switch

    def _end_style(self) -> None:
        """A style of the style sheet, of which only headings matter here."""
        if match := _HEADING.search(bytes(self._style_name)):
            self._headings[self._style] = min(6, int(match[1]))
        self._style_name.clear()
        self._style = 0

    def _font_word(self, word: str, argument: int) -> None:
        if word == "f":
            self._font = argument
        elif word == "fcharset":
            self._fonts[self._font] = charset_codec(argument)
        elif word == "cpg":
            self._fonts[self._font] = page_codec(argument)

    def _flush(self) -> None:
        """Decodes the bytes that have come."""
        if self._bytes:
            data = bytes(self._bytes)
            self._bytes.clear()
            self._put(data.decode(self._group.codec or self._default, "replace"))

    def _say(self, text: str) -> None:
        self._flush()
        if not self._group.skipped:
            self._put(text)

    def _put(self, text: str) -> None:
        if not self._repeated:
            self._text.put(text, self._group)

    @property
    def facts(self) -> dict[str, str]:
        """Title, author, subject and keywords, as far as they were read."""
        return self._text.facts
