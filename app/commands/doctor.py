"""`unabridged doctor`: is everything in place, and what to do where it is not."""

import click

from unabridged.app.cli import FAILED
from unabridged.app.commands.common import App, emit, examples, json_option, pass_app
from unabridged.app.finding import Finding
from unabridged.app.printable import one_line

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(epilog=examples("unabridged doctor", "unabridged doctor --json", "unabridged doctor --prove-offline"))
@click.option(
    "--prove-offline",
    is_flag=True,
    help="Instead: read documents, ask, serve and show the interface with the network cut, and list every connection.",
)
@json_option
@pass_app
def doctor(app: App, prove_offline: bool, as_json: bool) -> int:
    """Check machine, installation, library, models, server and settings. Exit code 1 when something fails."""
    if prove_offline:
        from unabridged.app.offline.proving import prove

        findings = prove(app.locations, app.settings())
    else:
        from unabridged.app.diagnosis import diagnose

        findings = diagnose(app.locations)
    failed = False
    for finding in findings:
        failed = failed or finding.level == "fail"
        _tell(finding, as_json)
    return FAILED if failed else 0


def _tell(finding: Finding, as_json: bool) -> None:
    if as_json:
        emit({"check": finding.check, "level": finding.level, "text": finding.text, "remedy": finding.remedy})
        return
    level = click.style(finding.level.ljust(4), fg=_COLOURS[finding.level])
    click.echo(f"{level}  {finding.check}: {one_line(finding.text)}")
    if finding.remedy:
        click.echo(f"      {one_line(finding.remedy)}")
