"""The terminal interface as a program: `run` and, inside an event loop, `show` last until the reader quits.

Speaks to one server through `app.client.Client`; imports neither torch nor what runs behind the server.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from unabridged.app.client import Client
from unabridged.ui.ports import Server
from unabridged.ui.screens.help import HelpScreen, key_name
from unabridged.ui.screens.main import MainScreen
from unabridged.ui.screens.page import PageScreen
from unabridged.ui.widgets.document_tree import DocumentTree
from unabridged.ui.widgets.exchange import Exchange
from unabridged.ui.widgets.filter_line import FilterLine
from unabridged.ui.widgets.prompt import Prompt

_NOT_IN_PALETTE = {"app.palette", "app.help.mark"}


class UnabridgedApp(App[int]):
    """The application. Holds what every screen has in common: help and palette."""

    TITLE = "Unabridged"
    CSS_PATH = "tui.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help", id="app.help", tooltip="All keys, and how to read an answer"),
        Binding("question_mark", "help", "Help", show=False, id="app.help.mark", tooltip="The same, outside an input"),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True, id="app.quit", tooltip="Quit; nothing is lost"),
        Binding("ctrl+p", "command_palette", "Commands", show=False, id="app.palette", tooltip="All commands by name"),
    ]

    def __init__(
        self,
        server: Server,
        collection: str = "default",
        paths: Sequence[Path] = (),
        narrowed: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._server, self._collection, self._paths, self._narrowed = server, collection, paths, narrowed

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return MainScreen(self._server, self._collection, self._paths, self._narrowed)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key's command by name, then themes, screenshot and the like."""
        for binding in [*screen.BINDINGS, *self.BINDINGS]:
            if isinstance(binding, Binding) and binding.id not in _NOT_IN_PALETTE:
                keys = f"{binding.description} ({', '.join(map(key_name, binding.key.split(',')))})"
                yield SystemCommand(binding.tooltip, keys, partial(screen.run_action, binding.action))
        yield from (command for command in super().get_system_commands(screen) if command.title != "Quit")

    def action_help(self) -> None:
        """Show all keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(key_sections()))


def key_sections() -> list[tuple[str, Sequence[BindingType]]]:
    """The keys of each part of the interface, for the help and for docs/keys.md."""
    return [
        ("Everywhere", [*UnabridgedApp.BINDINGS, *MainScreen.BINDINGS]),
        ("Question", Prompt.BINDINGS),
        ("Filter", FilterLine.BINDINGS),
        ("Documents", DocumentTree.BINDINGS),
        ("Answers", Exchange.BINDINGS),
        ("Page", PageScreen.BINDINGS),
    ]


def run(url: str, key: str | None, collection: str, paths: Sequence[Path] = ()) -> int:
    """`show` for the server at `url`, outside an event loop."""
    return asyncio.run(_run(url, key, collection, paths))


async def show(
    server: Server, collection: str, paths: Sequence[Path] = (), narrowed: Mapping[str, Any] | None = None
) -> int:
    """Show the interface until the reader quits; `paths` are read into `collection` first, questions are asked of what
    `narrowed`, fields of a Question, means. Returns the exit code."""
    app = UnabridgedApp(server, collection, paths, narrowed)
    await app.run_async()
    return app.return_code or 0


async def _run(url: str, key: str | None, collection: str, paths: Sequence[Path]) -> int:
    async with Client(url, key or "") as client:
        return await show(client, collection, paths)
