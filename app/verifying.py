"""An installation against the manifest of the bundle that it came from, and every model against its own.

app/installer/verify.py compares the files, with the standard library alone. Nothing is changed, no network is used.
What this cannot cover is said by the caller: a program that was changed can say anything, so `install.sh verify` of the
archive, whose hashes are checked first, is what an auditor runs.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.installer.codes import Stop
from unabridged.app.installer.comparing import Difference
from unabridged.app.installer.manifest import FACTS, MANIFEST, SIGNATURE, Facts, Malformed, read_facts
from unabridged.app.installer.signature import signer
from unabridged.app.installer.verify import PAPERS, is_version
from unabridged.models.errors import UnabridgedError
from unabridged.models.manifest import MANIFEST as OF_MODEL
from unabridged.models.registry import Registry

ALLOWED = "allowed_signers"
"""Name of the file that says whose signature counts, in the settings' folder or in /etc/unabridged."""


def installation() -> Path | None:
    """The folder of the version that runs; None where it was not installed from a bundle."""
    folder = Path(sys.prefix)
    return folder if is_version(folder) else None


def facts_of(folder: Path) -> Facts:
    """What the installation's bundle says of itself. Raises BundleFailed."""
    try:
        return read_facts(folder / PAPERS / FACTS)
    except (Malformed, OSError) as error:
        raise BundleFailed(str(error), "install the bundle again") from error


def allowed_signers(config: Path) -> Path | None:
    """The file of allowed signers that is there: the user's, else the machine's."""
    return next((file for file in (config / ALLOWED, Path("/etc/unabridged", ALLOWED)) if file.is_file()), None)


def signed_by(folder: Path, allowed: Path) -> str:
    """Who signed the manifest of an installation. Raises BundleFailed when nobody did whom `allowed` names."""
    papers = folder / PAPERS
    try:
        return signer(papers / MANIFEST, papers / SIGNATURE, allowed)
    except Stop as stop:
        raise BundleFailed(stop.message, stop.remedy) from stop


def models(registry: Registry, progress: Callable[[int], None] | None = None) -> Iterator[Difference]:
    """Every difference between the user's own models and their manifests; the shared ones are the bundle's files."""
    for manifest in sorted(registry.directory.glob(f"*/{OF_MODEL}")):
        folder = manifest.parent
        if folder.name.startswith("."):
            continue  # one that is being installed
        try:
            problems = registry.verify(folder.name, progress)
        except (UnabridgedError, OSError) as error:
            yield Difference(str(folder), str(error))
            continue
        for problem in problems:
            yield Difference(f"{folder}/{problem.file}", problem.reason)
