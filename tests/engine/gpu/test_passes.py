"""How much a pass reads: long pieces behind a long past in host memory, and contexts that have room together."""

import pytest
import torch

from unabridged.engine.attention.limits import CONTEXTS
from unabridged.engine.gpu.host_memory import best_place
from unabridged.engine.gpu.passes import Passes, Streaming
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.staging import Span, Staging


@pytest.fixture
def staging(device: str) -> Staging:
    place = best_place(torch.device(device))
    return Staging(GpuPool(1, 1, 16, 1 << 16, torch.float32, device, place=place), CONTEXTS, 100_000)


def test_pieces_grow_with_what_is_streamed_for_them(staging: Staging) -> None:
    passes = Passes(4096, staging, Streaming(100_000, longest=2000, balance=40))

    def least(past: int, left: int = 10_000, decoding: bool = False) -> int:
        return passes.least(past, left, decoding)

    assert [least(past) for past in (0, 4000, 80_000, 90_000)] == [0, 100, 2000, 2000]
    # As far as staging has room, and not where answers would wait for it.
    assert [least(past) for past in (99_000, 100_000, 200_000)] == [1000, 0, 0]
    assert least(80_000, decoding=True) == 0
    # No short piece is left over.
    assert [least(40_000, left) for left in (999, 1500, 2000, 2001, 3300)] == [999, 1500, 1000, 1001, 1100]
    assert least(80_000, 2001) == 1001
    assert Passes(4096, None, Streaming(100_000)).least(80_000, 10_000, decoding=False) == 0
    assert (passes.chunk(decoding=False), passes.chunk(decoding=True)) == (4096, 512)


def test_contexts_are_read_together_as_far_as_there_is_room(staging: Staging) -> None:
    passes = Passes(4096, staging, Streaming(100_000))

    def split(*spans: tuple[int, int]) -> list[list[int]]:
        return list(passes.split([(number, Span(0, *span)) for number, span in enumerate(spans)]))

    assert split() == []
    assert split((0, 50_000), (0, 49_000), (90_000, 90_100), (0, 9000)) == [[0], [1], [2, 3]]
    assert split((40_000, 50_000), (40_000, 49_000), (0, 2000)) == [[0, 1], [2]]
    # One that is longer than the room is alone.
    assert split((0, 10), (150_000, 150_010), (0, 10)) == [[0], [1], [2]]
    assert split(*[(0, 10)] * (CONTEXTS + 1)) == [[*range(CONTEXTS)], [CONTEXTS]]
    # New tokens are those of a piece at most, long or not.
    passes = Passes(4096, staging, Streaming(100_000, longest=6000))
    assert split((0, 3000), (0, 3000), (0, 1)) == [[0, 1], [2]]
    passes = Passes(4096, None, Streaming(0))
    assert split((0, 2000), (0, 2096), (0, 1)) == [[0, 1], [2]]
