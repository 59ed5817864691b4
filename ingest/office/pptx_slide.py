"""The XML of a slide, or of its notes: shapes in order, each with its text."""

from dataclasses import dataclass, field

_UNTOLD = frozenset({"sldNum", "sldImg", "dt", "hdr"})
_TITLES = frozenset({"title", "ctrTitle"})
_SHAPES = frozenset({"sp", "pic", "graphicFrame", "cxnSp"})


@dataclass
class Shape:
    """A shape with text. `unseen`: hidden, or off the slide."""

    role: str = ""  # of a placeholder
    text: str = ""
    unseen: bool = False
    described: str = ""
    x: int = 0
    y: int = 0
    width: int = 0
    height: int = 0
    placed: bool = False

    @property
    def title(self) -> bool:
        """The slide's title."""
        return self.role in _TITLES and "\n" not in self.text


@dataclass
class Slide:
    """Reads ppt/slides/slideN.xml or ppt/notesSlides/notesSlideN.xml. Sizes in EMU, 0 where they are not known."""

    width: int
    height: int
    hidden: bool = False
    shapes: list[Shape] = field(default_factory=list)
    _shape: Shape | None = None
    _lines: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _row: list[str] | None = None
    _cell: list[str] | None = None
    _groups: list[bool] = field(default_factory=list)
    _level: int = 0
    _open: bool = False
    _skipped: int = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self._skipped or name == "Fallback":
            self._skipped += 1
        elif name == "t":
            self._open = True
        elif name in ("sld", "notes"):
            self.hidden = attributes.get("show") in ("0", "false")
        elif name in _SHAPES:
            self._shape = Shape()
            self._lines = []
        elif name == "grpSp":
            self._groups.append(False)
        elif self._shape is None:
            if name == "cNvPr" and self._groups:
                self._groups[-1] = attributes.get("hidden") in ("1", "true")
        else:
            self._within(self._shape, name, attributes)

    def end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif name == "t":
            self._open = False
        elif name == "p":
            self._end_paragraph()
        elif name == "tc" and self._row is not None and self._cell is not None:
            self._row.append(" ".join(self._cell))
            self._cell = None
        elif name == "tr" and self._row is not None:
            self._lines.append("\t".join(self._row).rstrip("\t"))
            self._row = None
        elif name in _SHAPES:
            self._end_shape()
        elif name == "grpSp" and self._groups:
            self._groups.pop()

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)

    def ordered(self) -> list[Shape]:
        """The shapes to be told, the title first."""
        told = [shape for shape in self.shapes if shape.role not in _UNTOLD and shape.text.strip()]
        return sorted(told, key=lambda shape: not shape.title)

    def spoken(self) -> str:
        """What notes say, without what stands on every page of them."""
        told = [shape for shape in self.ordered() if shape.role in ("body", "")]
        return "\n".join(shape.text for shape in told)

    def _within(self, shape: Shape, name: str, attributes: dict[str, str]) -> None:
        if name == "cNvPr":
            shape.unseen = attributes.get("hidden") in ("1", "true")
            shape.described = attributes.get("descr", "").strip()
        elif name == "ph":
            shape.role = attributes.get("type", "body")
        elif name == "off" and not shape.placed:
            shape.x, shape.y = _number(attributes.get("x", "")), _number(attributes.get("y", ""))
        elif name == "ext" and "cx" in attributes and not shape.placed:
            shape.width, shape.height = _number(attributes["cx"]), _number(attributes.get("cy", ""))
            shape.placed = True
        elif name == "tr":
            self._row = []
        elif name == "tc":
            self._cell = []
        elif name == "pPr":
            self._level = min(8, max(0, _number(attributes.get("lvl", ""))))
        elif name == "br":
            self._pieces.append("\n")

    def _end_paragraph(self) -> None:
        line = "".join(self._pieces).strip()
        self._pieces.clear()
        if line and self._cell is not None:
            self._cell.append(line.replace("\n", " "))
        elif line:
            self._lines.append("  " * self._level + line)
        self._level = 0

    def _end_shape(self) -> None:
        shape, self._shape = self._shape, None
        if shape is None:
            return
        shape.text = "\n".join(self._lines)
        if shape.described and not shape.text:
            shape.text = f"[picture: {shape.described}]"
        shape.unseen = shape.unseen or any(self._groups) or self._is_off(shape)
        self.shapes.append(shape)

    def _is_off(self, shape: Shape) -> bool:
        """Lies beside the slide. Groups have coordinates of their own, so that their shapes are taken for seen."""
        if not (self.width and self.height and shape.placed) or self._groups:
            return False
        across = shape.x + shape.width <= 0 or shape.x >= self.width
        return across or shape.y + shape.height <= 0 or shape.y >= self.height


@dataclass
class Remarks:
    """Reads the comments of a slide, of the older and of the newer form."""

    found: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _open: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._open = self._open or name in ("text", "t")

    def end(self, name: str) -> None:
        if name in ("text", "t"):
            self._open = False
        elif name in ("cm", "reply"):
            if text := "".join(self._pieces).strip():
                self.found.append(text)
            self._pieces.clear()

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)


def _number(text: str) -> int:
    try:
        return int(text[:15])
    except ValueError:
        return 0
