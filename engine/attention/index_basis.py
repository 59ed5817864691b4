"""A calibrated index: what `calibrate` learned of a model's keys and queries, and how it is stored with the model.

    Basis        one layer: how keys become the numbers that the index rounds, and how queries meet them
    Calibration  all layers, and which weights and which stream length they were made for

A key k becomes `y = (k - mean) @ key`, N numbers in units of their quantiser's step; a query q, rotated for selection,
meets them as `q @ query`, so that before rounding and but for the D - N dimensions left out

    q . k  =  q . mean  +  (q @ query) . y

G key/value heads, D head dimension, N numbers that the index keeps of a key. Everything is float32.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unabridged.engine.attention.limits import width_of as width_of
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.hashing import replace

# Of the numbers and of the codes they are for: another layout of bits needs another calibration.
VERSION = 1
_FIELDS = ("mean", "key", "query", "weights")


@dataclass(frozen=True)
class Basis:
    """One layer's. mean `[G, D]`, key and query `[G, D, N]`, weights `[G, N]`: how much a number counts in the length
    of a key, all positive; an average key has the length 1, sum over n of weights y^2."""

    mean: Tensor
    key: Tensor
    query: Tensor
    weights: Tensor

    def to(self, device: torch.device | str) -> "Basis":
        """On another device."""
        return Basis(*(getattr(self, field).to(device) for field in _FIELDS))


@dataclass(frozen=True)
class Calibration:
    """`fingerprint`: of the weights (Manifest.fingerprint). `stream`: queries stood at stream + 1. `tokens`: keys seen
    in each layer."""

    layers: tuple[Basis, ...]
    fingerprint: str
    stream: int
    tokens: int


def store(path: Path, calibration: Calibration) -> None:
    """Write the file in one step; another of this name is replaced."""
    tensors = {field: torch.stack([getattr(layer, field) for layer in calibration.layers]) for field in _FIELDS}
    about = {
        "version": str(VERSION),
        "fingerprint": calibration.fingerprint,
        "stream": str(calibration.stream),
        "tokens": str(calibration.tokens),
    }
    replace(path, save(tensors, about))


def load(path: Path, fingerprint: str) -> Calibration:
    """Read what `store` wrote. Raises FileNotFoundError, ModelUnsupported when it was made by another version or for
    other weights, ModelDamaged when it cannot be read."""
    if not path.exists():
        raise FileNotFoundError(path)
    again = "run: unabridged models calibrate"
    try:
        with safe_open(path, "pt") as file:
            about = file.metadata() or {}
            tensors = [file.get_tensor(field) for field in _FIELDS]
        made, stream, tokens = about["fingerprint"], int(about["stream"]), int(about["tokens"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise ModelDamaged(f"{path}: {error}", again) from error
    if about.get("version") != str(VERSION):
        raise ModelUnsupported(f"{path}: version {about.get('version')}", again)
    if made != fingerprint:
        raise ModelUnsupported(f"{path} was made for weights {made}, not {fingerprint}", again)
    return Calibration(tuple(_layers(tensors, path)), fingerprint, stream, tokens)


def _layers(tensors: Iterable[Tensor], path: Path) -> Iterable[Basis]:
    for parts in zip(*(tensor.unbind(0) for tensor in tensors), strict=True):
        if not all(bool(part.isfinite().all()) for part in parts):
            raise ModelDamaged(f"{path} holds numbers that are not finite", "run: unabridged models calibrate")
        yield Basis(*parts)
