"""Writes GGUF files as llama.cpp's converter lays them out: for tests of the reader."""

from pathlib import Path

import gguf
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from transformers import LlamaForCausalLM

from unabridged.models.gguf import _BLOCK, _TOP

_NAMES = {theirs: name for name, theirs in _BLOCK.items()}


def write_llama(path: Path, model: LlamaForCausalLM, kind: Kind, rope_factors: torch.Tensor | None = None) -> None:
    """A checkpoint of transformers as GGUF; matrices get block format `kind`, and so do the weights of `model` itself:
    afterwards it holds what a reader should find."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    for name, weight in model.named_parameters():
        if not (name == "lm_head.weight" and config.tie_word_embeddings):
            add_tensor(writer, name, weight.data, kind, config.head_dim)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.numpy())
    finish(writer)


def add_tensor(writer: gguf.GGUFWriter, name: str, weight: torch.Tensor, kind: Kind, head_dim: int) -> None:
    """One weight under llama.cpp's name and row order; `weight` is rounded to what was written."""
    if weight.ndim == 1:
        writer.add_tensor(_gguf_name(name), weight.numpy())
        return
    packed = quantize(weight.numpy(), kind)
    weight.copy_(torch.from_numpy(dequantize(packed, kind)))
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        rows, width = packed.shape
        packed = packed.reshape(rows // head_dim, 2, head_dim // 2, width).swapaxes(1, 2).reshape(rows, width).copy()
    writer.add_tensor(_gguf_name(name), packed, raw_dtype=kind)


def finish(writer: gguf.GGUFWriter) -> None:
    """Write everything out."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    for theirs, top in _TOP.items():
        if name == top:
            return theirs
    _, _, index, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{index}.{_NAMES[part]}.weight"
