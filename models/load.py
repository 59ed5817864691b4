"""From a model folder to a model in memory: each tensor is read once and copied to its place.

Query, key and value projections share one matrix, gate and up another; rows arrive in any order. A matrix takes its
final form as soon as it is complete, so that no more than one is in memory twice.
"""

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from unabridged.models.building import Building, Manner
from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.llama import Llama
from unabridged.models.places import MatrixPlace, Place, Storage, VectorPlace
from unabridged.models.quantisation import BESIDES, PACKED
from unabridged.models.tensors import matrices, vectors
from unabridged.models.weights import Stream, open_checkpoint


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What loading took. `read`: bytes of tensors; `device`: bytes of GPU memory at its end and `device_peak` at most
    meanwhile, of everything in this process (0 on the CPU); `host_peak`: the process's largest resident size so far,
    which counts pages of the files while they are mapped."""

    seconds: float
    read: int
    device: int
    device_peak: int
    host_peak: int


def load_model(
    path: Path,
    dtype: torch.dtype | None = None,
    packed: bool = False,
    device: torch.device | str = "cpu",
    head_bits: int = 16,
) -> Llama:
    """The model at a folder or .gguf file, on `device`.

    `dtype`: of activations and floating weights. By default float32 on the CPU; on a GPU float16 for a 4-bit
    checkpoint, else what the checkpoint has. 4-bit weights stay so on a GPU; on the CPU they are dequantised.
    `packed`, for the CPU: projections keep their weights in float16 where the machine can compute with them in
    float32. It halves the time of a token and rounds weights that need more than 11 bits.
    `head_bits`: 8 keeps embedding and LM head in int8 with a scale a row.
    Raises ModelNotFound, ModelUnsupported, or ModelDamaged naming the tensor or file that is wrong.
    """
    return load(path, dtype, packed, device, head_bits)[0]


def load(
    path: Path,
    dtype: torch.dtype | None = None,
    packed: bool = False,
    device: torch.device | str = "cpu",
    head_bits: int = 16,
    kernels: bool | None = None,
) -> tuple[Llama, LoadReport]:
    """`load_model`, and what it took. `kernels`: whether the model runs with ours; by default on a GPU."""
    began, place = time.perf_counter(), torch.device(device)
    if place.type == "cuda":
        # Before anything else has used the device there are no statistics, and asking for them fails.
        torch.cuda.init()
        torch.cuda.reset_peak_memory_stats(place)
    config, stream = open_checkpoint(path)
    kernels = place.type == "cuda" if kernels is None else kernels
    first, stream = _peek(stream)
    storage = Storage(dtype or _dtype(config, first, place), place, keep=kernels)
    loading = _Loading(config, storage, Manner(packed, kernels, head_bits), path.name)
    read = 0
    for key, tensor in stream:
        loading.put(key, tensor)
        read += tensor.nbytes
    model = loading.model()
    return model, _report(began, read, place)


class _Loading:
    """Tensors of a checkpoint to places, and places to the model as they fill."""

    def __init__(self, config: ModelConfig, storage: Storage, manner: Manner, name: str) -> None:
        """`name`: of the folder or file, for errors."""
        self._config, self._name = config, name
        self._building = Building(config, storage.dtype, manner)
        self._places = dict(_places(config, storage))
        self._by_key = {key: place for place, filling in self._places.items() for key in filling.keys()}  # noqa: SIM118

    def put(self, key: str, tensor: Tensor) -> None:
        name = self._by_key.get(key)
        if name is None:
            self._refuse(key)
            return
        place = self._places.get(name)
        try:
            if place is None:
                raise ModelDamaged(f"{key} is stored twice", "copy the checkpoint again")
            place.put(key, tensor)
        except (ModelDamaged, ModelUnsupported) as error:
            raise type(error)(f"{self._name}: {error.message}", error.hint) from error
        if not place.missing():
            self._building.add(name, self._places.pop(name).weights())

    def model(self) -> Llama:
        missing = [key for place in self._places.values() for key in place.missing()]
        if missing:
            some = ", ".join(missing[:3])
            raise ModelDamaged(f"{self._name}: {len(missing)} weights are missing ({some}, ...)", "copy all its files")
        return self._building.model()

    def _refuse(self, key: str) -> None:
        """What no place takes: an error, but for a head that is the embedding again."""
        if key == "lm_head.weight" and self._config.tied:
            return
        if self._config.quantisation is None and key.endswith((*PACKED, *BESIDES)):
            raise ModelUnsupported(
                f"{self._name}: {key} is quantised, and config.json has no quantization_config",
                "copy the checkpoint's own config.json, and quant_config.json if it has one",
            )
        raise ModelUnsupported(f"{self._name}: weight {key} has no place in a {self._config.architecture} model")


def _places(config: ModelConfig, storage: Storage) -> Iterator[tuple[str, Place]]:
    for vector in vectors(config):
        yield vector.place, VectorPlace(vector, storage)
    for matrix in matrices(config):
        form = None if matrix.place == "embedding" else config.quantisation
        yield matrix.place, MatrixPlace(matrix, form, storage)


def _peek(stream: Stream) -> tuple[Tensor | None, Stream]:
    """The first tensor, which still comes."""
    first = next(stream, None)
    return (None, stream) if first is None else (first[1], chain([first], stream))


def _dtype(config: ModelConfig, first: Tensor | None, device: torch.device) -> torch.dtype:
    if device.type == "cpu" or first is None:
        return torch.float32
    return torch.float16 if config.quantisation else first.dtype


def _report(began: float, read: int, device: torch.device) -> LoadReport:
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
    return LoadReport(
        seconds=time.perf_counter() - began,
        read=read,
        device=torch.cuda.memory_allocated(device) if on_gpu else 0,
        device_peak=torch.cuda.max_memory_allocated(device) if on_gpu else 0,
        host_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
    )
