"""From a model folder to a Llama in memory: each weight is read once and copied to its place.

Query, key and value projections share one matrix, gate and up another; rows arrive in any order.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.layers import Layer, Norm, SiluGated
from unabridged.models.linear import Dense, Linear, Packed, packable
from unabridged.models.llama import Llama
from unabridged.models.weights import open_checkpoint


def load_model(
    path: Path, dtype: torch.dtype = torch.float32, packed: bool = False, device: torch.device | str = "cpu"
) -> Llama:
    """The model at a folder or .gguf file, on `device`.

    `packed`, for the CPU: projections keep their weights in float16 where the machine can compute with them in
    float32. It halves the time of a token and rounds weights that need more than 11 bits.
    Raises ModelNotFound, ModelUnsupported, or ModelDamaged naming the tensor or file that is wrong.
    """
    config, stream = open_checkpoint(path)
    places = _Places(config, dtype, path.name, torch.device(device))
    for key, tensor in stream:
        places.put(key, tensor)
    places.check()
    return places.model(packed)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a checkpoint tensor goes: rows of a matrix that it may share with others."""

    place: str
    start: int
    shape: tuple[int, ...]
    whole: tuple[int, ...]


class _Places:
    """The model's matrices, allocated when their first rows arrive, and which checkpoint tensor fills which rows."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, name: str, device: torch.device) -> None:
        self._config = config
        self._name = name
        self._dtype = dtype
        self._device = device
        self._tensors: dict[str, Tensor] = {}
        self._slots: dict[str, _Slot] = {}
        self._declare()
        self._open = set(self._slots)

    def put(self, key: str, tensor: Tensor) -> None:
        slot = self._slots.get(key)
        if slot is None:
            if key == "lm_head.weight" and self._config.tied:
                return
            raise ModelUnsupported(f"{self._name}: weight {key} has no place in a Llama model")
        if slot.shape != tuple(tensor.shape):
            found, wanted = list(tensor.shape), list(slot.shape)
            raise ModelDamaged(f"{self._name}: {key} has shape {found}, its configuration says {wanted}")
        # One sum instead of a mask of the same size: it is not finite as soon as one weight is not.
        if not tensor.sum(dtype=torch.float32).isfinite():
            raise ModelDamaged(f"{self._name}: {key} holds numbers that are not finite", "download or copy it again")
        if slot.place not in self._tensors:
            self._tensors[slot.place] = torch.empty(slot.whole, dtype=self._dtype, device=self._device)
        self._tensors[slot.place][slot.start : slot.start + slot.shape[0]] = tensor
        self._open.discard(key)

    def check(self) -> None:
        if self._open:
            some = ", ".join(sorted(self._open)[:3])
            raise ModelDamaged(
                f"{self._name}: {len(self._open)} weights are missing ({some}, ...)", "copy all its files"
            )

    def model(self, packed: bool) -> Llama:
        config, tensors = self._config, self._tensors
        layers = tuple(self._layer(index, packed) for index in range(config.layers))
        embedding = tensors["embedding"]
        head = _linear(tensors.get("head", embedding), packed)
        return Llama(config, embedding, layers, Norm(tensors["norm"], config.norm_eps), head)

    def _layer(self, index: int, packed: bool) -> Layer:
        def norm(part: str) -> Norm:
            return Norm(self._tensors[f"{index}.{part}"], self._config.norm_eps)

        def linear(part: str) -> Linear:
            # Out of the table, so that no weight stays in memory twice.
            return _linear(self._tensors.pop(f"{index}.{part}"), packed)

        return Layer(
            attention_norm=norm("attention_norm"),
            qkv=linear("qkv"),
            output=linear("output"),
            mlp_norm=norm("mlp_norm"),
            gated=SiluGated(linear("gate_up")),
            down=linear("down"),
        )

    def _declare(self) -> None:
        config = self._config
        self._matrix("embedding", {"model.embed_tokens.weight": config.vocab_size}, config.hidden)
        self._vector("norm", "model.norm.weight")
        if not config.tied:
            self._matrix("head", {"lm_head.weight": config.vocab_size}, config.hidden)
        for index in range(config.layers):
            self._declare_layer(index)

    def _declare_layer(self, index: int) -> None:
        config, key = self._config, f"model.layers.{index}."
        queries, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
        attention, mlp = key + "self_attn.", key + "mlp."
        rows = {"q_proj.weight": queries, "k_proj.weight": shared, "v_proj.weight": shared}
        self._matrix(f"{index}.qkv", {attention + name: count for name, count in rows.items()}, config.hidden)
        self._matrix(f"{index}.output", {attention + "o_proj.weight": config.hidden}, queries)
        gate_up = {mlp + name: config.intermediate for name in ("gate_proj.weight", "up_proj.weight")}
        self._matrix(f"{index}.gate_up", gate_up, config.hidden)
        self._matrix(f"{index}.down", {mlp + "down_proj.weight": config.hidden}, config.intermediate)
        self._vector(f"{index}.attention_norm", key + "input_layernorm.weight")
        self._vector(f"{index}.mlp_norm", key + "post_attention_layernorm.weight")

    def _matrix(self, place: str, rows: dict[str, int], columns: int) -> None:
        start = 0
        for key, count in rows.items():
            self._slots[key] = _Slot(place, start, (count, columns), (sum(rows.values()), columns))
            start += count

    def _vector(self, place: str, key: str) -> None:
        shape = (self._config.hidden,)
        self._slots[key] = _Slot(place, 0, shape, shape)


def _linear(weight: Tensor, packed: bool) -> Linear:
    return Packed(weight) if packed and packable(weight) else Dense(weight)
