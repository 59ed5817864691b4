"""Choices of the offload benchmark that drift: as many are replaced as is said, each in its stratum and parent."""

from itertools import pairwise

import pytest
import torch
from benchmarks.drift import Drift

from unabridged.engine.attention.config import AttentionConfig, LayerAttention, Stage
from unabridged.engine.attention.kernels.layout import Span
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.stages import Stages

STAGES = (Stage(64, 64, 4096, "exact"), Stage(64, 16, 1024, "exact"))
CONFIG = AttentionConfig("x", (LayerAttention(STAGES, "relative"),), 16, 64, 128, 128)
CHUNKS = 300
LENGTH = 64 * CHUNKS + 16 + 64 + 128


def test_a_renewal_replaces_the_share_that_is_said(device: str) -> None:
    stages = Stages(CONFIG, 0, RopeTables.of(torch.ones(8), 256, device))
    drift = Drift(CONFIG, LENGTH, device)
    with drift.recording():
        kept, then = stages.room(1, 2, torch.device(device))
    for one in (kept, then):
        one.count.zero_()
    drift.choose(stages, 0, Span(16, CHUNKS), kept)
    assert not bool(kept.count.any()), "a row without a sequence keeps nothing"
    for one in (kept, then):
        one.count.fill_(1)

    def renewed() -> tuple[torch.Tensor, torch.Tensor]:
        drift.choose(stages, 0, Span(16, CHUNKS), kept)
        drift.choose(stages, 1, kept, then)
        return kept.starts.clone(), then.starts.clone()

    first, second = renewed()
    assert bool((kept.count == 64).all())
    bounds = 16 + 64 * (torch.arange(65, device=device) * CHUNKS // 64)
    assert bool(((first >= bounds[:-1]) & (first < bounds[1:])).all())
    # The second stage keeps parts of what the first one keeps.
    assert bool((second.diff() > 0).all())
    assert bool(torch.isin(second - (second - 16) % 64, first).all())
    assert all(torch.equal(now, before) for now, before in zip(renewed(), (first, second), strict=True))
    drift.set(1.0)
    assert not bool((renewed()[0] == first).any())
    drift.set(0.25)
    before, _ = renewed()
    now, _ = renewed()
    assert 0.1 < float((now != before).float().mean()) < 0.4


@pytest.mark.gpu
def test_choices_that_were_recorded_drift_in_every_replay() -> None:
    stages, drift = Stages(CONFIG, 0, RopeTables.of(torch.ones(8), 256, "cuda")), Drift(CONFIG, LENGTH, "cuda")
    with drift.recording():
        one, other = (stages.room(1, 2, torch.device("cuda"))[0] for _ in range(2))
    drift.set(1.0)
    drift.choose(stages, 0, Span(16, CHUNKS), one)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        drift.choose(stages, 0, Span(16, CHUNKS), other)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(other.starts.clone())
    assert not any(bool((a == b).any()) for a, b in pairwise(found))
