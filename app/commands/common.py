"""What commands share: settings and places, the library, and how output looks."""

import re
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unabridged.app.locations import Locations
from unabridged.app.printable import as_text, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from unabridged.app.settings import Loaded, Settings
    from unabridged.ingest.library import Library
    from unabridged.models.registry import Registry
    from unabridged.models.tokenizer import Tokenizer

C = TypeVar("C", bound=Callable[..., Any])


class App:
    """What the global options say; everything else is opened when a command needs it."""

    def __init__(self, data_dir: Path | None) -> None:
        self.locations = Locations.find(data_dir)

    def load(self, **flags: Any) -> "Loaded":
        """Settings and their origins; flags are named group__name, None means not given. Raises SettingsInvalid."""
        from unabridged.app.settings import load

        return load(self.locations.config_file, {key.replace("__", "."): value for key, value in flags.items()})

    def settings(self, **flags: Any) -> "Settings":
        """Settings in force. Raises SettingsInvalid."""
        return self.load(**flags).settings

    def library(self) -> "AbstractContextManager[Library]":
        """The library, made where it is missing. Raises LibraryDamaged."""
        from unabridged.ingest.library import Library

        return Library.open(self.locations.library)

    @property
    def registry(self) -> "Registry":
        """The installed models."""
        from unabridged.models.registry import Registry

        return Registry(self.locations.models)

    def tokenizer(self, name: str) -> "Tokenizer | None":
        """The tokenizer of a model, so that documents are counted and cut for it; None while it is not installed."""
        from unabridged.models.errors import ModelError
        from unabridged.models.tokenizer import Tokenizer

        try:
            return Tokenizer.load(self.registry.get(name).path)
        except ModelError:
            return None

    @cached_property
    def console(self) -> "Console":
        """Narration on standard error; plain where NO_COLOR or a pipe wants it so."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, soft_wrap=True)


class _Text(click.ParamType[str]):
    """Text that may hold bytes which are no UTF-8; see `as_text`."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return as_text(str(value))


class _Name(_Text):
    """Text that is not empty."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value, param, ctx) or self.fail("the name is empty", param, ctx)


class _Size(click.ParamType[int]):
    """Bytes, with a unit: 24GiB, 24GB (10^9), 512 MiB; G and M as GiB and MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _SIZE.fullmatch(str(value).strip())
        if found is None:
            return self.fail(f"{one_line(str(value))!r} is no size, write 24GiB or 512MiB", param, ctx)
        unit, binary = "KMGT".index(found[2].upper()) + 1, found[3].lower() != "b"
        return int(float(found[1]) * (1024 if binary else 1000) ** unit)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(iB|B|)", re.IGNORECASE)
SIZE = _Size()
TEXT = _Text()
pass_app = click.make_pass_decorator(App)


def collection_option(command: C) -> C:
    """`--collection`."""
    return click.option(
        "-c", "--collection", type=_Name(), default="default", show_default=True, help="Name of the collection."
    )(command)


def vram_option(command: C) -> C:
    """`--vram`, as MiB."""

    def mib(ctx: click.Context, param: click.Parameter, value: int | None) -> int | None:
        if value is not None and value < 1 << 20:
            raise click.BadParameter("less than 1 MiB", ctx, param)
        return None if value is None else value >> 20

    about = "GPU memory that the engine may take, as 24GiB (setting engine.vram_mib)."
    return click.option("--vram", type=SIZE, callback=mib, help=about)(command)


def json_option(command: C) -> C:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object a line, for programs.")(command)


def examples(*lines: str) -> str:
    """The end of a help text."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def emit(entry: Any) -> None:
    """One JSON object as a line on standard output."""
    import msgspec

    click.echo(msgspec.json.encode(entry))


def table(rows: Iterable[Iterable[str]], heads: Iterable[str], right: frozenset[int] = frozenset()) -> None:
    """Aligned columns on standard output; the last column is never padded. Heads only for people."""
    lines = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        lines.insert(0, [*heads])
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(len(lines[0]) if lines else 0)]
    for line in lines:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join([*cells[:-1], line[-1]]).rstrip())
