"""Clocks and yardsticks on a GPU: times of CUDA graphs, copy bandwidth, matrix rate, progress lines."""

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

_BEGUN = time.monotonic()


def say(text: str) -> None:
    """A progress line with the seconds since the start: a run that is cut off still tells."""
    print(f"[{time.monotonic() - _BEGUN:6.1f}] {text}", flush=True)


def require_gpu(benchmark: str) -> None:
    """Leave with one line where there is no CUDA device."""
    if not torch.cuda.is_available():
        sys.exit(f"benchmarks.{benchmark} needs a CUDA device")


def card() -> dict[str, Any]:
    """The GPU and the libraries that ran on it."""
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "gpu_memory_gib": round(properties.total_memory / 2**30, 1),
        "multiprocessors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "triton": triton.__version__,
    }


def recorded(body: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """`body` as a graph; it has run before, so that its kernels are compiled."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        body()
        body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph


def times(runs: Sequence[Callable[[], object]], warm: int = 0) -> list[float]:
    """Seconds that each of these took on the GPU, one right after the other; the first `warm` are left out."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(runs) + 1)]
    marks[0].record()
    for run, mark in zip(runs, marks[1:], strict=True):
        run()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in itertools.pairwise(marks)][warm:]


def graph_time(body: Callable[[], object], repeats: int = 20) -> float:
    """Median seconds of `body` as a graph."""
    graph = recorded(body)
    return statistics.median(times([graph.replay] * (repeats + 3), warm=3))


def eager_time(body: Callable[[], object], repeats: int = 3) -> float:
    """Median seconds of `body`, launched from here."""
    return statistics.median(times([body] * (repeats + 1), warm=1))


def copy_bandwidth() -> float:
    """Bytes a second, read and written, by a kernel: what the copy engine of a recorded copy reaches is less."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 8 * source.numel() / graph_time(lambda: torch.add(source, 1.0, out=target))


def matrix_rate(size: int = 8192) -> float:
    """Floating-point operations a second of a bfloat16 matrix product."""
    a, b = torch.randn(2, size, size, dtype=torch.bfloat16, device="cuda").unbind(0)
    out = torch.empty_like(a)
    return 2 * size**3 / graph_time(lambda: torch.mm(a, b, out=out))
