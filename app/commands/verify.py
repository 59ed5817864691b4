"""`unabridged verify`: is what is installed still what the bundle held."""

from pathlib import Path

import click

from unabridged.app.cli import FAILED, say
from unabridged.app.commands.common import App, emit, examples, json_option, pass_app


@click.command(epilog=examples("unabridged verify", "unabridged verify --signers /media/key/allowed_signers --json"))
@click.option(
    "--signers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Whose signature counts; by default allowed_signers beside the settings, else in /etc/unabridged.",
)
@json_option
@pass_app
def verify(app: App, signers: Path | None, as_json: bool) -> int:
    """Compare every installed file and model with the bundle's manifest. Names each difference; exit code 1 for any."""
    from unabridged.app import verifying
    from unabridged.app.bundle.errors import BundleFailed

    folder = verifying.installation()
    if folder is None:
        raise BundleFailed(
            "this program was not installed from a bundle, so there is no manifest of its files",
            "`unabridged models verify NAME` checks a model",
        )
    facts = verifying.facts_of(folder)
    allowed = signers or verifying.allowed_signers(app.locations.config)
    who = verifying.signed_by(folder, allowed) if allowed else ""
    found = [*verifying.compared(folder), *verifying.models(app.registry)]
    if as_json:
        for one in found:
            emit({"path": one.path, "reason": one.reason})
        emit({"id": facts.id, "signed_by": who, "differences": len(found)})
    else:
        for one in found:
            say(f"{one.path}: {one.reason}")
        signature = f"signed by {who}" if who else "no signature was checked: no file allowed_signers, give --signers"
        click.echo(f"{facts.id}: {signature}", err=True)
    if found:
        say(f"unabridged: error: {len(found)} differences from the manifest (install the bundle again)")
        return FAILED
    click.echo(f"{facts.id}: all files and models are as they were built", err=True)
    return 0
