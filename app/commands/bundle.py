"""`unabridged bundle`: one archive with all that a machine without a network needs."""

import platform
import tempfile
from pathlib import Path

import click

from unabridged.app.commands.common import App, examples, pass_app
from unabridged.models.catalogue import DEFAULT_MODEL

_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(
    epilog=examples(
        "unabridged bundle --sign ~/.ssh/release",
        "unabridged bundle --flavour cuda --python 3.12 --model ~/Llama-3.1-8B-AWQ --sign ~/.ssh/release --deb",
    )
)
@click.option("--python", type=click.Choice(["3.11", "3.12"]), help="The Python it is for; by default the one here.")
@click.option(
    "--flavour", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="The build of torch."
)
@click.option("--model", "models", multiple=True, help="An installed model or a folder; by default the default model.")
@click.option("--model-wheel", type=_FILE, help="A local copy of the default model's wheel.")
@click.option("--sign", "key", type=_FILE, help="Sign with this key (ssh-keygen -Y sign).")
@click.option("--deb", is_flag=True, help="Write a Debian package as well.")
@click.option("--triton-cache", type=_FOLDER, help="Carry the kernels that a machine with such a card has compiled.")
@click.option(
    "--with", "more", type=_FILE, multiple=True, help="Carry this hash-pinned lock too, of an extra for example."
)
@click.option("--source", type=_FOLDER, help="The checkout to build from, if not the one that this runs from.")
@click.option("-o", "--out", type=click.Path(path_type=Path, file_okay=False), default="dist", show_default=True)
@pass_app
def bundle(
    app: App,
    python: str | None,
    flavour: str,
    models: tuple[str, ...],
    model_wheel: Path | None,
    key: Path | None,
    deb: bool,
    triton_cache: Path | None,
    more: tuple[Path, ...],
    source: Path | None,
    out: Path,
) -> None:
    """Write an archive for machines without a network: packages, models, installer, bill of materials, hashes.

    Needs a checkout and pip's index. docs/airgap.md says how it is carried, checked, installed and proved.
    """
    from unabridged.app.bundle.building import build
    from unabridged.app.bundle.recipe import Flavour, Recipe, checkout
    from unabridged.models.registry import Registry

    wanted = python or ".".join(platform.python_version_tuple()[:2])
    with tempfile.TemporaryDirectory(prefix="unabridged-models-") as scratch:
        added = Registry(Path(scratch))
        folders = []
        for model in models or (DEFAULT_MODEL,):
            if (path := Path(model).expanduser()).is_dir():
                click.echo(f"reading {path}", err=True)
                folders.append(added.add(path).path)
            elif model == DEFAULT_MODEL and model not in [one.name for one in app.registry.list()]:
                click.echo(f"fetching {model}", err=True)
                folders.append(added.add_default(model, model_wheel).path)
            else:
                folders.append(app.registry.get(model).path)
        build_of_torch: Flavour = "cuda" if flavour == "cuda" else "cpu"
        recipe = Recipe(checkout(source), wanted, build_of_torch, tuple(folders), triton_cache, more)
        for file in build(recipe, out, lambda text: click.echo(text, err=True), key=key, package=deb):
            click.echo(file)
