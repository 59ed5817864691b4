"""What the styles of an OpenDocument file say of its text: hidden, a page break before it, numbered, a hidden sheet."""

from dataclasses import dataclass, field

from unabridged.ingest.office.docx_styles import number, numeral
from unabridged.ingest.office.xmlfeed import attribute
from unabridged.ingest.texts.normalise import one_line

# Elements of the same name in several namespaces.
PREFIXES = {"svg-compatible": "svg:", "purl.org/dc": "dc:"}
_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman", "": "none"}
_LEVELS = 10
_CHAIN = 20
_MARGINS = {
    "header": "Page header",
    "footer": "Page footer",
    "header-first": "Page header",
    "footer-first": "Page footer",
}


@dataclass
class Style:
    """One style; None where it says nothing itself."""

    base: str = ""
    hidden: bool | None = None
    page_break: bool = False
    list_name: str = ""
    shown: bool = True  # a sheet, or a slide


@dataclass
class Level:
    """How one level of a list is numbered."""

    form: str = "none"
    before: str = ""
    after: str = ""
    start: int = 1
    shown: int = 1  # how many levels' numbers stand in it
    bullet: bool = False


@dataclass
class Styles:
    """Reads styles.xml; then, beside the text, the styles at the head of content.xml."""

    styles: dict[str, Style] = field(default_factory=dict)
    lists: dict[str, dict[int, Level]] = field(default_factory=dict)
    margins: list[str] = field(default_factory=list)
    _style: Style = field(default_factory=Style)
    _levels: dict[int, Level] = field(default_factory=dict)
    _margin: str = ""
    _pieces: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "style":
            self._style = Style(
                attribute(attributes, "parent-style-name") or "",
                list_name=attribute(attributes, "list-style-name") or "",
            )
            self.styles[attribute(attributes, "name") or ""] = self._style
        elif name == "text-properties" and (display := attribute(attributes, "display")) is not None:
            self._style.hidden = display == "none"
        elif name == "paragraph-properties":
            self._style.page_break = attribute(attributes, "break-before") == "page"
        elif name == "table-properties":
            self._style.shown = attribute(attributes, "display") != "false"
        elif name == "drawing-page-properties":
            self._style.shown = attribute(attributes, "visibility") != "hidden"
        elif name in ("list-style", "outline-style"):
            list_name = "" if name == "outline-style" else attribute(attributes, "name") or ""
            self._levels = self.lists[list_name] = {}
        elif name in ("list-level-style-number", "outline-level-style", "list-level-style-bullet"):
            self._level(name, attributes)
        elif name in _MARGINS:
            self._margin = _MARGINS[name]
            self._pieces = []
        elif self._margin and name in ("p", "h", "tab", "s"):
            self._pieces.append(" ")

    def end(self, name: str) -> None:
        if name in _MARGINS:
            if text := one_line("".join(self._pieces)):
                self.margins.append(f"{self._margin}: {text}")
            self._margin = ""

    def text(self, data: str) -> None:
        if self._margin:
            self._pieces.append(data)

    def is_hidden(self, name: str) -> bool:
        """Whether text of this style is not shown."""
        return next((style.hidden for style in self._chain(name) if style.hidden is not None), False)

    def breaks(self, name: str) -> bool:
        """Whether a paragraph of this style begins a page."""
        chain = self._chain(name)
        return bool(chain) and chain[0].page_break

    def list_of(self, name: str) -> str:
        """The list that a paragraph's style belongs to, "" for none."""
        return next((style.list_name for style in self._chain(name) if style.list_name), "")

    def is_shown(self, name: str) -> bool:
        """Whether a sheet or slide of this style is shown."""
        style = self.styles.get(name)
        return style is None or style.shown

    def _chain(self, name: str) -> list[Style]:
        chain: list[Style] = []
        while (style := self.styles.get(name)) is not None and len(chain) < _CHAIN:
            chain.append(style)
            name = style.base
        return chain

    def _level(self, name: str, attributes: dict[str, str]) -> None:
        level = number(attribute(attributes, "level") or "")
        self._levels[level] = Level(
            form=_FORMS.get(attribute(attributes, "num-format") or "", "decimal"),
            before=attribute(attributes, "num-prefix") or "",
            after=attribute(attributes, "num-suffix") or "",
            start=number(attribute(attributes, "start-value") or "1"),
            shown=number(attribute(attributes, "display-levels") or "1"),
            bullet=name == "list-level-style-bullet",
        )


class Counter:
    """Counts the items of one list, or the headings of a document."""

    def __init__(self, levels: dict[int, Level]) -> None:
        self._levels = levels
        self._counts: list[int | None] = [None] * (_LEVELS + 1)

    def next(self, level: int) -> str:
        """The mark of the next item at a level from 1: "2.1.", "(b)", "-"; "" for none."""
        style = self._levels.get(level)
        if style is None or not 0 < level <= _LEVELS:
            return ""
        if style.bullet:
            return "-"
        before = self._counts[level]
        self._counts[level] = style.start if before is None else before + 1
        self._counts[level + 1 :] = [None] * (_LEVELS - level)
        if style.form == "none":
            return ""
        shown = [self._shown(at) for at in range(max(1, level - style.shown + 1), level + 1)]
        return f"{style.before}{'.'.join(filter(None, shown))}{style.after}".strip()

    def _shown(self, level: int) -> str:
        style = self._levels.get(level, Level())
        count = self._counts[level]
        return numeral(style.start if count is None else count, style.form)
