"""`unabridged config`: the settings in force and where each comes from."""

from typing import Any

import click

from unabridged.app.commands.common import TEXT, App, emit, examples, json_option, pass_app, table

_EXAMPLES = examples(
    "unabridged config",
    "unabridged config set answer.mode whole",
    "unabridged config get answer.mode",
    "unabridged config path",
)


@click.group(invoke_without_command=True, epilog=_EXAMPLES)
@json_option
@click.pass_context
def config(ctx: click.Context, as_json: bool) -> None:
    """Show and change settings. A flag beats an UNABRIDGED_* variable, which beats the file."""
    if ctx.invoked_subcommand is not None:
        return
    from unabridged.app.settings import describe

    app = ctx.find_object(App)
    assert app is not None
    items = app.load().items()
    if as_json:
        for key, value, origin in items:
            emit({"key": key, "value": value, "origin": origin, "about": describe(key)})
        return
    table(
        ([key, _shown(key, value), origin, describe(key)] for key, value, origin in items), ["KEY", "VALUE", "FROM", ""]
    )


@config.command(epilog=examples("unabridged config path"))
@pass_app
def path(app: App) -> None:
    """Print where the settings file lies, whether it exists or not."""
    click.echo(app.locations.config_file)


@config.command("get", epilog=examples("unabridged config get answer.mode"))
@click.argument("key", type=TEXT)
@pass_app
def get(app: App, key: str) -> None:
    """Print one setting."""
    from unabridged.app.settings import value_of

    click.echo(_plain(value_of(app.settings(), key)))


@config.command("set", epilog=examples("unabridged config set answer.mode whole"))
@click.argument("key", type=TEXT)
@click.argument("value", type=TEXT)
@pass_app
def set_(app: App, key: str, value: str) -> None:
    """Change one setting in the file. Comments in the file are not kept."""
    from unabridged.app.settings import save, value_of

    settings = save(app.locations.config_file, key, value)
    click.echo(f"{key} = {_plain(value_of(settings, key))} in {app.locations.config_file}", err=True)


def _shown(key: str, value: Any) -> str:
    if key == "server.api_key" and value:
        return "(set)"
    return _plain(value) or '""'


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(value) if isinstance(value, tuple) else str(value)
