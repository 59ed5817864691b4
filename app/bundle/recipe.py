"""What a bundle is made of: the checkout, the Python and the flavour of torch that it is for.

Versions of packages stand in the checkout's locks alone (docs/decisions/0002-locks.md); nothing of them is repeated
here.
"""

import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from unabridged import __version__
from unabridged.app.bundle.errors import BundleFailed

Flavour = Literal["cpu", "cuda"]
PLATFORM = "linux-x86_64"
_LOCKS = {"cpu": ("torch-cpu.txt",), "cuda": ("torch.txt", "cuda.txt")}
# Needs of a checkout that a folder must have to be taken for one.
_MARKS = ("pyproject.toml", "requirements", "packaging/install.sh", "src/unabridged/__init__.py")


@dataclass(frozen=True)
class Recipe:
    """One bundle. `models`: folders of installed models, as the registry keeps them; `warm`: a folder of Triton's cache
    from a machine with such a card, or None; `more`: further hash-pinned locks to carry, of extras for example."""

    source: Path
    python: str
    flavour: Flavour
    models: tuple[Path, ...]
    warm: Path | None = None
    more: tuple[Path, ...] = ()

    def locks(self) -> list[Path]:
        """The files that pin what is installed. Raises BundleFailed when one is missing."""
        names = (f"runtime-py{self.python.replace('.', '')}.txt", *_LOCKS[self.flavour])
        files = [*(self.source / "requirements" / name for name in names), *self.more]
        for file in files:
            if not file.is_file():
                raise BundleFailed(f"{file} is missing", "packaging/lock.sh writes the locks")
        return files

    @cached_property
    def commit(self) -> str:
        """The checkout's commit, with "-changed" where files differ from it; "unknown" outside git."""
        head = self._git("rev-parse", "HEAD")
        changed = self._git("status", "--porcelain", "--untracked-files=no")
        return (head + ("-changed" if changed else "")) if head else "unknown"

    @cached_property
    def epoch(self) -> int:
        """Seconds that stand in for every time in the bundle: SOURCE_DATE_EPOCH, else when the commit was made.

        Raises BundleFailed where neither is known.
        """
        given = os.environ.get("SOURCE_DATE_EPOCH") or self._git("log", "-1", "--format=%ct")
        if not given.isdecimal():
            raise BundleFailed(
                f"{self.source} is in no git repository, so its time is unknown", "set SOURCE_DATE_EPOCH to seconds"
            )
        return int(given)

    def name(self, id: str) -> str:
        """The archive's name without ending, and of the folder in it."""
        return f"unabridged-{id}-{PLATFORM}"

    def id(self, digest: str) -> str:
        """What names the version where it is installed; `digest` is that of the installed files' list."""
        return f"{__version__}-py{self.python.replace('.', '')}-{self.flavour}-{digest[:12]}"

    def _git(self, *words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=self.source, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        return done.stdout.strip() if done.returncode == 0 else ""


def checkout(given: Path | None) -> Path:
    """The folder of the sources: the one given, else the one that this module runs from. Raises BundleFailed."""
    # Through the link in src/unabridged, which an editable install imports from.
    folder = given or Path(__file__).resolve().parents[2]
    if not all((folder / mark).exists() for mark in _MARKS):
        raise BundleFailed(
            f"{folder} is no checkout of Unabridged"
            if given
            else "bundles are built from a checkout, this is installed",
            "name the checkout with --source",
        )
    return folder.absolute()
