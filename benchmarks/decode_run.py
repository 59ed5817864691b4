"""Decode steps of the engine's batch, timed one by one, and what each part of them takes in a graph of its own."""

import gc
import itertools
import statistics
import time
from dataclasses import dataclass
from functools import partial

import torch
from benchmarks.decode_context import Context
from benchmarks.gpu import graph_time, recorded, times
from benchmarks.linears import linears

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import DecodeAttention
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.refresh import Phase, Schedule
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.kernels.sample import SampleState, sample
from unabridged.engine.gpu.steps import Captured, unindexed
from unabridged.engine.gpu.tables import Tables
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq

# Steps before those that count: every phase's kernels have run, and clocks are up.
WARM = 32


@dataclass(frozen=True)
class Pace:
    """Seconds of a step: on the GPU from one's end to the next one's, mean, median and 99th percentile; and from one
    token in the host's hands to the next, the same. Kernels of a step, 0 where the profiler does not tell."""

    mean: float
    p50: float
    p99: float
    wall_mean: float
    wall_p50: float
    wall_p99: float
    kernels: float
    captured: Captured


@dataclass(frozen=True)
class Parts:
    """Seconds of a step's linear layers, attention (the mean of a refresh period), head with sampling."""

    linears: float
    attention: float
    head: float


def pace(model: Llama, config: AttentionConfig, context: Context, rows: int, steps: int) -> Pace:
    """`steps` steps of `rows` rows over the context, launched one ahead of the collected one, as the engine does."""
    batch = DecodeBatch(model, config, context.pool, rows, context.room, mass=True)
    captured = batch.capture(context.length < config.dense_below)
    context.admit(batch, rows)
    stepped(batch, WARM)
    gpu, wall = stepped(batch, steps)
    kernels = kernels_of(batch)
    del batch
    gc.collect()
    return Pace(*summary(gpu), *summary(wall), kernels, captured)


def stepped(batch: DecodeBatch, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of each of `steps` steps, one launched ahead: on the GPU, and in the host's hands."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    clock: list[float] = []
    batch.launch()
    for mark in marks:
        batch.launch()
        mark.record()
        batch.collect()
        clock.append(time.perf_counter())
    torch.cuda.synchronize()
    batch.collect()
    gpu = [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)]
    return gpu, [b - a for a, b in itertools.pairwise(clock)]


def parts(model: Llama, config: AttentionConfig, context: Context, rows: int) -> Parts:
    """Each part alone, in graphs, on random activations."""
    return Parts(linears(model, rows, graph_time), _attention(model, config, context, rows), _head(model, rows))


def _head(model: Llama, rows: int) -> float:
    x = torch.randn(rows, model.config.hidden, dtype=model.dtype, device="cuda")
    state = SampleState(rows, model.config.vocab_size, "cuda")
    ids = torch.zeros(rows, dtype=torch.int64, device="cuda")
    with torch.inference_mode():
        return graph_time(lambda: sample(model.head(x), state, ids))


def _attention(model: Llama, config: AttentionConfig, context: Context, rows: int) -> float:
    shape, dense = model.config, context.length < config.dense_below
    tables = Tables(rows, shape.kv_heads, context.room, "cuda")
    rope = RopeTables.of(inv_freq(shape), context.room + config.block_q, "cuda")
    config = unindexed(config) if dense else config
    attention = DecodeAttention(config, shape.heads, context.pool.caches(tables), rope)
    for row in range(rows):
        tables.put(row, context.runs(row))
    schedule = Schedule.of(config, shape.layers)
    q, k, v = (
        torch.randn(shape.layers, rows, 1, heads, shape.head_dim, dtype=model.dtype, device="cuda")
        for heads in (shape.heads, shape.kv_heads, shape.kv_heads)
    )
    out = torch.empty_like(q)

    def step(phase: Phase) -> None:
        attention.begin(phase)
        for layer in range(shape.layers):
            attention.step(layer, q[layer], k[layer], v[layer], out[layer], phase)

    def restart() -> None:
        for row in range(rows):
            attention.take(row, context.length)

    with torch.inference_mode():
        restart()
        if dense:
            return graph_time(partial(step, schedule.whole(context.length + WARM)))
        found = []
        # Steps of a long period are alike: some of them tell.
        for phase in schedule.steps[:: max(1, len(schedule.steps) // 16)]:
            restart()
            step(schedule.all)
            graph = recorded(partial(step, phase))
            found.append(statistics.median(times([graph.replay] * 6, warm=2)))
    return statistics.mean(found)


def kernels_of(batch: DecodeBatch, steps: int = 16) -> float:
    """Kernels of a step, by the profiler."""
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as profiler:
            for _ in range(steps):
                batch.launch()
                batch.collect()
            torch.cuda.synchronize()
    except RuntimeError:
        return 0.0
    names = [one.name for one in profiler.events() if str(one.device_type).endswith("CUDA")]
    return len([name for name in names if not name.startswith(("Memcpy", "Memset"))]) / steps


def summary(seconds: list[float]) -> tuple[float, float, float]:
    """Mean, median, 99th percentile."""
    ranked = sorted(seconds)
    return statistics.mean(seconds), statistics.median(seconds), ranked[int(0.99 * (len(ranked) - 1))]
