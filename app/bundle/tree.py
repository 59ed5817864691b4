"""The files of a bundle that are copied as they are: launcher, installer, models, papers. And what installing gives.

What lies below files/ comes to lie below the version's folder under the same path.
"""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from unabridged.app.bundle import archive, manual
from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.bundle.wheels import lock
from unabridged.app.installer.making import LOCK
from unabridged.app.installer.manifest import INSTALLED, written


def installer(source: Path, folder: Path) -> None:
    """Put install.sh and its modules into a folder."""
    shutil.copyfile(source / "packaging/install.sh", folder / "install.sh")
    (folder / "install.sh").chmod(0o755)
    package = folder / "setup/unabridged"
    (package / "app/installer").mkdir(parents=True)
    shutil.copyfile(source / "src/unabridged/__init__.py", package / "__init__.py")
    shutil.copyfile(source / "app/__init__.py", package / "app/__init__.py")
    for module in sorted((source / "app/installer").glob("*.py")):
        shutil.copyfile(module, package / "app/installer" / module.name)


def fill(source: Path, folder: Path, models: Iterable[Path], epoch: int) -> None:
    """Put everything but licences and Triton's cache into `folder`, the bundle's files/."""
    installer(source, _made(folder))
    share = source / "packaging/share"
    _put(share / "launcher.sh", folder / "bin/unabridged")
    (folder / "bin/unabridged").chmod(0o755)
    _put(share / "unabridged.service", folder / "share/systemd/unabridged.service")
    _put(share / "unabridged.desktop", folder / "share/applications/unabridged.desktop")
    _put(share / "unabridged.logrotate", folder / "share/logrotate/unabridged")
    _put(source / "docs/airgap.md", folder / "share/doc/airgap.md")
    shutil.copytree(source / "packaging/demo", folder / "share/demo")
    _write(folder / "share/man/man1/unabridged.1", manual.page(epoch))
    for shell in manual.SHELLS:
        _write(folder / f"share/completions/unabridged.{shell}", manual.completion(shell))
    for model in models:
        target = _made(folder / "models" / model.name)
        for file in sorted(path for path in model.iterdir() if path.is_file()):
            shutil.copyfile(file, target / file.name)


def write_lists(wheels: Sequence[WheelFile], bundle: Path, python: str) -> int:
    """Write the installer's lock and the list of what installing gives into a bundle whose other files are there.

    Returns the bytes that installing takes. Raises BundleFailed where two wheels clash.
    """
    (bundle / LOCK).parent.mkdir()
    (bundle / LOCK).write_text(lock({wheel.path.name: wheel.sha256 for wheel in wheels}), "ascii")
    listed, size = _installed(wheels, bundle / "files", python)
    (bundle / INSTALLED).write_text(written(listed), "ascii")
    return size


def _installed(wheels: Sequence[WheelFile], files: Path, python: str) -> tuple[dict[str, str], int]:
    """SHA-256 by path of all that installing gives, and its bytes. Raises BundleFailed where two wheels clash."""
    listed: dict[str, str] = {}
    size = 0
    for wheel in wheels:
        for path, digest, length in wheel.installed(python):
            if listed.setdefault(path, digest) != digest:
                raise BundleFailed(f"two wheels have a file {path}; one is {wheel.path.name}", "leave one of them out")
            size += length
    copied = archive.listed(files)
    size += sum((files / path).stat().st_size for path in copied)
    return listed | copied, size


def _put(source: Path, target: Path) -> None:
    _made(target.parent)
    shutil.copyfile(source, target)


def _write(target: Path, text: str) -> None:
    _made(target.parent)
    target.write_text(text, "utf-8")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
