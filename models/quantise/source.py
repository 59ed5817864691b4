"""Weights of a checkpoint by name, read when asked for: a layer at a time, whatever order its files have."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn import functional

from unabridged.models.config import ModelConfig
from unabridged.models.container import GgufHeader, TensorInfo, read_header
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.families import family_named
from unabridged.models.folder import ModelFolder
from unabridged.models.gguf import ROPE_FACTORS, hf_name, stream_gguf
from unabridged.models.quantisation import PACKED
from unabridged.models.tensors import Matrix, Vector, matrices, vectors
from unabridged.models.weights import IGNORED, open_checkpoint


class Source:
    """An open checkpoint of floating-point weights, or a GGUF file, whose blocks are dequantised.

    Raises what `open_checkpoint` does, ModelUnsupported for one that is quantised already or has a weight without a
    place, ModelDamaged for one that lacks a weight.
    """

    def __init__(self, path: Path) -> None:
        self.folder = ModelFolder.inspect(path)
        self.config, _ = open_checkpoint(path)
        self.name = path.resolve().stem if path.is_file() else path.resolve().name
        if self.config.quantisation is not None:
            raise ModelUnsupported(f"{self.name} is quantised already", "give the checkpoint that it was made of")
        self._tensors = dict(self._gguf() if self.folder.format == "gguf" else self._safetensors())
        self._check_names()

    def read(self, name: str) -> Tensor:
        """A tensor as the checkpoint has it, in float32. Raises ModelDamaged when it is missing or not finite."""
        if name not in self._tensors:
            raise ModelDamaged(f"{self.name} lacks the weight {name}", "copy all its files")
        tensor = self._tensors[name]()
        if not tensor.is_floating_point():
            raise ModelUnsupported(f"{self.name}: {name} is {tensor.dtype}", "give an unquantised checkpoint")
        tensor = tensor.float()
        if not tensor.sum().isfinite():
            raise ModelDamaged(f"{self.name}: {name} holds numbers that are not finite", "download or copy it again")
        return tensor

    def layer(self, index: int, device: torch.device) -> dict[str, Tensor]:
        """The weights of one layer in float32 on `device`, by place without the layer's number; see `block`."""
        found = {}
        for matrix in self.layer_matrices(index):
            place = matrix.place.partition(".")[2]
            found[place] = self._rows(matrix, ".weight", (matrix.rows, matrix.columns)).to(device)
            if matrix.bias:
                found[place + ".bias"] = self._rows(matrix, ".bias", (matrix.rows,)).to(device)
        for vector in self.layer_vectors(index):
            weight = self.read(vector.name + ".weight") + vector.offset
            found[vector.place.partition(".")[2]] = _shaped(vector.name, weight, (vector.length,)).to(device)
        return found

    def embedding(self, ids: Tensor) -> Tensor:
        """What enters the first layer for these ids `[..., T]`: `[..., T, hidden]` float32."""
        table = self.read(next(matrices(self.config)).pieces[0].name + ".weight")
        return functional.embedding(ids, table) * self.config.embedding_scale

    def layer_matrices(self, index: int | None = None) -> list[Matrix]:
        """The projections of one layer, or of all."""
        before = "" if index is None else f"{index}."
        return [one for one in matrices(self.config) if "." in one.place and one.place.startswith(before)]

    def layer_vectors(self, index: int) -> list[Vector]:
        """The norms of one layer."""
        return [vector for vector in vectors(self.config) if vector.place.startswith(f"{index}.")]

    def other_names(self) -> list[str]:
        """The tensors of no layer: embedding, head and last norm."""
        names = [one.pieces[0].name for one in matrices(self.config) if "." not in one.place]
        names += [vector.name for vector in vectors(self.config) if "." not in vector.place]
        return [name + ".weight" for name in names]

    def _check_names(self) -> None:
        """Every weight has a place, and every place its weight: hours later is too late."""
        wanted = {vector.name + ".weight" for vector in vectors(self.config)}
        for matrix in matrices(self.config):
            kinds = (".weight", ".bias") if matrix.bias else (".weight",)
            wanted |= {piece.name + kind for piece in matrix.pieces for kind in kinds}
        if self.config.tied:
            # Some checkpoints store it again.
            self._tensors.pop("lm_head.weight", None)
        missing, extra = sorted(wanted - set(self._tensors)), sorted(set(self._tensors) - wanted)
        if any(name.endswith(PACKED) for name in extra):
            raise ModelUnsupported(f"{self.name} is quantised already", "give the checkpoint that it was made of")
        if missing:
            raise ModelDamaged(f"{self.name} lacks {len(missing)} weights ({missing[0]}, ...)", "copy all its files")
        if extra:
            raise ModelUnsupported(f"{self.name}: {extra[0]} has no place in a {self.config.architecture} model")

    def _rows(self, matrix: Matrix, kind: str, shape: tuple[int, ...]) -> Tensor:
        return _shaped(matrix.place, torch.cat([self.read(piece.name + kind) for piece in matrix.pieces]), shape)

    def _gguf(self) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        header = read_header(self.folder.weights[0])
        family = family_named(self.config.architecture)
        for tensor in header.tensors:
            if tensor.name != ROPE_FACTORS:
                yield hf_name(tensor.name, header.path.name, family), partial(_block, header, tensor, self.config)

    def _safetensors(self) -> Iterator[tuple[str, Callable[[], Tensor]]]:
        for file in self.folder.weights:
            try:
                with safe_open(file, framework="pt") as shard:
                    for name in list(shard.keys()):
                        if not name.endswith(IGNORED):
                            yield name, partial(_tensor, file, name)
            except SafetensorError as error:
                raise _damaged(file, error) from error


def _block(header: GgufHeader, tensor: TensorInfo, config: ModelConfig) -> Tensor:
    return next(stream_gguf(replace(header, tensors=(tensor,)), config))[1]


def _tensor(file: Path, name: str) -> Tensor:
    try:
        with safe_open(file, framework="pt") as shard:
            tensor: Tensor = shard.get_tensor(name)
            return tensor
    except SafetensorError as error:
        raise _damaged(file, error) from error


def _damaged(file: Path, error: SafetensorError) -> ModelDamaged:
    return ModelDamaged(f"{file.name}: {error}", "it is truncated or damaged: download or copy it again")


def _shaped(name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise ModelDamaged(f"{name} has shape {list(tensor.shape)}, its configuration says {list(shape)}")
    return tensor
