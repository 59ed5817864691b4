"""Tensors out of a GGUF file, under the names and in the layout of Hugging Face checkpoints.

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

ROPE_FACTORS = "rope_freqs.weight"

# Weights dequantised at once: few enough that the temporaries stay in the cache.
_PIECE = 1 << 18

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.weight")


def config_of(header: GgufHeader) -> ModelConfig:
    """The model's shape: metadata, and what only the tensors say (tied output, rope factors)."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    factors = by_name.get(ROPE_FACTORS)
    values = tuple(read_tensor(header, factors).tolist()) if factors else None
    return ModelConfig.from_gguf(header.metadata, tied="output.weight" not in by_name, rope_factors=values)


def stream_gguf(header: GgufHeader, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
    """Every weight as (Hugging Face name, float32 tensor), in file order.

    Raises ModelDamaged (the file ends too early) or ModelUnsupported (a tensor or block format that we do not know).
    """
    check_complete(header)
    for tensor in header.tensors:
        if tensor.name == ROPE_FACTORS:
            continue
        name = hf_name(tensor.name, header.path.name)
        weight = read_tensor(header, tensor)
        yield name, _unpermuted(name, weight, config)


def hf_name(name: str, file: str) -> str:
    """The Hugging Face name of a GGUF tensor. Raises ModelUnsupported for one that a Llama does not have."""
    match = _BLOCK_NAME.fullmatch(name)
    if match and match[2] in _BLOCK:
        return f"model.layers.{match[1]}.{_BLOCK[match[2]]}.weight"
    if name in _TOP:
        return _TOP[name]
    raise ModelUnsupported(f"{file}: tensor {name} has no place in a Llama model")


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


def _unpermuted(name: str, weight: Tensor, config: ModelConfig) -> Tensor:
    """llama.cpp stores the rows of a rotated head as pairs (0, D/2, 1, D/2 + 1, ...): put the halves together again."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return weight
    rows, columns = weight.shape
    pairs = weight.view(rows // config.head_dim, config.head_dim // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)
