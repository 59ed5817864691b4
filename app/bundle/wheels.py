"""Fills a folder with the wheels of a bundle: ours built, all others downloaded with the hashes of the locks.

pip is asked as the user would ask it, so that a private mirror, a proxy and pip.conf hold. It is asked for the wheels
of the bundle's Python and of the oldest C library that the locks are made for, whatever runs here.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.recipe import Recipe
from unabridged.app.bundle.wheelfile import normalised

# As packaging/lock.sh resolves: glibc 2.28.
_GLIBC = range(5, 29)
_OLD_TAGS = ("manylinux1", "manylinux2010", "manylinux2014", "linux")
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in _GLIBC] + [f"{tag}_x86_64" for tag in _OLD_TAGS]


def gather(recipe: Recipe, folder: Path) -> None:
    """Put all wheels into `folder`. Raises BundleFailed with pip's own reason."""
    version = recipe.python.replace(".", "")
    options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", recipe.python]
    options += ["--implementation", "cp", *_each("--abi", (f"cp{version}", "abi3", "none"))]
    options += [*_each("--platform", _PLATFORMS), "--dest", str(folder)]
    options += _each("--requirement", map(str, recipe.locks()))
    _pip("download", *options, what=f"the wheels for Python {recipe.python}, {recipe.flavour}")
    if not list(folder.glob("pip-*.whl")):
        raise BundleFailed("the locks have no pip, which the installer needs", "add pip to them")
    _build(recipe, folder)


def lock(digests: dict[str, str]) -> str:
    """The installer's requirements, from hashes by wheel: exactly these files."""
    lines = []
    for wheel in sorted(digests):
        name, version = wheel.split("-")[:2]
        lines.append(f"{normalised(name)}=={version} --hash=sha256:{digests[wheel]}\n")
    return "".join(lines)


def _build(recipe: Recipe, folder: Path) -> None:
    """Our own wheel. hatchling takes every time in it from SOURCE_DATE_EPOCH."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(recipe.epoch)}
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(recipe.source)]
    _pip("wheel", *options, what="our own wheel", environment=environment)


def _pip(command: str, *options: str, what: str, environment: dict[str, str] | None = None) -> None:
    common = ("--no-input", "--disable-pip-version-check", "--quiet")
    done = subprocess.run(
        # -P: never import a module from the folder that the user happens to be in.
        [sys.executable, "-P", "-m", "pip", command, *common, *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
        raise BundleFailed(
            f"pip could not get {what}: {(errors or lines or ['it gave no reason'])[-1]}",
            "check the network and pip's index",
        )


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
