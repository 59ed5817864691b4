"""Capped scores and layers that look back over a window of their own, against the same computed plainly."""

from typing import Any

import pytest
import torch
from tests.engine.tiny import Qkv, config, random_qkv, rotary
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.coverage import coverage
from unabridged.engine.attention.plain import capped
from unabridged.engine.attention.select import Selection
from unabridged.engine.attention.support import gpu_refusal
from unabridged.engine.attention.witness import Witness
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.models.config import ModelConfig

# Scores of random_qkv have a deviation of 2: a cap of 3 bends most of them.
CAP = 3.0
EVERYTHING: dict[str, Any] = {"sink": 16, "stream": 64, "k": 2048}


def attention_of(shape: Shape, settings: AttentionConfig, tokens: int) -> ContextAttention:
    pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, 64 << 20, torch.float32)
    return ContextAttention(Context(pool, [], pool.allocate(tokens)), settings, shape, rotary(shape.head_dim))


def run(attention: ContextAttention, qkv: Qkv, sizes: list[int], layers: int) -> list[Tensor]:
    """The output of each layer, `[T, H, D]`; all layers get the same queries, keys and values."""
    out: list[list[Tensor]] = [[] for _ in range(layers)]
    at = 0
    for size in sizes:
        end = at + size
        while at < end:
            step = attention.fits(end - at)
            attention.begin(step)
            for layer in range(layers):
                out[layer].append(attention(layer, *(x[at : at + step] for x in qkv)))
            attention.end()
            at += step
    return [torch.cat(one) for one in out]


def plainly(qkv: Qkv, back: int = 0, cap: float | None = None) -> Tensor:
    """One query at a time, `[T, H, D]`."""
    q, k, v = qkv
    turn = rotary(q.shape[-1])
    q = turn.rotate_range(q.transpose(0, 1), 0).transpose(0, 1)
    k = turn.rotate_range(k.transpose(0, 1), 0).transpose(0, 1)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    out = []
    for at, query in enumerate(q):
        first = max(0, at + 1 - back) if back else 0
        scores = torch.einsum("hd,nhd->hn", query, k[first : at + 1]) * q.shape[-1] ** -0.5
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        out.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), v[first : at + 1]))
    return torch.stack(out)


@pytest.mark.usefixtures("nan_empty")
@pytest.mark.parametrize("below", [8192, 0, 100], ids=["dense", "sparse", "both"])
@pytest.mark.parametrize("sizes", [[190], [1] * 190, [70, 40, 60, *[1] * 20]], ids=["chunk", "steps", "mixed"])
@pytest.mark.parametrize("cap", [None, CAP])
def test_sliding_and_unlimited_layers_side_by_side(below: int, sizes: list[int], cap: float | None) -> None:
    qkv = random_qkv(190)
    shape = Shape(3, 4, 2, 16, sliding=(48, 0, 150), cap=cap)
    found = run(attention_of(shape, config(dense_below=below, **EVERYTHING), 190), qkv, sizes, 3)
    for back, one in zip(shape.sliding, found, strict=True):
        assert torch.allclose(one, plainly(qkv, back, cap), atol=1e-5)
    if cap is not None:
        assert not torch.allclose(found[1], plainly(qkv), atol=1e-2), "the cap was meant to change something"


def test_a_step_buffer_moves_its_oldest_out() -> None:
    qkv = random_qkv(700)
    shape = Shape(1, 4, 2, 16, sliding=(48,))
    (found,) = run(attention_of(shape, config(), 700), qkv, [20, *[1] * 680], 1)
    assert torch.allclose(found, plainly(qkv, 48), atol=1e-5)


def test_a_model_that_only_slides_says_how_far_it_sees() -> None:
    attention = attention_of(Shape(2, 4, 2, 16, sliding=(48, 48)), config(), 200)
    run(attention, random_qkv(200), [150, *[1] * 50], 2)
    report = attention.report()
    assert (report.preset, report.context, report.attended) == ("sliding", 200, 48)


def test_a_witness_sees_what_sliding_layers_see() -> None:
    attention = attention_of(Shape(2, 4, 2, 16, sliding=(48, 0)), config(dense_below=8192), 200)
    attention.witness = Witness(0, 200)
    run(attention, random_qkv(200), [160, 1], 2)
    seen = attention.witness._seen
    assert seen[0].positions is not None
    assert (int(seen[0].positions.min()), int(seen[0].positions.max())) == (113, 160)
    shares = dict(attention.witness.shares())
    assert sum(shares[at] for at in shares if at >= 112) > 0.6
    assert sum(shares.values()) == pytest.approx(1.0)


def test_coverage_counts_dropped_chunks_with_the_cap() -> None:
    scores = torch.tensor([[[9.0, 8.0, -torch.inf]]])
    stage = Selection(torch.zeros(1, 1, 8), scores, torch.tensor([[[0]]]))
    kept = torch.tensor([3.0])
    bent = Selection(
        stage.index, torch.tensor([[[9.0, float(capped(torch.tensor(8.0), CAP)), -torch.inf]]]), stage.kept
    )
    assert coverage([stage], kept, CAP) == pytest.approx(coverage([bent], kept))
    assert coverage([stage], kept) < 0.1 < coverage([stage], kept, CAP)
    assert scores[0, 0, 0] == 9.0


def test_the_gpu_refuses_what_its_kernels_do_not_do() -> None:
    def made(**fields: Any) -> ModelConfig:
        return ModelConfig("gemma2", 99, 32, 48, 2, 4, 2, 16, 1e-6, 1e4, None, 320, True, None, (), **fields)

    assert gpu_refusal(made()) is None
    assert "soft-capped attention (gemma2) runs on the CPU only" in str(gpu_refusal(made(attention_cap=50.0)))
    assert "sliding window (gemma2)" in str(gpu_refusal(made(sliding=(64, 0))))
