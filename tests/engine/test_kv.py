"""The pool, the tables over it, the cache and the store on disk."""

from array import array

import pytest
import torch

from unabridged.engine.errors import OutOfMemory
from unabridged.engine.kv.blocks import BLOCK, Run
from unabridged.engine.kv.cache import KvCache, common_prefix, first_tokens
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context

BLOCK_BYTES = 2 * 2 * 2 * 8 * 4 * BLOCK


def pool(blocks: int = 16) -> KvPool:
    return KvPool(2, 2, 8, blocks * BLOCK_BYTES, torch.float32)


def fill(of: KvPool, runs: list[Run], seed: int = 0) -> None:
    random = torch.Generator().manual_seed(seed)
    for run in runs:
        slots = slice(run.start, run.start + run.length)
        of.k[:, :, slots] = torch.randn(2, 2, run.length, 8, generator=random)
        of.v[:, :, slots] = torch.randn(2, 2, run.length, 8, generator=random)


def test_runs_are_contiguous_while_blocks_allow_and_split_when_they_do_not() -> None:
    one = pool(8)
    a, b, c = (one.allocate(2 * BLOCK) for _ in range(3))
    assert [len(runs) for runs in (a, b, c)] == [1, 1, 1]
    one.free(b)
    assert [run.length for run in one.allocate(3 * BLOCK + 5)] == [2 * BLOCK, BLOCK + 5]
    assert one.free_tokens == 0


def test_a_full_pool_refuses_and_takes_nothing() -> None:
    one = pool(4)
    one.allocate(BLOCK)
    with pytest.raises(OutOfMemory, match=r"192 of 193 tokens"):
        one.allocate(3 * BLOCK + 1)
    assert one.free_tokens == 3 * BLOCK


def test_freed_blocks_join_again_and_their_memory_goes_back() -> None:
    one = pool(8)
    runs = [one.allocate(BLOCK) for _ in range(8)]
    fill(one, runs[3])
    for at in (1, 3, 5, 0, 2, 4, 7, 6):
        one.free(runs[at])
    assert one.allocate(8 * BLOCK) == [Run(0, 8 * BLOCK)]


def test_a_pool_smaller_than_a_block_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="kv_bytes"):
        pool(0)


def test_a_context_reads_what_was_written_across_runs() -> None:
    one = pool()
    one.allocate(BLOCK)
    runs = [Run(5 * BLOCK, 70), Run(2 * BLOCK, 3), Run(8 * BLOCK, 100)]
    context = Context(one, [], runs)
    k, v = torch.randn(2, 173, 8), torch.randn(2, 173, 8)
    for start, end in ((0, 40), (40, 72), (72, 173)):
        context.write(1, start, k[:, start:end], v[:, start:end])
    read = context.read(1, 60, 110)
    assert torch.equal(read[0], k[:, 60:110])
    assert torch.equal(read[1], v[:, 60:110])
    positions = torch.tensor([[[0, 69, 70, 72, 172], [5, 71, 73, 74, -1]]])
    for one_kind, wanted in zip(context.gather_both(1, positions), (k, v), strict=True):
        assert torch.equal(one_kind[0, 0], wanted[0, positions[0, 0]])
        assert torch.equal(one_kind[0, 1, :4], wanted[1, positions[0, 1, :4]])


def test_runs_that_touch_are_one_view_without_a_copy() -> None:
    one = pool()
    context = Context(one, [Run(0, BLOCK), Run(BLOCK, 10)])
    ((position, view),) = context.keys(0, 0, BLOCK + 10)
    assert position == 0
    assert view.data_ptr() == one.k[0].data_ptr()


def test_the_least_recently_used_entry_nobody_holds_goes_first() -> None:
    cache = KvCache(pool(3))
    for name in "abc":
        entry = cache.add(name, BLOCK)
        entry.ids = array("i", [1])
        cache.release(entry)
    held = cache.hold("a")
    assert held is not None
    cache.add("d", BLOCK)
    assert [cache.has(name) for name in "abcd"] == [True, False, True, True]


def test_what_is_held_is_never_evicted() -> None:
    cache = KvCache(pool(2))
    cache.add("a", 2 * BLOCK)
    with pytest.raises(OutOfMemory):
        cache.add("b", 1)
    assert cache.has("a")


def test_an_entry_grows_by_what_is_left() -> None:
    cache = KvCache(pool(6))
    held, free = cache.add("a", BLOCK), cache.add("b", BLOCK)
    free.ids = array("i", [1])
    cache.release(free)
    assert sum(run.length for run in cache.grow_at_most(held, 2 * BLOCK)) == 2 * BLOCK
    assert sum(run.length for run in cache.grow_at_most(held, 10 * BLOCK)) == 3 * BLOCK
    with pytest.raises(OutOfMemory):
        cache.grow_at_most(held, 1)


def test_an_entry_without_kv_vanishes_with_its_last_holder() -> None:
    cache = KvCache(pool(2))
    entry = cache.add("a", BLOCK)
    cache.release(entry)
    assert not cache.has("a")
    assert cache.pool.free_tokens == 2 * BLOCK


def test_trimming_frees_whole_blocks_behind_the_cut() -> None:
    cache = KvCache(pool(8))
    entry = cache.add("a", 3 * BLOCK)
    entry.ids = array("i", range(3 * BLOCK))
    cache.grow(entry, 2 * BLOCK)
    cache.trim(entry, BLOCK + 1)
    assert cache.pool.free_tokens == 6 * BLOCK
    assert entry.reserved == BLOCK + 1
    cache.trim(entry, 0)
    assert cache.pool.free_tokens == 8 * BLOCK


def test_the_conversation_with_the_longest_common_start_is_found() -> None:
    cache = KvCache(pool())
    for ids in ([1, 2, 3], [1, 2, 3, 4, 9], [7]):
        entry = cache.add(cache.new_end("context"), 5)
        entry.ids = array("i", ids)
        cache.release(entry)
    found = cache.longest_end("context", [1, 2, 3, 4, 5])
    assert found is not None
    assert found[1] == 4
    assert cache.longest_end("other", [1]) is None


def test_small_helpers() -> None:
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix([], [1]) == 0
    assert first_tokens([Run(0, 64), Run(128, 64)], 70) == [Run(0, 64), Run(128, 6)]
