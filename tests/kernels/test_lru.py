"""Which pages a bank keeps: against a list of slots in plain Python, over many rounds of lists that drift."""

import dataclasses

import pytest
import torch
from tests.kernels.made import FP8
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Kept
from unabridged.engine.attention.limits import CHOSEN
from unabridged.engine.gpu.kernels.lru import Lru, fetch, fetch_plain, update, update_plain

SINK, RING = 2, 5
STATE = ("table", "owner", "stamp", "clock", "pages", "slots", "missing", "hits", "misses")


class Slots:
    """What one row and head has: pages by slot, and when each was used last."""

    def __init__(self, count: int) -> None:
        self.page, self.used, self.now = [-1] * count, [-1] * count, 0
        self.hits = self.misses = 0

    def update(self, pages: list[int]) -> list[tuple[int, int]]:
        """The pages that were not there, each with the slot that it gets."""
        self.now += 1
        missing = [page for page in pages if page not in self.page]
        for page in set(pages) - set(missing):
            self.used[self.page.index(page)] = self.now
        victims = [slot for slot, page in enumerate(self.page) if page not in pages]
        chosen = sorted(sorted(victims, key=lambda slot: (self.used[slot], slot))[: len(missing)])
        for page, slot in zip(missing, chosen, strict=True):
            self.page[slot], self.used[slot] = page, self.now
        self.hits, self.misses = self.hits + len(pages) - len(missing), self.misses + len(missing)
        return list(zip(missing, chosen, strict=True))


def made(rows: int, heads: int, slots: int, pages: int, room: int, device: str) -> Lru:
    """Empty, and poisoned where nothing may be read before it is written."""
    begin = torch.arange(rows * heads).view(rows, heads, 1) * (SINK + RING + slots)
    page = torch.arange(pages)
    table = (begin + page.where(page < SINK, SINK + page % RING)).int().to(device)
    owner, stamp = torch.full((2, rows, heads, slots), -1, dtype=torch.int32, device=device).unbind(0)
    found, to = torch.full((2, rows, heads, room), -7, dtype=torch.int32, device=device).unbind(0)
    clock, missing = torch.zeros(2, rows, heads, dtype=torch.int32, device=device).unbind(0)
    hits, misses = torch.zeros(2, rows, heads, dtype=torch.int64, device=device).unbind(0)
    return Lru(table, owner, stamp, clock, found, to, missing, hits, misses, SINK, RING)


def copied(lru: Lru) -> Lru:
    """Another with the same numbers."""
    return dataclasses.replace(lru, **{name: getattr(lru, name).clone() for name in STATE})


def lists(chosen: list[list[list[int]]], chunk: int, width: int, device: str) -> Kept:
    """Lists of chunks, by their numbers behind the sink."""
    starts = torch.full((len(chosen), len(chosen[0]), width), -1, dtype=torch.int32)
    for row, own in enumerate(chosen):
        for number, chunks in enumerate(own):
            starts[row, number, : len(chunks)] = SINK * PAGE + chunk * torch.tensor(sorted(chunks)).int()
    count = torch.tensor([[len(chunks) for chunks in own] for own in chosen], dtype=torch.int32)
    return Kept(starts.to(device), count.to(device), torch.zeros(count.shape, device=device))


def drifting(chunks: int, wanted: int, rounds: int, random: torch.Generator) -> list[list[int]]:
    """Chunks in use, some of which change from round to round: few, now and then all; sometimes there are fewer."""
    out, own = [], torch.randperm(chunks, generator=random)[:wanted].tolist()
    for number in range(rounds):
        others = [chunk for chunk in torch.randperm(chunks, generator=random).tolist() if chunk not in own]
        new = int(torch.randint(0, 4, (1,), generator=random)) if number % 6 else wanted
        own = (own[min(new, len(others)) :] + others[:new])[-wanted:]
        out.append(own if number % 4 else own[: int(torch.randint(0, wanted + 1, (1,), generator=random))])
    return out


def listed_pages(chunks: list[int], chunk: int, limit: int) -> list[int]:
    """Pages of a list, each once."""
    positions = [SINK * PAGE + chunk * number + i for number in sorted(chunks) for i in range(chunk)]
    return sorted({position // PAGE for position in positions if position < limit})


def check(lru: Lru, models: list[list[Slots]], found: list[list[list[tuple[int, int]]]], pages: int) -> None:
    """The tensors say what the models say."""
    heads, slots = lru.owner.shape[1:]
    for row, own in enumerate(models):
        for head, model in enumerate(own):
            begin = (row * heads + head) * (SINK + RING + slots) + SINK + RING
            there = {page: begin + slot for slot, page in enumerate(model.page) if page >= 0}
            expected = [
                there.get(page, begin - RING + page % RING if page >= SINK else begin - RING - SINK + page)
                for page in range(pages)
            ]
            assert lru.table[row, head].tolist() == expected
            assert lru.owner[row, head].tolist() == model.page
            number = len(found[row][head])
            assert lru.missing[row, head] == number
            assert lru.pages[row, head, :number].tolist() == [page for page, _ in found[row][head]]
            assert lru.slots[row, head, :number].tolist() == [begin + slot for _, slot in found[row][head]]
            assert bool((lru.clock[row, head] == model.now) & (lru.hits[row, head] == model.hits))
            assert lru.misses[row, head] == model.misses


THOROUGH = pytest.mark.thorough
ROUNDS = 16
# Chunk, chunks wanted, chunks to choose from, slots, joint lists, rows, heads.
CASES = [
    pytest.param(16, 13, 60, 29, False, 2, 3, id="16", marks=THOROUGH),
    pytest.param(16, 13, 60, 13, False, 2, 1, id="16, no slot to spare"),
    pytest.param(256, 2, 6, 40, True, 2, 1, id="256, joint", marks=THOROUGH),
    pytest.param(32, 5, 20, 11, True, 1, 2, id="32, joint"),
    pytest.param(8, 20, 90, 21, False, 1, 2, id="8"),
    pytest.param(8, 9, 90, 24, True, 1, 1, id="8, one head"),
]


@pytest.mark.parametrize(("chunk", "wanted", "chunks", "slots", "joint", "rows", "heads"), CASES)
@pytest.mark.parametrize("plain", [False, True], ids=["kernel", "plain"])
def test_keeps_what_was_used_last(
    chunk: int, wanted: int, chunks: int, slots: int, joint: bool, rows: int, heads: int, plain: bool, device: str
) -> None:
    random = torch.Generator().manual_seed(chunk + slots)
    pages = SINK + -(-chunks * chunk // PAGE) + 3
    lru = made(rows, heads, slots, pages, wanted * max(1, chunk // PAGE), device)
    models = [[Slots(slots) for _ in range(heads)] for _ in range(rows)]
    # The last chunk ends behind the limit, where the ring begins.
    limits = [PAGE * (SINK + -(-chunks * chunk // PAGE) - 1 - row) for row in range(rows)]
    drifts = [[drifting(chunks, wanted, ROUNDS, random) for _ in range(1 if joint else heads)] for _ in range(rows)]
    for number in range(ROUNDS):
        chosen = [[drift[number] for drift in own] for own in drifts]
        kept = lists(chosen, chunk, wanted, device)
        (update_plain if plain else update)(kept, chunk, torch.tensor(limits, dtype=torch.int32, device=device), lru)
        found = [
            [
                model.update(listed_pages(chosen[row][0 if joint else head], chunk, limits[row]))
                for head, model in enumerate(models[row])
            ]
            for row in range(rows)
        ]
        check(lru, models, found, pages)
    assert int(lru.hits.min()) > 0
    assert int(lru.misses.min()) > slots


@pytest.mark.parametrize("spread", [3, 900, 2**31 - 2])
def test_the_oldest_go_however_old_they_are(spread: int, device: str) -> None:
    random = torch.Generator().manual_seed(spread % 1000)
    slots, pages, room = 300, 800, 70
    lru = made(1, 1, slots, pages, room, device)
    held = SINK + torch.randperm(pages - SINK, generator=random)[:slots].int()
    held[::17] = -1
    lru.owner[0, 0] = held.to(device)
    lru.table[0, 0, held[held >= 0].long().to(device)] = (SINK + RING + torch.arange(slots)[held >= 0]).int().to(device)
    lru.clock[:] = spread
    # Few different ages, and all of them.
    lru.stamp[0, 0] = torch.randint(0, spread + 1, (slots,), generator=random, dtype=torch.int64).int().to(device)
    limits = torch.tensor([pages * PAGE], dtype=torch.int32, device=device)
    own = copied(lru)
    kept = lists([[torch.randperm(pages - SINK, generator=random)[:room].tolist()]], PAGE, room, device)
    update(kept, PAGE, limits, lru)
    update_plain(kept, PAGE, limits, own)
    assert lru.missing.item() > 30
    for name in STATE:
        assert torch.equal(getattr(lru, name), getattr(own, name)), name


def test_nothing_changes_for_empty_lists_and_rows_without_pages(device: str) -> None:
    lru = made(2, 2, 9, 40, 9, device)
    lru.table[1] = -1
    limits = torch.full((2,), 40 * PAGE, dtype=torch.int32, device=device)
    before = copied(lru)
    update(lists([[[], []], [[3, 7], [1]]], PAGE, 9, device), PAGE, limits, lru)
    assert bool((lru.clock == 1).all())
    for name in set(STATE) - {"clock"}:
        assert torch.equal(getattr(lru, name), getattr(before, name)), name


def test_a_list_that_does_not_fit_is_refused(device: str) -> None:
    limits = torch.zeros(1, dtype=torch.int32, device=device)
    for chunk, slots, room in ((16, 8, 9), (16, 9, 8), (32, 17, 18), (16, CHOSEN + 1, 9)):
        lru = made(1, 1, slots, 40, room, device)
        for either in (update, update_plain):
            with pytest.raises(ValueError, match="in a bank of"):
                either(lists([[[1]]], chunk, 9, device), chunk, limits, lru)


def _bytes(x: Tensor) -> Tensor:
    return x.view(torch.uint8).flatten(1)


@pytest.mark.parametrize(("dim", "dtype"), [(64, torch.float32), (80, FP8), (128, FP8), (128, torch.float16)], ids=str)
def test_what_is_missing_is_fetched(dim: int, dtype: torch.dtype, device: str) -> None:
    random = torch.Generator().manual_seed(dim)
    rows, heads, slots, pages, room = 2, 3, 11, 30, 11
    lru = made(rows, heads, slots, pages, room, device)
    counts = torch.tensor([[0, 1, 11], [7, 3, 8]])
    for row in range(rows):
        for head in range(heads):
            number, begin = int(counts[row, head]), (row * heads + head) * (SINK + RING + slots) + SINK + RING
            lru.pages[row, head, :number] = torch.randperm(pages, generator=random)[:number].int().to(device)
            lru.slots[row, head, :number] = begin + torch.randperm(slots, generator=random)[:number].int().to(device)
    lru.missing[:] = counts.int().to(device)
    source_table = torch.randperm(rows * heads * pages, generator=random).view(rows, heads, pages).int().to(device)
    # A page that the pool has not: nobody's slot changes.
    source_table[0, 2, lru.pages[0, 2, 5]] = -1
    source = torch.randn(rows * heads * pages, PAGE, dim, generator=random).to(dtype).to(device)
    target = torch.full((rows * heads * (SINK + RING + slots), PAGE, dim), torch.nan).to(dtype).to(device)
    plain = target.clone()
    fetch(lru, source, source_table, target)
    fetch_plain(lru, source, source_table, plain)
    assert torch.equal(_bytes(target), _bytes(plain))
    assert int((~target.float().isnan().any(-1).any(-1)).sum()) == int(counts.sum()) - 1
    page, slot = int(lru.pages[1, 0, 6]), int(lru.slots[1, 0, 6])
    assert torch.equal(target[slot].float(), source[source_table[1, 0, page].long()].float())
    with pytest.raises(ValueError, match="pages of"):
        fetch(lru, source, source_table, target[:, :8])
