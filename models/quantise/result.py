"""What stands in the finished folder: the tensors of each shard, and the files beside them."""

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from unabridged.models.awq import Int4
from unabridged.models.folder import SHARD_INDEX
from unabridged.models.quantise import format as gemm
from unabridged.models.quantise.recipe import Quantised
from unabridged.models.quantise.sides import CONFIG, write_json, write_sides
from unabridged.models.quantise.source import Source
from unabridged.models.tensors import Matrix


def layer_tensors(source: Source, index: int, made: Quantised) -> dict[str, Tensor]:
    """One layer, on the CPU. Raises ModelUnsupported when a number does not fit into float16."""
    tensors: dict[str, Tensor] = {}
    for matrix in source.layer_matrices(index):
        place = matrix.place.partition(".")[2]
        tensors |= _projections(matrix, made.projections[place])
        if matrix.bias:
            tensors |= _biases(matrix, made.others[place + ".bias"])
    for vector in source.layer_vectors(index):
        name = vector.name + ".weight"
        tensors[name] = gemm.half(name, made.others[vector.place.partition(".")[2]] - vector.offset)
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def other_tensors(source: Source) -> dict[str, Tensor]:
    """What is in no layer: embedding, head and last norm, as they were."""
    return {name: gemm.half(name, source.read(name)) for name in source.other_names()}


def describe(folder: Path, source: Source, config: dict[str, Any], group: int) -> None:
    """The files beside the shards in `folder`; `config` is the config.json of the source."""
    shards: dict[str, str] = {}
    total = 0
    for file in sorted(folder.glob("*.safetensors")):
        tensors = _header(file)
        shards |= dict.fromkeys(tensors, file.name)
        total += sum(end - start for start, end in (tensor["data_offsets"] for tensor in tensors.values()))
    write_sides(source.folder, source.config, folder)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(shards.items()))}
    write_json(folder / SHARD_INDEX, index)
    write_json(folder / CONFIG, gemm.configuration(config, group))


def _projections(matrix: Matrix, weight: Int4) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    start = 0
    for piece in matrix.pieces:
        tensors |= gemm.projection(piece.name, weight.part(slice(start, start + piece.rows)))
        start += piece.rows
    return tensors


def _biases(matrix: Matrix, whole: Tensor) -> dict[str, Tensor]:
    biases = whole.split([piece.rows for piece in matrix.pieces])
    named = zip((piece.name + ".bias" for piece in matrix.pieces), biases, strict=True)
    return {name: gemm.half(name, bias) for name, bias in named}


def _header(file: Path) -> dict[str, Any]:
    """The tensors of a safetensors file that was just written."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        tensors: dict[str, Any] = json.loads(opened.read(size))
    tensors.pop("__metadata__", None)
    return tensors
