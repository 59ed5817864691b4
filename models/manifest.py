"""The manifest of an installed model: what its folder held when it was installed. Torch-free."""

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.hashing import replace

MANIFEST = "manifest.json"
# What the engine measured of the weights: tensors, but no checkpoint, so it has an ending of its own.
CALIBRATION = "index.calibration"
SCHEMA = 1


class InstalledFile(msgspec.Struct, frozen=True):
    """A file of a model as it was when installed."""

    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What manifest.json holds. `fingerprint`: of the files' contents; `source`: where it came from, for people."""

    schema: int
    name: str
    format: Literal["gguf", "safetensors"]
    source: str
    window: int
    parameters: int
    fingerprint: str
    files: tuple[InstalledFile, ...]
    defaults: dict[str, Any]


def read_manifest(folder: Path) -> Manifest:
    """Of a model folder. Raises ModelDamaged, or ModelUnsupported for a manifest of another version."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (msgspec.MsgspecError, OSError) as error:
        raise ModelDamaged(f"{folder / MANIFEST}: {error}", "remove this folder and add the model again") from error
    if manifest.schema != SCHEMA:
        raise ModelUnsupported(f"{folder / MANIFEST}: schema {manifest.schema}", "it was made by another version")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step."""
    replace(folder / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")


def fingerprint_of(files: tuple[InstalledFile, ...]) -> str:
    """Short hash of the files' names and contents."""
    listed = "\n".join(sorted(f"{file.path} {file.sha256}" for file in files))
    return hashlib.sha256(listed.encode()).hexdigest()[:32]
