"""`unabridged serve`: the HTTP server in the foreground."""

import click

from unabridged.app.commands.common import App, examples, pass_app, vram_option


@click.command(epilog=examples("unabridged serve", "unabridged serve --port 0", "curl http://127.0.0.1:8642/health"))
@click.option("--host", help="The address to listen on (setting server.host).")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one (setting server.port).")
@click.option("--model", help="The installed model that answers (setting model.name).")
@click.option("--engine", type=click.Choice(["torch", "llama-cpp"]), help="The engine (setting engine.backend).")
@vram_option
@click.option("--expose", is_flag=True, help="Listen beyond this machine without encryption; needs a key.")
@click.option("--child", is_flag=True, hidden=True)
@pass_app
def serve(
    app: App,
    host: str | None,
    port: int | None,
    model: str | None,
    engine: str | None,
    vram: int | None,
    expose: bool,
    child: bool,
) -> None:
    """Run the HTTP server until Ctrl+C. OpenAI clients find it at http://127.0.0.1:8642/v1."""
    from unabridged.app.server import run

    settings = app.settings(
        server__host=host, server__port=port, model__name=model, engine__backend=engine, engine__vram_mib=vram
    )
    run(settings, app.locations, child=child, exposed=expose)
