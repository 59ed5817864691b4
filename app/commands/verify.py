"""`unabridged verify`: is what is installed still what the bundle held."""

from itertools import chain
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
    from unabridged.app.installer.verify import compared

    folder = verifying.installation()
    if folder is None:
        raise BundleFailed(
            "this program was not installed from a bundle, so there is no manifest of its files",
            "`unabridged models verify NAME` checks a model",
        )
    try:
        id = verifying.facts_of(folder).id
    except BundleFailed:
        id = folder.name  # that bundle.json is damaged is among the differences
    count = 0
    # Each is said when it is found: nothing that comes after can hide it.
    for one in chain(compared(folder), verifying.models(app.registry)):
        count += 1
        if as_json:
            emit({"path": one.path, "reason": one.reason})
        else:
            say(f"{one.path}: {one.reason}")
    allowed = signers or verifying.allowed_signers(app.locations.config)
    who = problem = ""
    try:
        who = verifying.signed_by(folder, allowed) if allowed else ""
    except BundleFailed as error:
        problem = str(error)
    if as_json:
        emit({"id": id, "signed_by": who, "signature": problem, "differences": count})
    elif problem:
        say(f"signature: {problem}")
    else:
        signature = f"signed by {who}" if who else "no signature was checked: no file allowed_signers, give --signers"
        click.echo(f"{id}: {signature}", err=True)
    if count:
        say(f"unabridged: error: {count} differences from the manifest (install the bundle again)")
    elif problem:
        say("unabridged: error: all files are as the list says, but nobody vouches for it (install a signed bundle)")
    else:
        click.echo(f"{id}: all files and models are as they were built", err=True)
    return FAILED if count or problem else 0
