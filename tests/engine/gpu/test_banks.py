"""Decode steps over a pool in host memory beside the same ones over a pool on the device: the same bytes come out, and
whatever a step reads in the banks is what the pool holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from tests.engine.gpu.test_pool import basis
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig, Join, LayerAttention, Stage
from unabridged.engine.attention.device import DecodeAttention, Taken
from unabridged.engine.attention.kernels.bank_write import write_plain
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.refresh import Phase
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.banks import Banks
from unabridged.engine.gpu.host_memory import Place, best_place
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.resident import BankMemory, Whole
from unabridged.engine.gpu.steps import Steps
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import Run

# In the interpreter numpy remarks on log 0.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

ROOM = 512
EXACT = (Stage(16, 16, 96, "exact", 1), Stage(16, 16, 32, "exact", 1))
ONE = (Stage(16, 16, 64, "exact", 1),)
INDEX = (Stage(16, 16, 96, "index", 1), Stage(16, 16, 32, "exact", 1))
PAPER = (Stage(16, 32, 128), Stage(16, 16, 64), Stage(16, 8, 32))


@dataclass(frozen=True)
class Shape:
    """L, H, G, D."""

    layers: int = 1
    heads: int = 2
    kv_heads: int = 1
    dim: int = 64


def settings(stages: Sequence[Stage] = EXACT, refresh: tuple[int, ...] = (2, 2, 1), below: int = 0) -> AttentionConfig:
    layer = LayerAttention(tuple(stages), "relative")
    return AttentionConfig("tiny", (layer,), 16, 32, 8192, below, "kv", refresh=refresh)


class Side:
    """Steps of random tokens over a pool, and what they gave."""

    def __init__(
        self, config: AttentionConfig, shape: Shape, place: Place, device: str, rows: int, share: float = 1.0
    ) -> None:
        self.config, self.shape, self.device = config, shape, device
        bases = [basis(shape.kv_heads, shape.dim, seed) for seed in range(shape.layers)]
        indexed = config.layers[0].stages[0].scorer == "index"
        dims = shape.layers, shape.kv_heads, shape.dim
        size = 2048 * 2 * 4 * shape.layers * shape.kv_heads * shape.dim
        self.pool = GpuPool(*dims, size, torch.float32, device, bases if indexed else (), place)
        self.tables = Tables(rows, shape.kv_heads, ROOM, device)
        self.rope = RopeTables.of(10000.0 ** (-torch.arange(0, shape.dim, 2).double() / shape.dim), ROOM + 64, device)
        self.memory = BankMemory(self.pool, BankRoom.of(config, shape.layers, rows, ROOM, share))
        self.kinds: dict[bool, Steps] = {}
        # Where they are when steps are recorded.
        heads = (shape.heads, shape.kv_heads, shape.kv_heads)
        self.inputs = [
            tuple(torch.zeros(rows, 1, n, shape.dim, device=device) for n in heads) for _ in range(shape.layers)
        ]
        self.outs = [torch.zeros_like(q) for q, _, _ in self.inputs]
        self.residents: dict[bool, Banks | Whole] = {}

    def steps(self, dense: bool) -> Steps:
        """As a batch makes them."""
        if dense not in self.kinds:
            if self.pool.offloaded:
                rows = len(self.tables.slots)
                for half in self.memory.halves(rows, dense):
                    # What no one brought is not read.
                    half.fill_(torch.nan)
                self.residents[dense] = (Whole if dense else Banks)(self.pool, self.tables, self.memory)
            resident = self.residents.get(dense)
            caches = resident.caches if resident else self.pool.caches(self.tables)
            self.kinds[dense] = Steps(
                *(dense, self.config, self.shape.heads, caches, self.rope, True, self.body), resident=resident
            )
        return self.kinds[dense]

    def body(self, attention: DecodeAttention, phase: Phase) -> None:
        for layer, (q, k, v) in enumerate(self.inputs):
            attention.step(layer, q, k, v, self.outs[layer].fill_(torch.nan), phase)


class Both:
    """One side over a pool in host memory, one over a pool on the device."""

    def __init__(
        self, config: AttentionConfig, device: str, rows: int = 1, shape: Shape = Shape(), share: float = 1.0
    ) -> None:
        self.config, self.shape, self.device, self.rows = config, shape, device, rows
        host = best_place(torch.device(device))
        self.host, self.own = (Side(config, shape, place, device, rows, share) for place in (host, "device"))
        self.random = torch.Generator().manual_seed(7)
        self.lengths: dict[int, int] = {}
        self.dense = False

    def admit(self, row: int, length: int, room: int = 128) -> None:
        """A sequence of random tokens."""
        data = self.normal(2, self.shape.layers, self.shape.kv_heads, length, self.shape.dim)
        for side in (self.host, self.own):
            runs = side.pool.allocate(length + room)
            assert len(runs) == 1
            side.pool.write([replace(runs[0], length=length)], data)
            side.tables.put(row, runs)
        self.take(row, length, [], [])

    def take(self, row: int, length: int, host: Sequence[Taken], own: Sequence[Taken]) -> None:
        self.dense = length < self.config.dense_below
        self.lengths[row] = length
        self.host.steps(self.dense).admit(row, length, host)
        self.own.steps(self.dense).admit(row, length, own)

    def release(self, row: int) -> tuple[list[Taken], list[Taken]]:
        """As a batch does it: the tables stay, for whoever goes on."""
        host, own = (side.steps(self.dense).taken(row) for side in (self.host, self.own))
        for side in (self.host, self.own):
            side.steps(self.dense).release(row)
        del self.lengths[row]
        return host, own

    def step(self, attends: bool = True) -> None:
        """A token for each row, the same on both sides; then everything is compared. Without `attends` it is only
        stored on the device's side, which takes half of the time."""
        inputs = [[2 * self.normal(*x.shape) for x in each] for each in self.host.inputs]
        active = list(self.lengths)
        for side in (self.host, self.own):
            for each, new in zip(side.inputs, inputs, strict=True):
                for x, own in zip(each, new, strict=True):
                    x.copy_(own)
        for side in (self.host, self.own) if attends else (self.host,):
            side.steps(self.dense).run(1 + max(self.lengths.values()))
        if attends:
            for found, expected in zip(self.host.outs, self.own.outs, strict=True):
                assert not expected[active].isnan().any()
                assert torch.equal(found[active], expected[active])
        else:
            first = self.host.steps(self.dense).attention.first
            rows = torch.arange(self.rows, dtype=torch.int32, device=self.device)
            for cache, (_, k, v) in zip(self.own.pool.caches(self.own.tables), self.own.inputs, strict=True):
                write_plain(k, v, cache.bank, rows, first)
        self.lengths = {row: length + 1 for row, length in self.lengths.items()}
        for row, length in self.lengths.items():
            self.assert_stored(row, length)
            if not self.dense:
                self.assert_resident(row, length)

    def assert_stored(self, row: int, length: int) -> None:
        """The pool has every token."""
        for mine, other in ((self.host.pool.k, self.own.pool.k), (self.host.pool.v, self.own.pool.v)):
            found, expected = (
                _tokens(store, side.tables.slots[None], row, length)
                for store, side in ((mine, self.host), (other, self.own))
            )
            assert torch.equal(found.to(self.device), expected)

    def assert_resident(self, row: int, length: int) -> None:
        """What the next attention, and the next later stages, read in the banks is what the pool holds."""
        banks, attention = self.host.residents[False], self.host.steps(False).attention
        assert isinstance(banks, Banks)
        pool, slots = self.host.pool, self.host.tables.slots
        for layer in range(self.shape.layers):
            limit = int(attention.rows[layer].limits[row])
            recent = {*range(min(limit, self.config.sink)), *range(limit, length)}
            kept, stages = attention.masks.kept[layer], attention.stages[layer].settings
            for store, own, half, wanted in (
                (pool.k, banks._k, banks._halves[0], (0, -1)),
                (pool.v, banks._v, banks._halves[1], (-1,)),
            ):
                whole = _tokens(store, slots[None], row, length)[layer].to(self.device)
                mine = _tokens(own, half.table, row, length)[layer]
                for head in range(self.shape.kv_heads):
                    read = set(recent)
                    for stage in wanted:
                        of = head % kept[stage].starts.shape[1]
                        starts = kept[stage].starts[row, of, : int(kept[stage].count[row, of])].tolist()
                        read |= {at for one in starts for at in range(one, min(one + stages[stage].chunk, limit))}
                    at = sorted(read)
                    assert torch.equal(mine[head, at], whole[head, at])
            self.assert_encoded(layer, row, limit)

    def assert_encoded(self, layer: int, row: int, limit: int) -> None:
        """The index has what left the stream, and what others put there."""
        found, expected = (side.pool.caches(side.tables)[layer].index for side in (self.host, self.own))
        if found is not None and expected is not None:
            for mine, other in zip(found.read(row, 0, limit), expected.read(row, 0, limit), strict=True):
                assert torch.equal(mine, other)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.random)


def _tokens(store: Tensor, table: Tensor, row: int, length: int) -> Tensor:
    """What a row's tables say of its first tokens, `[L, G, N, D]`; NaN where they say nothing."""
    layers = len(store)
    slots = table[:, row].expand(layers, -1, -1)[:, :, : -(-length // PAGE)].to(store.device)
    pages = torch.stack([store[layer][slots[layer].clamp(min=0).long()] for layer in range(layers)])
    pages = pages.where((slots >= 0)[..., None, None], torch.nan)
    return pages.flatten(2, 3)[:, :, :length]


@pytest.mark.parametrize(
    ("stages", "refresh"),
    [
        pytest.param(EXACT, (2, 2, 1), id="exact"),
        pytest.param(ONE, (2,), id="one stage", marks=pytest.mark.thorough),
        pytest.param(INDEX, (3, 1), id="index", marks=pytest.mark.thorough),
        # A renewal encodes more than the sink, from where a row without masks begins: from 0.
        pytest.param(INDEX, (20, 1), id="index, seldom", marks=pytest.mark.thorough),
        pytest.param(PAPER, (4, 2, 1), id="paper", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.thorough
def test_steps_give_the_same_bytes(stages: Sequence[Stage], refresh: tuple[int, ...], device: str) -> None:
    both = Both(settings(stages, refresh), device)
    both.admit(0, 250)
    for _ in range(4):
        both.step()


@pytest.mark.gpu
@pytest.mark.thorough
@pytest.mark.parametrize("stages", [EXACT, INDEX, PAPER], ids=["exact", "index", "paper"])
def test_recorded_steps_give_the_same_bytes(stages: Sequence[Stage], device: str) -> None:
    refresh = (4, 2, 1)[3 - len(stages) :]
    both = Both(settings(stages, refresh, below=64), device, 3, Shape(5, 8, 4, 128))
    for side in (both.host, both.own):
        for dense in (True, False):
            side.steps(dense).capture()
    both.admit(0, 40)
    both.step()
    both.release(0)
    both.admit(1, 250, 192)
    for _ in range(30):
        both.step()
    both.admit(2, 130, 192)
    for _ in range(100):
        both.step()
    both.release(1)
    both.admit(0, 300)
    for _ in range(20):
        both.step()


@pytest.mark.thorough
def test_whatever_is_not_chosen_gives_way_and_comes_back(device: str) -> None:
    both = Both(settings(refresh=(1, 1, 1)), device, share=1.0)
    both.admit(0, 330)
    for _ in range(4):
        both.step()
    traffic = both.host.steps(False).traffic(0)
    assert traffic is not None
    keys = both.host.memory.room.alone.keys
    assert keys == 6
    # Six pages of keys and two of values a step: each was asked for, most were fetched.
    assert (traffic.found + traffic.fetched).flatten().tolist() == [24, 8]
    assert keys < traffic.fetched[0].item() < 24
    assert traffic.bytes == int(traffic.fetched.sum()) * PAGE * 64 * 4
    assert traffic.rates[0] == pytest.approx(1 - traffic.fetched[0].item() / 24)
    assert both.own.steps(False).traffic(0) is None


@pytest.mark.thorough
def test_the_ring_goes_round(device: str) -> None:
    both = Both(replace(settings(ONE, (3,)), stream=16), device)
    both.admit(0, 90)
    assert both.host.memory.room.alone.ring == 5
    for _ in range(60):
        both.step(attends=False)


@pytest.mark.thorough
def test_a_context_inside_the_sink_grows_past_the_stream(device: str) -> None:
    both = Both(replace(settings(ONE, (3,)), stream=16), device)
    both.admit(0, 14)
    for _ in range(40):
        both.step(attends=False)


@pytest.mark.thorough
@pytest.mark.parametrize("join", ["kv", "joint"])
def test_rows_come_and_go_while_others_stay(join: Join, device: str) -> None:
    stages = (Stage(16, 32, 64), Stage(16, 8, 32))
    both = Both(replace(settings(stages, (2, 1)), join=join), device, 2, Shape(2, 2, 2, 128), 1.5)
    both.admit(1, 200)
    both.step()
    both.admit(0, 77)
    both.step()
    both.release(1)
    # Whoever comes next finds nothing of the one before.
    both.admit(1, 301)
    both.step()
    both.step()


@pytest.mark.thorough
def test_masks_that_are_carried_are_fetched(device: str) -> None:
    # Nothing is renewed after the first step of all, so that what is attended to hangs on them.
    both = Both(settings(refresh=(64, 64, 64)), device, rows=2)
    both.admit(0, 250)
    both.step()
    length, tables = both.lengths[0], [side.tables.slots[0].clone() for side in (both.host, both.own)]
    masks = both.release(0)
    both.admit(0, 180)
    both.step()
    for side, own in zip((both.host, both.own), tables, strict=True):
        side.tables.slots[1] = own
    both.take(1, length, *masks)
    for _ in range(3):
        both.step()


@pytest.mark.thorough
def test_a_row_that_leaves_the_window_goes_on_in_banks(device: str) -> None:
    both = Both(settings(below=96), device, rows=2)
    both.admit(0, 94)
    both.step()
    assert both.dense
    both.step()
    both.release(0)
    both.take(0, 96, [], [])
    assert not both.dense
    for _ in range(3):
        both.step()
    # And the memory serves a short one again.
    both.release(0)
    both.admit(1, 30)
    assert both.dense
    both.step()


@pytest.mark.thorough
def test_rows_without_a_sequence_store_nothing(device: str) -> None:
    both = Both(settings(ONE, (2,)), device, rows=2)
    both.admit(0, 100)
    before = both.host.pool.k.clone()
    both.admit(1, 90)
    both.step()
    both.release(1)
    kept = both.host.pool.read([Run(256, 91)])
    for _ in range(3):
        both.step()
    assert torch.equal(both.host.pool.read([Run(256, 91)]), kept)
    assert not torch.equal(both.host.pool.k, before)
