"""The bill of materials of a bundle: CycloneDX 1.6, as JSON, the same bytes for the same parts.

Parts are the wheels and the models, with their hashes; what a wheel holds inside is described by its own licences. The
tests hold the result against the published schema.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unabridged import __version__
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.manifest import Carried, sha256_of, written

_OURS = "unabridged"


def bill(wheels: Sequence[WheelFile], models: Iterable[tuple[Carried, Path]], epoch: int) -> str:
    """The document. `epoch`: seconds, its time."""
    parts = [_package(wheel) for wheel in wheels if wheel.name != _OURS]
    parts += [_model(model, folder) for model, folder in models]
    known = {wheel.name: _reference(wheel) for wheel in wheels}
    (own,) = [_package(wheel) for wheel in wheels if wheel.name == _OURS]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of the content, so that the same bundle has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([own, parts], sort_keys=True))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "unabridged bundle", "version": __version__}]},
            "component": {**own, "type": "application"},
        },
        "components": parts,
        "dependencies": [
            {"ref": known[wheel.name], "dependsOn": sorted(known[name] for name in wheel.needs if name in known)}
            for wheel in wheels
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _package(wheel: WheelFile) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(wheel),
        "name": wheel.name,
        "version": wheel.version,
        "purl": _reference(wheel),
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
    }
    if wheel.expression:
        part["licenses"] = [{"expression": wheel.expression}]
    elif wheel.licence:
        part["licenses"] = [{"license": {"name": wheel.licence}}]
    return part


def _model(model: Carried, folder: Path) -> dict[str, Any]:
    files = {file.name: sha256_of(file) for file in sorted(folder.iterdir()) if file.is_file()}
    part: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": f"model:{model.name}@{model.fingerprint}",
        "name": model.name,
        "version": model.fingerprint,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(written(files).encode("ascii")).hexdigest()}],
        "properties": [{"name": "unabridged:hashed", "value": "the list of its files that sha256sum writes, by name"}],
        "components": [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in files.items()
        ],
    }
    if model.licence:
        part["licenses"] = [{"license": {"name": model.licence}}]
    return part


def _reference(wheel: WheelFile) -> str:
    return f"pkg:pypi/{wheel.name}@{wheel.version.replace('+', '%2B')}"
