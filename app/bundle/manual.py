"""The manual page and the shells' completions, made from the commands themselves."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import click
from click.shell_completion import get_completion_class

from unabridged import __version__
from unabridged.app.cli import COMMANDS, cli

SHELLS = ("bash", "zsh", "fish")
_CODES = (
    ("0", "Done."),
    ("1", "The work failed."),
    ("2", "The command line is wrong."),
    ("3", "The engine or the server cannot be reached or started, or its model is missing."),
    ("4", "Partly done: the files that could not be read are listed."),
    ("130", "Interrupted; after another signal 128 and its number."),
)


def completion(shell: str) -> str:
    """The script that a shell sources; it asks the command for words."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    return kind(cli, {}, "unabridged", "_UNABRIDGED_COMPLETE").source()


def page(epoch: int) -> str:
    """unabridged(1) in man's own language. `epoch`: seconds, the date in its foot."""
    date = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d")
    root = click.Context(cli, info_name="unabridged", **cli.context_settings)
    lines = [f'.TH UNABRIDGED 1 "{date}" "Unabridged {__version__}" "User Commands"']
    lines += [".SH NAME", f"unabridged \\- {_text(_first(cli))}"]
    lines += [".SH SYNOPSIS", r".B unabridged", r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]..."]
    lines += [".SH OPTIONS", *_options(cli, root), ".SH COMMANDS"]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        lines += _command(command, click.Context(command, info_name=name, parent=root))
    lines += [".SH EXIT STATUS", *(f".TP\n{code}\n{_text(about)}" for code, about in _CODES)]
    lines += [".SH FILES", "Settings, data and logs lie in the folders of the XDG base directories,"]
    lines += [r"\fI~/.config/unabridged\fR, \fI~/.local/share/unabridged\fR and \fI~/.local/state/unabridged\fR."]
    return "\n".join([*lines, ""])


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_text(context.command_path)} {_text(pieces)}"
    for paragraph in (command.help or "").split("\n\n"):
        yield ".PP"
        yield _text(" ".join(paragraph.split()))
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield ".TP"
            yield rf"\fB{_text(record[0])}\fR"
            yield _text(" ".join(record[1].split()))


def _first(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")


def _text(text: str) -> str:
    """As man prints it: dashes that can be copied, nothing taken for a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped)
