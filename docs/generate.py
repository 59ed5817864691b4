"""Writes the parts of the documentation that the code already says: `python docs/generate.py`.

In each page everything behind the marker is written here; what stands before it is written by people.
tests/test_docs.py holds the pages against `generated`, so that none of them can be stale.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from unabridged.app.cli import COMMANDS, cli
from unabridged.app.locations import Locations
from unabridged.app.settings import Settings, describe, keys, value_of, variable

DOCS = Path(__file__).resolve().parent
MARKER = "<!-- written by docs/generate.py from here on -->\n"
_WIDTH = 100
_BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}


def generated() -> dict[str, str]:
    """What stands behind the marker, by the page's name."""
    return {"cli.md": "\n".join(_commands()), "settings.md": "\n".join([*_settings(), "", *_locations(), ""])}


def written(page: str) -> str:
    """What the page says behind its marker. Raises ValueError when it has none."""
    return _parts(page)[1]


def _parts(page: str) -> tuple[str, str]:
    before, marker, behind = (DOCS / page).read_text("utf-8").partition(MARKER)
    if not marker:
        raise ValueError(f"docs/{page} lacks the line {MARKER.strip()}")
    return before + marker, behind


# ----------------------------------------------------------------------------------------------------------- settings


def _settings() -> Iterator[str]:
    group = ""
    for key in keys():
        table = key.partition(".")[0]
        if table != group:
            group = table
            about = inspect.getdoc(type(getattr(Settings(), table)))
            yield from ("", f"## [{table}]", "", about or "", "", "| Setting | Default | Values | What it does |")
            yield "| :- | :- | :- | :- |"
        cells = (f"`{key}`<br>`{variable(key)}`", f"`{_shown(value_of(Settings(), key))}`", _values(key), describe(key))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) or '""' if isinstance(value, tuple) else str(value) or '""'


def _values(key: str) -> str:
    """The type in words, or the words that are allowed, with the bounds."""
    group, name = key.split(".")
    field = type(getattr(Settings(), group)).model_fields[name]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(field.annotation))
    words = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text"}
    bounds = [
        text.format(value)
        for rule in field.metadata
        for bound, text in _BOUNDS.items()
        if (value := getattr(rule, bound, None)) is not None
    ]
    return " ".join([words.get(field.annotation or object, "list, with commas"), *bounds])


def _locations() -> Iterator[str]:
    yield from ("## Files", "", "| What | Folder | Name |", "| :- | :- | :- |")
    folders = {name: Path(f"/{name}") for name in ("config", "data", "state", "runtime")}
    places = Locations(**folders)
    for name, member in vars(Locations).items():
        if isinstance(member, property):
            path: Path = getattr(places, name)
            yield f"| {inspect.getdoc(member)} | {path.parts[1]} | `{Path(*path.parts[2:])}` |"


# ------------------------------------------------------------------------------------------------------ command line


def _commands() -> Iterator[str]:
    root = click.Context(
        cli, info_name="unabridged", terminal_width=_WIDTH, max_content_width=_WIDTH, **cli.context_settings
    )
    yield from _help(cli, root)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        yield from _tree(command, name, root)
    yield ""


def _tree(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH)
    yield from _help(command, context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _tree(found, inner, context)


def _help(command: click.Command, context: click.Context) -> Iterator[str]:
    yield from ("", f"## {context.command_path}", "", "```text", command.get_help(context), "```")


if __name__ == "__main__":
    for page, text in generated().items():
        (DOCS / page).write_text(_parts(page)[0] + text, "utf-8")
