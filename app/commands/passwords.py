"""Passwords of locked files: those of a file, and those that are asked for at a terminal once the rest is read.

They are kept in memory while the command runs and go to the processes that read through their pipes: never to the
library, a log, an argument or the environment.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unabridged.app.commands.common import App
from unabridged.app.printable import one_line
from unabridged.app.tally import Tally

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import AddItem, FileDone

_TRIES = 3
_MOST_BYTES = 1 << 20

Reading = Callable[[Sequence[str], Sequence[str]], "Iterable[AddItem]"]  # paths, passwords


def in_file(file: Path) -> tuple[str, ...]:
    """The passwords of a file, one a line, as they stand there, spaces too. Raises UsageError where there are none."""
    if file.stat().st_size > _MOST_BYTES:
        raise click.UsageError(f"the password file {file} is longer than {_MOST_BYTES >> 20} MB")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the password file {file} is not UTF-8 text") from error
    passwords = tuple(dict.fromkeys(line.rstrip("\r") for line in text.split("\n") if line.rstrip("\r")))
    if not passwords:
        raise click.UsageError(f"the password file {file} is empty")
    return passwords


def can_ask() -> bool:
    """There is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class Watched:
    """Notes which files an addition dealt with: those that it read, and those that were named."""

    def __init__(self, named: Iterable[Path]) -> None:
        from unabridged.ingest.paths import expanded, stored

        self._named = {stored(str(expanded(path).absolute())) for path in named}
        self.statuses: dict[str, tuple[str, dict[str, int]]] = {}

    def through(self, items: "Iterable[AddItem]") -> "Iterator[AddItem]":
        """The items as they are."""
        from unabridged.ingest.catalog.rows import FileDone

        for item in items:
            if isinstance(item, FileDone) and (item.change in ("new", "changed") or item.path in self._named):
                self.statuses[item.path] = item.status, item.inside
            yield item


def ask(app: App, locked: Callable[[], list[str]], watched: Watched, read: Reading, tally: Tally) -> None:
    """Asks for the password of each locked file, once, and tries it on the others that are locked; Enter passes over
    one, the end of input or Ctrl-C over the rest. `tally` is kept right."""
    for path in [path for path in locked() if path in watched.statuses]:
        for left in reversed(range(_TRIES)):
            if path not in (still := [path for path in locked() if path in watched.statuses]):
                break
            try:
                typed = click.prompt(_question(path), hide_input=True, default="", show_default=False, err=True)
            except click.Abort:
                return
            if not typed:
                break
            for item in _done(read(still, [typed])):
                tally.again(item, *watched.statuses[item.path])
                watched.statuses[item.path] = item.status, item.inside
                if item.path not in locked():
                    app.console.print(one_line(f"opened  {item.path} ({item.pages:,} pages)"), markup=False)
            if path in locked():
                again = "try again" if left else "it stays locked"
                app.console.print(f"that does not open it: {again}", markup=False)


def _question(path: str) -> str:
    return one_line(f"Password of {Path(path).name} (Enter leaves it locked)")


def _done(items: "Iterable[AddItem]") -> "Iterator[FileDone]":
    from unabridged.ingest.catalog.rows import FileDone

    return (item for item in items if isinstance(item, FileDone))
