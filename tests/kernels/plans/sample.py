"""Sampling over Llama 3's vocabulary, one row and eight; another vocabulary and dtype."""

import torch
from tests.kernels import meta

from unabridged.engine.gpu.kernels.sample import SampleState, plan_sample
from unabridged.models.kernels.launch import Launch


def _plans(name: str, rows: int, vocabulary: int, dtype: torch.dtype) -> dict[str, Launch]:
    state = SampleState(rows, vocabulary, "meta")
    launches = plan_sample(meta.empty(rows, vocabulary, dtype=dtype), state, meta.empty(rows, dtype=torch.int64))
    return {f"{name}-{part}": launch for part, launch in zip(("survey", "collect", "settle"), launches, strict=True)}


def plans() -> dict[str, Launch]:
    """What every run compiles."""
    return _plans("llama", 1, 128256, torch.float16)


def slow_plans() -> dict[str, Launch]:
    """The rest."""
    return _plans("smollm2", 8, 49152, torch.bfloat16) | _plans("odd", 2, 1003, torch.float32)
