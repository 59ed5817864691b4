"""`unabridged doctor`: is everything in place, and what to do where it is not."""

import click

from unabridged.app.cli import FAILED
from unabridged.app.commands.common import App, emit, examples, json_option, pass_app
from unabridged.app.printable import one_line

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog=examples("unabridged doctor", "unabridged doctor --json"))
@json_option
@pass_app
def doctor(app: App, as_json: bool) -> int:
    """Check this machine, the library, the models, the server and the settings. Exit code 1 when something fails."""
    from unabridged.app.diagnosis import diagnose

    failed = False
    for finding in diagnose(app.locations):
        failed = failed or finding.level == "fail"
        if as_json:
            emit({"check": finding.check, "level": finding.level, "text": finding.text, "remedy": finding.remedy})
            continue
        click.echo(
            f"{click.style(finding.level.ljust(4), fg=_COLOURS[finding.level])}  {finding.check}: "
            + one_line(finding.text)
        )
        if finding.remedy:
            click.echo(f"      {one_line(finding.remedy)}")
    return FAILED if failed else 0
