"""Builds a bundle from a recipe: the order of the steps, and what is written at the end.

The same checkout, locks and models give the same bytes: every time in the archive is the recipe's epoch, owners and
modes are fixed, all is sorted. Exceptions are named in docs/decisions/0032-bundle.md.
"""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from unabridged import __version__
from unabridged.app.bundle import archive, deb, licences, sbom, signing, tree, warm, wheels
from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.recipe import PLATFORM, Recipe
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.manifest import (
    FACTS,
    INSTALLED,
    MANIFEST,
    Carried,
    Facts,
    sha256_of,
    write_facts,
    written,
)
from unabridged.models.catalogue import CATALOGUE
from unabridged.models.manifest import MANIFEST as MODEL_MANIFEST
from unabridged.models.manifest import read_manifest

Tell = Callable[[str], None]
# The oldest driver by the major version of CUDA, from NVIDIA's compatibility table.
_DRIVERS = {"12": "525.60.13", "13": "580.65.06"}


@dataclass(frozen=True)
class Parts:
    """What went into the bundle so far."""

    wheels: Sequence[WheelFile]
    models: Sequence[tuple[Carried, Path]]


def build(recipe: Recipe, out: Path, tell: Tell, *, key: Path | None = None, package: bool = False) -> list[Path]:
    """Write the archive into `out`, and a .deb where `package` says so, each with its signature where `key` is given.

    Returns the files. Raises BundleFailed; nothing is left behind then.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=out, ignore_cleanup_errors=True) as scratch:
        work = Path(scratch)
        tell("fetching wheels")
        (work / "wheels").mkdir()
        wheels.gather(recipe, work / "wheels")
        found = [WheelFile(file, sha256_of(file)) for file in sorted((work / "wheels").glob("*.whl"))]
        _complete(found)
        parts = Parts(found, [(_carried(folder), folder) for folder in recipe.models])
        tell(f"{len(found)} wheels; collecting licences, models and papers")
        facts = _fill(recipe, parts, work, tell)
        bundle = work / recipe.name(facts.id)
        bundle.mkdir()
        for part in sorted(path for path in work.iterdir() if path != bundle):
            part.rename(bundle / part.name)
        (bundle / MANIFEST).write_text(written(archive.listed(bundle)), "ascii")
        if key is not None:
            signing.sign(bundle / MANIFEST, key)
        return _written(recipe, bundle, facts, out, tell, key, package)


def _complete(wheels: Sequence[WheelFile]) -> None:
    """Whether all that our own wheel asks for is among them: locks may be older than it. Raises BundleFailed."""
    names = {wheel.name for wheel in wheels}
    (own,) = [wheel for wheel in wheels if wheel.name == "unabridged"]
    missing = sorted(own.needs - names)
    if missing:
        raise BundleFailed(f"the locks lack {', '.join(missing)}, which pyproject.toml names", "run packaging/lock.sh")


def _written(
    recipe: Recipe, bundle: Path, facts: Facts, out: Path, tell: Tell, key: Path | None, package: bool
) -> list[Path]:
    tell("writing the archive")
    made = [bundle.with_name(bundle.name + ".tar")]
    archive.pack(bundle, made[0], recipe.epoch)
    if package:
        tell("writing the Debian package")
        made.append(bundle.with_name(deb.name(facts)))
        deb.write(bundle, facts, made[-1])
    if key is not None:
        made += [signing.sign(file, key) for file in list(made)]
    # Last: an interrupted build leaves nothing under these names.
    return [file.replace(out / file.name) for file in made]


def _fill(recipe: Recipe, parts: Parts, work: Path, tell: Tell) -> Facts:
    files = work / "files"
    tree.fill(recipe.source, files, recipe.models, recipe.epoch)
    tree.installer(recipe.source, work)
    launcher = ""
    if recipe.flavour == "cuda":
        launcher = _triton(recipe, parts, files / "triton", tell)
        # Names a user's copy of it: other content, another copy.
        listed = archive.listed(files / "triton")
        (files / "triton.id").write_text(hashlib.sha256(written(listed).encode()).hexdigest()[:16] + "\n", "ascii")
    licences.collect(parts.wheels, parts.models, recipe.source / "LICENSE", files / "share/licences")
    bill = sbom.bill(parts.wheels, parts.models, recipe.epoch)
    (files / "share/sbom.cdx.json").write_text(bill, "utf-8")
    size = tree.write_lists(parts.wheels, work, recipe.python)
    facts = Facts(
        id=recipe.id(sha256_of(work / INSTALLED)),
        version=__version__,
        python=recipe.python,
        flavour=recipe.flavour,
        platform=PLATFORM,
        glibc=".".join(map(str, max(wheel.glibc for wheel in parts.wheels))),
        installed=size,
        driver=_driver(parts) if recipe.flavour == "cuda" else "",
        launcher=launcher,
        commit=recipe.commit,
        epoch=recipe.epoch,
        models=tuple(model for model, _ in parts.models),
    )
    (work / FACTS).write_text(write_facts(facts), "ascii")
    return facts


def _triton(recipe: Recipe, parts: Parts, cache: Path, tell: Tell) -> str:
    """Fill Triton's cache; the oldest C library of its launcher, empty where there is none."""
    (wheel,) = [wheel for wheel in parts.wheels if wheel.name == "triton"]
    cache.mkdir()
    compiled = warm.launcher(wheel.path, recipe.python, cache, tell)
    if recipe.warm is not None:
        tell(f"{warm.carry(recipe.warm, cache)} entries of Triton's cache are carried along")
    return ".".join(map(str, compiled or ()))


def _driver(parts: Parts) -> str:
    """The oldest driver that the CUDA libraries accept; empty where that is not known."""
    found = [wheel.version.split(".")[0] for wheel in parts.wheels if wheel.name == "cuda-toolkit"]
    return _DRIVERS.get(found[0], "") if found else ""


def _carried(folder: Path) -> Carried:
    """A folder of the registry as the bundle names it. Raises ModelDamaged."""
    manifest = read_manifest(folder)
    known = {f"{entry.package} {entry.version}": entry.licence for entry in CATALOGUE}
    size = sum(file.size for file in manifest.files) + (folder / MODEL_MANIFEST).stat().st_size
    return Carried(manifest.name, manifest.fingerprint, size, known.get(manifest.source, ""))
