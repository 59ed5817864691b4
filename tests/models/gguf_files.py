"""Writes GGUF files as llama.cpp's converter lays them out: for tests of the reader."""

from pathlib import Path

import gguf
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.constants import MODEL_ARCH_NAMES
from gguf.quants import dequantize, quantize
from transformers import PreTrainedModel


def write_llama(path: Path, model: PreTrainedModel, kind: Kind, rope_factors: torch.Tensor | None = None) -> None:
    """`write_gguf` of a Llama."""
    write_gguf(path, model, "llama", kind, rope_factors)


def write_gguf(
    path: Path, model: PreTrainedModel, architecture: str, kind: Kind, rope_factors: torch.Tensor | None = None
) -> None:
    """A checkpoint of transformers as GGUF; matrices get block format `kind`, and so do the weights of `model` itself:
    afterwards it holds what a reader should find."""
    config = model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if architecture == "gemma2":
        writer.add_sliding_window(config.sliding_window)
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    known = next(key for key, value in MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(known, config.num_hidden_layers)
    for name, weight in model.named_parameters():
        if not (name == "lm_head.weight" and config.tie_word_embeddings):
            target = names.get_name(name, try_suffixes=(".weight", ".bias"))
            assert target is not None
            add_tensor(writer, target, weight.data, kind, head_dim)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors.numpy())
    finish(writer)


def add_tensor(writer: gguf.GGUFWriter, name: str, weight: torch.Tensor, kind: Kind, head_dim: int) -> None:
    """One weight under llama.cpp's name and row order; `weight` is rounded to what was written. llama.cpp's Gemma 2
    norms have their 1 added, its Llama rotates neighbouring rows."""
    values = weight.numpy()
    if weight.ndim == 1:
        values = values + 1 if writer.arch == "gemma2" and "norm" in name else values
    else:
        packed = quantize(values, kind)
        weight.copy_(torch.from_numpy(dequantize(packed, kind)))
        values = packed
    if writer.arch == "llama" and name.split(".")[-2] in ("attn_q", "attn_k"):
        rows, width = len(values), values.shape[1:]
        values = values.reshape(rows // head_dim, 2, head_dim // 2, *width).swapaxes(1, 2).reshape(rows, *width).copy()
    writer.add_tensor(name, values, raw_dtype=kind if weight.ndim > 1 else None)


def finish(writer: gguf.GGUFWriter) -> None:
    """Write everything out."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
