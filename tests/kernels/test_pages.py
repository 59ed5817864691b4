"""Pages that move between memories: every one that both sides have, and no other."""

import dataclasses

import pytest
import torch
from tests.kernels.made import FP8
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.gpu.host_memory import HostMemory, HostPlace
from unabridged.engine.gpu.kernels.pages import (
    Paged,
    copy_pages,
    copy_pages_plain,
    store_newest,
    store_newest_plain,
)

HEADS = 3


def made(
    layers: int,
    rows: int,
    pages: int,
    dim: int,
    dtype: torch.dtype,
    device: str,
    seed: int,
    each_layer: bool = False,
    empty: bool = False,
) -> Paged:
    """Random pages in permuted slots, a few pages without one; `empty`: NaN. `each_layer`: each has its own tables, and
    values other ones than keys."""
    random = torch.Generator().manual_seed(seed)
    slots = rows * HEADS * pages + 4

    def table() -> Tensor:
        order = torch.stack([torch.randperm(slots, generator=random) for _ in range(layers if each_layer else 1)])
        own = order[:, : slots - 4].reshape(-1, rows, HEADS, pages).int()
        return own.masked_fill(torch.rand(own.shape, generator=random) < 0.1, -1).to(device)

    shape = layers, slots, PAGE, dim
    k, v = (torch.full(shape, torch.nan) if empty else torch.randn(shape, generator=random) for _ in range(2))
    k_table = table()
    return Paged(k.to(dtype).to(device), v.to(dtype).to(device), k_table, table() if each_layer else k_table)


def copied(paged: Paged) -> Paged:
    """Another with the same pages."""
    return dataclasses.replace(paged, k=paged.k.clone(), v=paged.v.clone())


def written(paged: Paged) -> int:
    """Numbers that are there."""
    return sum(int((~x.float().isnan()).sum()) for x in (paged.k, paged.v))


def same(one: Paged, other: Paged) -> bool:
    """Whether all bytes are."""
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in ((one.k, other.k), (one.v, other.v)))


@pytest.mark.parametrize(
    ("dim", "dtype", "programs"),
    [(64, torch.float16, 3), (80, FP8, 1), (128, FP8, 32), (36, torch.float32, 2)],
    ids=str,
)
def test_pages_land_where_the_tables_say(dim: int, dtype: torch.dtype, programs: int, device: str) -> None:
    source = made(3, 2, 19, dim, dtype, device, 1)
    target = made(3, 2, 21, dim, dtype, device, 2, each_layer=True, empty=True)
    plain = copied(target)
    # Pages 16 to 18 are all that the source's tables have of these.
    copy_pages(source, target, 1, 0, 3, 30, range(1, 3), programs=programs)
    copy_pages_plain(source, plain, 1, 0, 3, 30, range(1, 3))
    assert same(target, plain)
    assert bool(target.k[0].float().isnan().all())
    there = [
        (source.k_table[0, 1, :, 3:19] >= 0) & (table[1:, 0, :, 3:19] >= 0)
        for table in (target.k_table, target.v_table)
    ]
    assert written(target) == PAGE * dim * sum(int(one.sum()) for one in there)
    head, page = (int(x) for x in there[0][0].nonzero()[-1])
    of, to = (int(paged[head, 3 + page]) for paged in (source.k_table[0, 1], target.k_table[1, 0]))
    assert torch.equal(target.k[1, to].float(), source.k[1, of].float())


def test_a_layer_moves_into_another_number(device: str) -> None:
    source = made(4, 1, 9, 64, torch.float16, device, 3)
    target = made(2, 2, 9, 64, torch.float16, device, 4, empty=True)
    plain = copied(target)
    copy_pages(source, target, 0, 1, 0, 5, range(3, 4), target_layer=1)
    copy_pages_plain(source, plain, 0, 1, 0, 5, range(3, 4), target_layer=1)
    assert same(target, plain)
    assert written(target) > 0
    copy_pages(target, source, 1, 0, 5, 4, range(1, 2), target_layer=3)
    assert bool(source.k[3].isnan().any())
    assert not bool(source.k[:3].isnan().any())


def test_no_pages_and_no_layers_are_nothing(device: str) -> None:
    source, target = (made(1, 1, 5, 64, torch.float16, device, 5, empty=empty) for empty in (False, True))
    copy_pages(source, target, 0, 0, 2, 0, range(1))
    copy_pages(source, target, 0, 0, 0, 5, range(0))
    assert written(target) == 0


def test_pages_of_other_shapes_are_refused(device: str) -> None:
    source, target = made(1, 1, 5, 64, torch.float16, device, 5), made(1, 1, 5, 64, torch.bfloat16, device, 5)
    with pytest.raises(ValueError, match="pages of"):
        copy_pages(source, target, 0, 0, 0, 5, range(1))
    fewer = dataclasses.replace(source, k_table=source.k_table[:, :, :2], v_table=source.v_table[:, :, :2])
    with pytest.raises(ValueError, match="tables of 3 heads to tables of 2"):
        store_newest(source, fewer, torch.zeros(1, dtype=torch.int32, device=device))


@pytest.mark.parametrize(("dim", "dtype"), [(64, torch.float32), (80, FP8), (128, torch.float16)], ids=str)
def test_the_newest_tokens_of_all_layers_are_stored(dim: int, dtype: torch.dtype, device: str) -> None:
    source = made(5, 4, 12, dim, dtype, device, 6, each_layer=True)
    target = made(5, 4, 14, dim, dtype, device, 7, empty=True)
    plain = copied(target)
    # The third row has no token yet, and the last one's is past the tables.
    first = torch.tensor([0, 16 * 7 + 13, -1, 16 * 12], dtype=torch.int32, device=device)
    store_newest(source, target, first)
    store_newest_plain(source, plain, first)
    assert same(target, plain)
    row, page, inside = 1, 7, 13
    there = [
        (target.k_table[0, row, :, page] >= 0) & (table[:, row, :, page] >= 0)
        for table in (source.k_table, source.v_table)
    ]
    layer, head = (int(x) for x in there[1].nonzero()[-1])
    of, to = int(source.v_table[layer, row, head, page]), int(target.v_table[0, row, head, page])
    assert torch.equal(target.v[layer, to, inside].float(), source.v[layer, of, inside].float())
    firsts = [
        (target.k_table[0, 0, :, 0] >= 0) & (table[:, 0, :, 0] >= 0) for table in (source.k_table, source.v_table)
    ]
    assert written(target) == dim * sum(int(one.sum()) for one in there + firsts)


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["managed", "pinned"])
def test_host_memory_is_read_and_written_in_place(place: HostPlace, device: str) -> None:
    first, last = (made(2, 1, 40, 64, FP8, device, seed) for seed in (8, 9))
    halves = [HostMemory(tuple(first.k.shape), FP8, place, torch.device(device)) for _ in range(2)]
    for half in halves:
        half.commit(0, first.k.shape[1])
    host = Paged(halves[0].tensor, halves[1].tensor, last.k_table, last.v_table)
    through, straight = copied(last), copied(last)
    copy_pages(first, host, 0, 0, 0, 40, range(2))
    copy_pages(host, through, 0, 0, 0, 40, range(2))
    copy_pages_plain(first, straight, 0, 0, 0, 40, range(2))
    both = (first.k_table >= 0) & (last.k_table >= 0)
    slots = last.k_table[both].long()
    assert torch.equal(through.k[:, slots].view(torch.uint8), straight.k[:, slots].view(torch.uint8))
    assert torch.equal(through.v[:, slots].view(torch.uint8), straight.v[:, slots].view(torch.uint8))
    for half in halves:
        half.close()
