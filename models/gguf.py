"""Tensors out of a GGUF file, under the names and in the layout of the family's Hugging Face checkpoints.

One tensor is dequantised at a time. Block formats are the `gguf` package's; what is ours is the naming and undoing the
row order that llama.cpp gives query and key projections. The header is `unabridged.models.container`'s.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from torch import Tensor

from unabridged.models.blocks import bytes_of, check_complete, kind_of
from unabridged.models.config import ModelConfig
from unabridged.models.container import GgufHeader, TensorInfo
from unabridged.models.errors import ModelUnsupported
from unabridged.models.families import LLAMA, Family, Place, family_named

ROPE_FACTORS = "rope_freqs.weight"

# Weights dequantised at once: few enough that the temporaries stay in the cache.
_PIECE = 1 << 18

# GGUF's names, which all families share, and the fields of `families.Names`.
TOP = {"token_embd": "embedding", "output_norm": "norm", "output": "head"}
BLOCK = {
    "attn_norm": "attention_norm",
    "attn_q": "q",
    "attn_k": "k",
    "attn_v": "v",
    "attn_output": "output",
    "ffn_norm": "mlp_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
    "attn_q_norm": "q_norm",
    "attn_k_norm": "k_norm",
    "post_attention_norm": "attention_post_norm",
    "post_ffw_norm": "mlp_post_norm",
}
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_BIASES: dict[str, Place] = {
    "blk.0.attn_q.bias": "qkv",
    "blk.0.attn_output.bias": "output",
    "blk.0.ffn_gate.bias": "gate_up",
    "blk.0.ffn_down.bias": "down",
}


def config_of(header: GgufHeader) -> ModelConfig:
    """The model's shape: metadata, and what only the tensors say (tied output, rope factors, biases)."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    factors = by_name.get(ROPE_FACTORS)
    values = tuple(read_tensor(header, factors).tolist()) if factors else None
    bias = tuple(place for name, place in _BIASES.items() if name in by_name)
    return ModelConfig.from_gguf(header.metadata, "output.weight" not in by_name, values, bias)


def stream_gguf(header: GgufHeader, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Every weight and bias as (Hugging Face name, float32 tensor), in file order.

    Raises ModelDamaged (the file ends too early) or ModelUnsupported (a tensor or block format that we do not know).
    """
    check_complete(header)
    family = family_named(config.architecture)
    for tensor in header.tensors:
        if tensor.name == ROPE_FACTORS:
            continue
        name = hf_name(tensor.name, header.path.name, family)
        weight = read_tensor(header, tensor)
        rotated = tensor.name.split(".")[-2] in ("attn_q", "attn_k")
        yield name, _unpermuted(weight, config.head_dim) if rotated and family.rotary_pairs else weight


def hf_name(name: str, file: str, family: Family = LLAMA) -> str:
    """The Hugging Face name of a GGUF tensor. Raises ModelUnsupported for one that the family does not have."""
    names = family.names
    match = _BLOCK_NAME.fullmatch(name)
    ours = getattr(names, BLOCK[match[2]]) if match and match[2] in BLOCK else ""
    if match and ours:
        return f"{names.layer.format(match[1])}{ours}.{match[3]}"
    top = TOP.get(name.removesuffix(".weight"))
    if top:
        return f"{getattr(names, top)}.weight"
    raise ModelUnsupported(f"{file}: tensor {name} has no place in a {family.name} model")


def read_tensor(header: GgufHeader, tensor: TensorInfo) -> Tensor:
    """One tensor, dequantised to float32, in the file's own row order."""
    kind = kind_of(header, tensor)
    raw = np.asarray(np.memmap(header.path, np.uint8, "r", tensor.offset, (bytes_of(header, tensor),)))
    if kind == GGMLQuantizationType.F32:
        return torch.from_numpy(raw.view(np.float32).copy()).view(tensor.shape)
    block, size = GGML_QUANT_SIZES[kind]
    step = max(_PIECE // block, 1)
    values = np.empty(tensor.elements, np.float32)
    for start in range(0, tensor.elements // block, step):
        piece = raw[None, start * size : (start + step) * size]
        values[start * block : (start + step) * block] = _dequantised(header, tensor, piece, kind)
    return torch.from_numpy(values).view(tensor.shape)


def _dequantised(
    header: GgufHeader, tensor: TensorInfo, piece: np.ndarray[Any, Any], kind: GGMLQuantizationType
) -> np.ndarray[Any, Any]:
    """`piece` is one row of whole blocks, `[1, bytes]`: rows of the tensor are many and short, which costs seconds."""
    try:
        # Nonsense in a damaged file is found by the loader, which names the tensor.
        with np.errstate(all="ignore"):
            values: np.ndarray[Any, Any] = dequantize(piece, kind)
    except NotImplementedError as error:
        raise ModelUnsupported(f"{header.path.name}: tensor {tensor.name} has block format {kind.name}") from error
    return values.ravel()


def _unpermuted(weight: Tensor, head_dim: int) -> Tensor:
    """Llama files store the rows of a rotated head as pairs (0, D/2, 1, D/2 + 1, ...): put the halves together again.
    `weight` `[rows, columns]`, or a bias `[rows]`."""
    pairs = weight.unflatten(0, (-1, head_dim // 2, 2))
    halves: Tensor = pairs.transpose(1, 2).reshape(weight.shape)
    return halves
