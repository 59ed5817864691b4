"""A tiny random Llama on disk and in memory, and contexts of random tensors, for the engine's tests."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from benchmarks.byte_tokenizer import save_tokenizer
from safetensors.torch import save_file
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig, choose
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.events import AttentionChoice
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.models.manifest import SCHEMA, Manifest, write_manifest

Qkv = tuple[Tensor, Tensor, Tensor]


def rotary(dim: int = 16) -> Rotary:
    """Frequencies of the usual base."""
    return Rotary(10000.0 ** (-torch.arange(0, dim, 2).float() / dim))


def random_qkv(tokens: int, heads: int = 4, kv_heads: int = 2, dim: int = 16, seed: int = 0) -> Qkv:
    """Queries, keys, values with scores that differ clearly."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    return normal(tokens, heads, dim), 2 * normal(tokens, kv_heads, dim), normal(tokens, kv_heads, dim)


def config(preset: str = "8k", refresh: str = "every", window: int = 8192, **overrides: Any) -> AttentionConfig:
    """A checked configuration, sparse from the first token unless told otherwise."""
    fields: dict[str, int | float | str | bool] = {"dense_below": 0, **overrides}
    return choose(AttentionChoice(preset=preset, refresh=refresh, overrides=fields), window)  # type: ignore[arg-type]


def context_attention(settings: AttentionConfig, tokens: int, qkv: Qkv) -> ContextAttention:
    """The attention of an empty context of one layer with room for `tokens`."""
    _, heads, dim = qkv[0].shape
    kv_heads = qkv[1].shape[1]
    pool = KvPool(1, kv_heads, dim, 64 << 20, torch.float32)
    return ContextAttention(
        Context(pool, [], pool.allocate(tokens)), settings, Shape(1, heads, kv_heads, dim), rotary(dim)
    )


def feed(attention: ContextAttention, qkv: Qkv, sizes: Iterable[int]) -> Tensor:
    """The output of forward passes of these sizes, `[T, H, D]`; sizes are cut as the attention asks."""
    out, at = [], 0
    for size in sizes:
        end = at + size
        while at < end:
            step = attention.fits(end - at)
            attention.begin(step)
            out.append(attention(0, *(x[at : at + step] for x in qkv)))
            attention.end()
            at += step
    return torch.cat(out)


def feed_chunks(attention: ContextAttention, qkv: Qkv, chunk: int) -> Tensor:
    """The output of forward passes of at most `chunk` tokens, `[T, H, D]`."""
    tokens = len(qkv[0])
    sizes: list[int] = []
    out = []
    while (at := sum(sizes)) < tokens:
        sizes.append(attention.fits(min(chunk, tokens - at)))
        out.append(feed(attention, tuple(x[at:] for x in qkv), sizes[-1:]))  # type: ignore[arg-type]
    return torch.cat(out)


def dense(qkv: Qkv) -> Tensor:
    """Causal attention with true positions, written plainly: `[T, H, D]`."""
    q, k, v = (x.transpose(0, 1) for x in qkv)
    group = len(q) // len(k)
    turn = rotary(q.shape[-1])
    q, k = turn.rotate_range(q, 0), turn.rotate_range(k, 0).repeat_interleave(group, 0)
    scale: float = q.shape[-1] ** -0.5
    scores = q @ k.transpose(1, 2) * scale
    scores.masked_fill_(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -torch.inf)
    return (scores.softmax(-1) @ v.repeat_interleave(group, 0)).transpose(0, 1)


def save_tiny(
    folder: Path, window: int = 320, dim: int = 16, layers: int = 2, heads: int = 4, kv_heads: int = 2
) -> Path:
    """An installed model: random weights that were "trained" on `window` tokens, byte-level tokens."""
    folder.mkdir()
    hidden, inner = 32, 48
    shape = {
        "vocab_size": 259,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": dim,
        "max_position_embeddings": window,
    }
    other = {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True, "rms_norm_eps": 1e-5}
    (folder / "config.json").write_text(json.dumps(shape | other | {"rope_theta": 10000.0, "hidden_act": "silu"}))
    rows: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (259, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers):
        at = f"model.layers.{layer}."
        rows |= {
            f"{at}self_attn.q_proj.weight": (heads * dim, hidden),
            f"{at}self_attn.k_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.v_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, heads * dim),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
        }
    random = torch.Generator().manual_seed(7)
    weights = {name: torch.randn(*row, generator=random) * 0.5 for name, row in rows.items()}
    save_file(weights, folder / "model.safetensors")
    save_tokenizer(folder)
    manifest = Manifest(
        schema=SCHEMA,
        name=folder.name,
        format="safetensors",
        source="made by a test",
        window=window,
        parameters=1,
        fingerprint="tiny",
        files=(),
        defaults={},
    )
    write_manifest(folder, manifest)
    return folder
