"""What of a Word document is being read at a time: a paragraph, a deletion, the rows of tables within tables.

A text document of OpenDocument has such rows as well.
"""

from dataclasses import dataclass, field


@dataclass
class Paragraph:
    """A paragraph that is being read."""

    pieces: list[str] = field(default_factory=list)
    style: str = ""
    outline: int | None = None
    list_id: str | None = None
    list_level: int | None = None
    section_break: bool = False
    numbered: bool = False


@dataclass
class Change:
    """Deleted text that is being read."""

    who: str
    pieces: list[str] = field(default_factory=list)


class Grid:
    """The rows and cells that are open. A table within a cell becomes lines of that cell."""

    def __init__(self) -> None:
        self._cells: list[list[str]] = []
        self._rows: list[list[list[str]]] = []

    @property
    def in_cell(self) -> bool:
        """Text that comes belongs to a cell."""
        return bool(self._cells)

    @property
    def open(self) -> bool:
        """A row or a cell has not ended."""
        return bool(self._cells or self._rows)

    def begin_row(self) -> None:
        """A row begins."""
        self._rows.append([])

    def begin_cell(self) -> None:
        """A cell begins."""
        self._cells.append([])

    def add(self, text: str) -> None:
        """A paragraph of the innermost cell."""
        self._cells[-1].append(text)

    def end_cell(self) -> None:
        """The innermost cell ends."""
        cell = self._cells.pop() if self._cells else []
        if self._rows:
            self._rows[-1].append(cell)

    def end_row(self) -> list[list[str]] | None:
        """The row that ended, None for one of a table within a cell."""
        row = self._rows.pop() if self._rows else []
        if not self._cells:
            return row
        if line := " | ".join(" ".join(cell) for cell in row if cell):
            self._cells[-1].append(line)
        return None
