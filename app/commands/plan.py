"""`unabridged plan`: what a model and a context take of a GPU and its host, before anything is loaded."""

from pathlib import Path
from typing import Any

import click

from unabridged.app.commands.common import SIZE, TEXT, App, emit, examples, json_option, pass_app, vram_option
from unabridged.models.errors import ModelNotFound

_EXAMPLES = examples(
    "unabridged plan",
    "unabridged plan llama8b --context 1000000",
    "unabridged plan ~/Llama-3.1-8B-AWQ/config.json --vram 24GiB --ram 96GiB --context 1000000 --index",
)


@click.command(epilog=_EXAMPLES)
@click.argument("model", required=False, type=TEXT)
@click.option("--context", type=click.IntRange(min=1), help="Tokens of context (setting engine.context_tokens).")
@vram_option
@click.option("--ram", type=SIZE, help="Plan for a machine with so much memory free, as 96GiB, instead of this one.")
@click.option("--slots", type=click.IntRange(1, 64), help="Answers at a time (setting engine.slots).")
@click.option("--place", type=click.Choice(["auto", "gpu", "host"]), help="Where keys and values lie (engine.place).")
@click.option(
    "--kv",
    type=click.Choice(["auto", "float8_e4m3fn", "bfloat16", "float16", "float32"]),
    help="How they are stored (setting engine.kv_dtype).",
)
@click.option("--index/--no-index", default=None, help="As if the model had an index, or none.  [default: as it has]")
@json_option
@pass_app
def plan(
    app: App,
    model: str | None,
    context: int | None,
    vram: int | None,
    ram: int | None,
    slots: int | None,
    place: Any,
    kv: Any,
    index: bool | None,
    as_json: bool,
) -> None:
    """Say how memory would be divided for MODEL: an installed model, a checkpoint's folder, a .gguf file, or the
    config.json of a model that is not here. By default the model of the settings.

    The engine starts by the same plan. What does not fit is refused, with what would; exit code 1.
    """
    from unabridged.app.assembly import engine_options
    from unabridged.app.assistant import attention_choice
    from unabridged.app.planning import plan as planned
    from unabridged.app.service import NoModel
    from unabridged.engine.gpu.chosen import chosen

    settings = app.settings(
        engine__context_tokens=context,
        engine__vram_mib=vram,
        engine__slots=slots,
        engine__place=place,
        engine__kv_dtype=kv,
    )
    choice = attention_choice(settings.engine)
    try:
        path, name = _model(app, model or settings.model.name)
        found = planned(path, name, engine_options(settings, app.locations), ram, index)
    except ModelNotFound as error:
        raise NoModel(error.message, error.hint) from error
    # The engine would start without such attention, and refuse each question.
    chosen(choice, found.plan, found.subject.config.window, found.subject.indexed)
    if as_json:
        emit(found.json())
        return
    for line in found.lines():
        click.echo(line)


def _model(app: App, named: str) -> tuple[Path, str]:
    """Where it lies, and its name."""
    path = Path(named).expanduser()
    if "/" not in named and not path.is_file():
        try:
            installed = app.registry.get(named)
        except ModelNotFound:
            # Then it is a folder that lies here.
            if not path.is_dir():
                raise
        else:
            return installed.path, installed.name
    path = path.resolve()
    return path, path.parent.name if path.name == "config.json" else path.stem if path.is_file() else path.name
