"""All keys, from the bindings themselves, and how to read an answer."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.keys import format_key
from textual.screen import ModalScreen
from textual.widgets import Footer, Markdown, Static

READING = """## How to read an answer
- **[n]** leads to the page it rests on: click it, or press its number when the conversation has the focus.
- **▵ unsupported** follows a sentence that nothing in the documents supports.
- **▵ not in the documents** follows a quotation that does not stand there word for word.
- **by attention only** marks a source that the model looked at but whose words do not match the sentence.
- Documents: ✓ read, ◐ partly read, ⊠ needs a password, ∅ no text, ✗ damaged, – not supported, ▲ too large.
- The **receipt** under an answer says what was read, what was left out, and why.
- *whole* reads all documents of the collection; *focused* chooses the best of them first;
  *auto* lets the model's measured ability decide.
"""


class HelpScreen(ModalScreen[None]):
    """Help, with a table of keys a part of the interface."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "dismiss", "Close", id="help.close", tooltip="Close the help"),
    ]

    def __init__(self, sections: Sequence[tuple[str, Sequence[BindingType]]]) -> None:
        super().__init__()
        self._sections = sections

    def compose(self) -> ComposeResult:
        """One scrolling page."""
        with VerticalScroll(classes="dialog tall"):
            yield Markdown(READING, open_links=False)
            for title, keys in self._sections:
                yield Static(Content(title), classes="heading")
                yield Static(_lines(keys), classes="keys")
        yield Footer()

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.query_one(VerticalScroll).focus()


def keys_markdown(sections: Sequence[tuple[str, Sequence[BindingType]]]) -> str:
    """A table of keys for each section."""
    return "\n".join(f"\n## {title}\n\n| Key | What it does |\n| :- | :- |\n{_rows(keys)}" for title, keys in sections)


def _rows(bindings: Sequence[BindingType]) -> str:
    return "\n".join(f"| {keys} | {what} |" for keys, what in _table(bindings))


def _lines(bindings: Sequence[BindingType]) -> Content:
    rows = [Content.assemble((f"{keys:<24}", "$text-accent"), what) for keys, what in _table(bindings)]
    return Content("\n").join(rows)


def _table(bindings: Sequence[BindingType]) -> list[tuple[str, str]]:
    seen: dict[str, list[str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding) and binding.tooltip:
            what = binding.tooltip if "citation [" not in binding.tooltip else "Open the page behind citation [n]"
            seen.setdefault(what, []).extend(binding.key.split(","))
    return [(_keys(keys), what) for what, keys in seen.items()]


def _keys(keys: Iterable[str]) -> str:
    named = [key_name(key.strip()) for key in keys]
    return f"{named[0]}-{named[-1]}" if len(named) == 9 else ", ".join(named)


def key_name(key: str) -> str:
    """ "ctrl+n" as "Ctrl+N", "question_mark" as "?", "n" as "n"."""
    *modifiers, last = key.split("+")
    shown = format_key(last)
    if modifiers or len(last) > 1:
        shown = shown[:1].upper() + shown[1:]
    return "+".join([*(word.capitalize() for word in modifiers), shown])
