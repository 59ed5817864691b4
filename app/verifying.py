"""An installation against the manifest of the bundle that it came from, and every model against its own.

The chain: a signature covers MANIFEST, MANIFEST the list of what installing gives, the list each file. Nothing is
changed, no network is used. What the chain cannot cover is said by the caller: a program that was changed can say
anything, so `install.sh` of the archive, whose hashes are checked first, is what an auditor runs.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.signing import signer
from unabridged.app.installer.comparing import Difference, differences
from unabridged.app.installer.manifest import (
    FACTS,
    INSTALLED,
    MANIFEST,
    SIGNATURE,
    Facts,
    Malformed,
    read,
    read_facts,
    sha256_of,
)
from unabridged.models.registry import Registry

ALLOWED = "allowed_signers"
"""Name of the file that says whose signature counts, in the settings' folder or in /etc/unabridged."""


def installation() -> Path | None:
    """The folder of the version that runs; None where it was not installed from a bundle."""
    folder = Path(sys.prefix)
    return folder if (folder / "bundle" / MANIFEST).is_file() else None


def facts_of(folder: Path) -> Facts:
    """What the installation's bundle says of itself. Raises BundleFailed."""
    try:
        return read_facts(folder / "bundle" / FACTS)
    except (Malformed, OSError) as error:
        raise BundleFailed(str(error), "install the bundle again") from error


def allowed_signers(config: Path) -> Path | None:
    """The file of allowed signers that is there: the user's, else the machine's."""
    return next((file for file in (config / ALLOWED, Path("/etc/unabridged", ALLOWED)) if file.is_file()), None)


def signed_by(folder: Path, allowed: Path) -> str:
    """Who signed the manifest of an installation. Raises BundleFailed when nobody did whom `allowed` names."""
    papers = folder / "bundle"
    return signer(papers / MANIFEST, papers / SIGNATURE, allowed)


def compared(folder: Path, progress: Callable[[int], None] | None = None) -> Iterator[Difference]:
    """Every difference between an installation and its manifest; `progress` is told bytes read."""
    papers = folder / "bundle"
    try:
        manifest = read(papers / MANIFEST)
        for paper in (FACTS, INSTALLED):
            if manifest.get(paper) != sha256_of(papers / paper):
                yield Difference(f"bundle/{paper}", "is not what the manifest names")
        listed = read(papers / INSTALLED)
    except (Malformed, OSError) as error:
        yield Difference("bundle", f"cannot be read: {error}")
        return
    yield from differences(folder, listed, progress)


def models(registry: Registry, progress: Callable[[int], None] | None = None) -> Iterator[Difference]:
    """Every difference between the user's own models and their manifests; the shared ones are the bundle's files."""
    for model in registry.list():
        if model.path.parent == registry.directory:
            for problem in registry.verify(model.name, progress):
                yield Difference(f"{model.path}/{problem.file}", problem.reason)
