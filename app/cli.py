"""The command line: arguments in, exit codes out.

    0 ok   1 the work failed   2 usage   3 the engine or server cannot be reached or started
    4 partly done (files that could not be read are listed)   130 interrupted   128+n ended by signal n

Data goes to standard output, narration to standard error. Only click is imported before a command is chosen, so that
help is there at once. Commands live in app/commands; this module knows their names and who may fail how.
"""

import errno
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import click

from unabridged import __version__
from unabridged.app.printable import one_line, printable
from unabridged.models.errors import UnabridgedError

FAILED, USAGE, NO_ENGINE, PARTLY, INTERRUPTED = 1, 2, 3, 4, 130

# name: (module below unabridged.app.commands, one line)
COMMANDS = {
    "add": ("add", "Read files and folders into a collection."),
    "ls": ("library", "List documents with their status."),
    "show": ("library", "Print a document's pages as they were read."),
    "search": ("search", "Find pages by their words."),
    "tag": ("tag", "Give tags to documents, or list them."),
    "rm": ("library", "Take documents out of a collection."),
    "library": ("upkeep", "Check, rebuild, back up and restore the library."),
    "ask": ("ask", "Ask a question; the answer cites document and page."),
    "chat": ("ask", "Open the terminal interface."),
    "store": ("store", "List, fill, check, pin and evict what has been read and is kept."),
    "serve": ("serve", "Run the HTTP server (OpenAI-compatible)."),
    "plan": ("plan", "Say what a model and a context take of a GPU, and what fits."),
    "models": ("models", "Install, list, check and remove models."),
    "config": ("config", "Show and change settings."),
    "doctor": ("doctor", "Check this machine, the library, the models and the settings."),
    "verify": ("verify", "Compare the installed files and models with the bundle's manifest."),
    "bundle": ("bundle", "Write an archive for machines without a network."),
}
# Codes of problems that the engine's or the server's absence causes.
_NO_ENGINE_CODES = frozenset(
    {
        "engine_unavailable",
        "engine_died",
        "no_model",
        "server_unreachable",
        "server_busy",
        "other_version",
        "other_model",
        "bad_reply",
    }
)
_EPILOG = """\b
Examples:
  unabridged models add smollm2-135m
  unabridged add ~/case
  unabridged ask "When does the lease end?"
  unabridged chat ~/case
"""


# What to do about files and folders that are not ours.
_CLOSED = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions, or choose another folder",
    errno.EROFS: "choose a folder that can be written",
}


class _Commands(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"unabridged.app.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            path = error.filename
            if (
                error.errno not in _CLOSED
                or not isinstance(path, str)
                or ctx.obj is None
                or ctx.obj.locations.hold(path)
            ):
                raise
            # A file or folder that the user named: where ours lie does not matter.
            raise UnabridgedError(f"{one_line(path)}: {error.strerror}", _CLOSED[error.errno]) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="unabridged")
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Keep everything in this folder.")
@click.pass_context
def cli(ctx: click.Context, data_dir: Path | None) -> None:
    """Ask a folder of private documents: all of their text in the model's context, on your own machine."""
    from unabridged.app.commands.common import App

    ctx.obj = App(data_dir)


# What to do where the system refuses.
_WAYS_OUT = {
    errno.ENOSPC: "free some space on that disk, then run the same command again",
    errno.EFBIG: "a limit (ulimit -f) or the file system allows no larger file: raise it, or use another disk",
    errno.EDQUOT: "free some space within your quota, then run the same command again",
    errno.EACCES: "check its permissions, or choose another folder with --data-dir",
    errno.EPERM: "check its permissions, or choose another folder with --data-dir",
    errno.EROFS: "choose a folder that can be written with --data-dir",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENOMEM: "close other programs",
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not end the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(arguments))


def _end(number: int, _: FrameType | None) -> None:
    """Ends as Ctrl+C does: what was begun is undone, processes that were started end, the terminal is as it was."""
    raise SystemExit(128 + number)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. A failure is one line on standard error; no command, the help."""
    stdout = sys.stdout
    try:
        result = cli.main(arguments, prog_name="unabridged", standalone_mode=False)
        stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        return USAGE
    except click.ClickException as error:
        return _usage(error)
    except UnabridgedError as error:
        return fail(error)
    except (KeyboardInterrupt, click.Abort):
        say("unabridged: interrupted")
        return INTERRUPTED
    except SystemExit as stop:
        # click ends like this, with another stdout in place, when whoever read ours has seen enough: no failure.
        return 0 if sys.stdout is not stdout or not isinstance(stop.code, int) else stop.code
    except BrokenPipeError:
        # The same at the last flush; Python's own at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _refused(error)
    except Exception as error:
        return _surprised(error)


def fail(error: UnabridgedError) -> int:
    """Say what failed; returns the exit code of it."""
    say(f"unabridged: error: {error}")
    return exit_code(error.code)


def say(text: str) -> None:
    """A line on standard error, harmless for a terminal."""
    click.echo(printable(text), err=True)


def exit_code(code: str) -> int:
    """The exit code of a failure by its stable word."""
    return NO_ENGINE if code in _NO_ENGINE_CODES else FAILED


def _usage(error: click.ClickException) -> int:
    hint = ""
    context: Any = getattr(error, "ctx", None)
    if context is not None:
        hint = f" (see `{context.command_path} --help`)"
    text = one_line(error.format_message()).rstrip(".")
    say(f"unabridged: error: {text}{hint}")
    return error.exit_code


def _refused(error: OSError) -> int:
    """What the system does not let us do, such as writing to a full disk."""
    thing = f"{one_line(os.fsdecode(error.filename))}: " if isinstance(error.filename, str | bytes) else ""
    hint = _WAYS_OUT.get(error.errno or 0, "")
    say(f"unabridged: error: {thing}{error.strerror or error}" + (f" ({hint})" if hint else ""))
    return FAILED


def _surprised(error: Exception) -> int:
    """A fault of ours: still one line, and the place of it for whoever is to mend it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    if "UNABRIDGED_TRACEBACK" in os.environ:
        traceback.print_exception(error)
    say(
        f"unabridged: error: {type(error).__name__}: {one_line(str(error))} at {place}"
        " (a fault of unabridged: please report it; UNABRIDGED_TRACEBACK=1 shows where it happened)"
    )
    return FAILED
