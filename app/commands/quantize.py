"""`unabridged models quantize`: a model in 4 bits, of one in 16."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unabridged.app.commands.common import TEXT, App, examples, pass_app

if TYPE_CHECKING:
    from unabridged.app.quantising import Device, Teller
    from unabridged.models.quantise.run import Progress
    from unabridged.models.registry import InstalledModel

_EXAMPLES = examples(
    "unabridged models quantize ~/Llama-3.1-8B-Instruct",
    "unabridged models quantize ~/Llama-3.1-8B-Instruct --name llama8b --collection contracts",
    "unabridged models quantize ~/Qwen3-8B --output ~/Qwen3-8B-AWQ --text notes.txt --text book.txt",
)
_FOLDER = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("quantize", epilog=_EXAMPLES)
@click.argument("source")
@click.option("--name", type=TEXT, help="The name to install the result under.  [default: the source's, with -awq]")
@click.option("--output", type=_FOLDER, help="Write the result into this folder; install it only with --name as well.")
@click.option("-c", "--collection", type=TEXT, help="Measure with the text of this collection.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Measure with this text file; may be repeated.")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@pass_app
def quantize(
    app: App,
    source: str,
    name: str | None,
    output: Path | None,
    collection: str | None,
    texts: tuple[Path, ...],
    device: "Device",
) -> None:
    """Make an AWQ int4 model of SOURCE: a folder with a checkpoint in 16 bits, a .gguf file, or an installed model.

    The model reads 4,096 tokens of text, and what they make of each layer decides how its weights are rounded: Python's
    manual, or with --text or --collection text like that which will be asked about, which loses less. One layer is in
    memory at a time. Interrupted, it goes on where it was when the same command runs again.
    """
    from unabridged.app.quantising import quantise
    from unabridged.models.quantise.unfinished import to_install

    if collection is not None and texts:
        raise click.UsageError("--collection and --text exclude each other")
    app.locations.create()
    model, found = _model(app, source)
    chosen = name if output is not None else name or f"{found}-awq"

    def free() -> None:
        if chosen is not None:
            app.registry.free(chosen)

    free()
    if output is not None:
        _check_output(app, model, output.expanduser())
    text = _text(app, collection, texts)

    def installed(model: "InstalledModel") -> None:
        click.echo(f"installed {model.name} in {model.path}", err=True)

    if output is None:
        name = f"{chosen}"
        with _telling(app) as tell:
            # Installing is part of the work: interrupted, it is taken up as well.
            quantise(
                model,
                to_install(app.registry.directory, name),
                text,
                device,
                tell,
                lambda folder: installed(app.registry.adopt(folder, name, f"{model}, quantised")),
                free,
            )
        return
    target = output.expanduser()
    with _telling(app) as tell:
        quantise(model, target, text, device, tell, free=free)
    click.echo(f"wrote {target}", err=True)
    if chosen is not None:
        installed(app.registry.add(target, chosen))


def _model(app: App, source: str) -> tuple[Path, str]:
    """Where it lies, and its name."""
    from unabridged.models.errors import ModelNotFound
    from unabridged.models.registry import name_of

    path = Path(source).expanduser()
    if not path.exists():
        if "/" in source:
            raise ModelNotFound(f"no model at {path}", "give a checkpoint's folder, a .gguf file or an installed model")
        path = app.registry.get(source).path
    path = path.resolve()
    return path, name_of(path)


def _check_output(app: App, model: Path, output: Path) -> None:
    """A folder within a model would become part of it."""
    from unabridged.models.errors import ModelError

    real = output.resolve()
    if model.is_dir() and real.is_relative_to(model):
        raise ModelError(f"{output} lies in the source {model}", "choose a folder outside it")
    if real.is_relative_to(app.registry.directory.resolve()):
        raise ModelError(
            f"{output} lies among the installed models", "leave out --output to install it, or choose another folder"
        )


def _text(app: App, collection: str | None, texts: tuple[Path, ...]) -> str:
    from unabridged.app.sample_text import manual, text_of_collection, text_of_files

    if collection is not None:
        with app.library() as library:
            return text_of_collection(library, collection)
    return text_of_files(texts) if texts else manual()


@contextmanager
def _telling(app: App) -> "Iterator[Teller]":
    """One line that changes on a terminal, a line a layer elsewhere; on a stop, how to go on."""
    from unabridged.app.quantising import Teller

    def remark(text: str) -> None:
        click.echo(text, err=True)

    try:
        if not app.console.is_terminal:
            yield Teller(remark, lambda progress: remark(_line(progress)))
        else:
            with app.console.status("") as status:
                yield Teller(remark, lambda progress: status.update(_line(progress)))
    except (KeyboardInterrupt, SystemExit):
        remark("finished layers are kept: the same command goes on with them")
        raise


def _line(progress: "Progress") -> str:
    line = f"layer {progress.done} of {progress.layers}"
    if progress.seconds is None or progress.done == progress.layers:
        return line
    minutes = progress.seconds / 60
    return f"{line}, about {minutes:.0f} min left" if minutes >= 1 else f"{line}, less than a minute left"
