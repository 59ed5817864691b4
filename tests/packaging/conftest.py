"""Fixtures of the bundle's tests: keys of a release, and a small bundle that is made once."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.packaging import made


@dataclass(frozen=True)
class Keys:
    """A private key and the file that allows its signatures; `other` allows another's."""

    private: Path
    allowed: Path
    other: Path


@dataclass(frozen=True)
class Machine:
    """A folder that stands for a machine: a prefix, and where links go."""

    folder: Path

    @property
    def prefix(self) -> Path:
        return self.folder / "prefix"

    @property
    def command(self) -> Path:
        return self.folder / "base/bin/unabridged"

    def start(self, bundle: Path, *words: str, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """install.sh of a bundle, as a process."""
        places = ["--prefix", str(self.prefix), "--links", str(self.folder / "base"), "--python", sys.executable]
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], **(environment or {})}
        return subprocess.Popen(
            ["sh", str(bundle / "install.sh"), *words, *places],
            env=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, bundle: Path, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of install.sh."""
        process = self.start(bundle, *words)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def answer(self) -> str:
        """What the installed command prints."""
        done = subprocess.run(
            [self.command], capture_output=True, text=True, check=True, env={"HOME": str(self.folder)}
        )
        return done.stdout.strip()

    def leftovers(self) -> list[str]:
        """What an interrupted installer may leave behind, and must not."""
        versions = self.prefix / "versions"
        return [path.name for path in versions.glob(".*")] if versions.exists() else []


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("release", "stranger"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(command, check=True)
        (folder / f"{name}.allowed").write_text(f"{name}@example {(folder / f'{name}.pub').read_text()}")
    return Keys(folder / "release", folder / "release.allowed", folder / "stranger.allowed")


@pytest.fixture(scope="session")
def pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.pip_wheel(tmp_path_factory.mktemp("pip"))


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory, pip: Path, keys: Keys) -> Path:
    """A signed small bundle. Not to be changed."""
    folder = made.bundle(tmp_path_factory.mktemp("bundle"), pip)
    made.sign(folder, keys.private)
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
