"""The text of an Outlook body that is kept as RTF."""

from unabridged.ingest.office.rtf_story import Story, TooDeep
from unabridged.ingest.office.word import Teller


def rendered(data: bytes) -> tuple[str, str]:
    """The visible and the hidden text. What is nested too deeply is read as far as it goes."""
    lines = _Lines()
    try:
        for _ in Story(lines, lines.cite).read(data):
            pass
    except TooDeep:
        lines.shown.append("[…]")
    return "\n".join(lines.shown), "\n".join(lines.unseen)


class _Lines(Teller):
    """Takes a document as lines of a message."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.unseen: list[str] = []

    def paragraph(self, text: str, level: int, item: bool) -> None:
        self.shown.append(text)

    def row(self, cells: list[str]) -> None:
        self.shown.append("\t".join(cells).rstrip("\t"))

    def hidden(self, text: str) -> None:
        self.unseen.append(text)

    def note(self, kind: str, mark: str) -> str:
        return ""

    def cite(self, kind: str, text: str) -> str:
        return f" [{kind}: {text}]"

    def page_break(self) -> None:
        self.shown.append("")
