"""Prompts with the pool in host memory: staged a layer at a time, or read in place, they give what a pool on the device
gives, to the bit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from tests.engine.gpu.test_batch import CONFIG, ROOM, WINDOW, Models, prompt
from tests.engine.gpu.test_pool import basis
from tests.engine.tiny import save_tiny
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig, LayerAttention, choose
from unabridged.engine.attention.device import Taken
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.host_memory import Place, best_place
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.gpu.staging import Span, Staging, pages
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import Run
from unabridged.engine.plan.kv import Kv
from unabridged.models.llama import Llama

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

LAYERS, HEADS, DIM = 3, 1, 64
INDEXED = replace(
    CONFIG,
    layers=(
        LayerAttention((replace(CONFIG.layers[0].stages[0], scorer="index"), CONFIG.layers[0].stages[1]), "relative"),
    ),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, device: str) -> Llama:
    """Three layers: the third one's past goes where the first one's was."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return Models.load(save_tiny(folder, WINDOW, dim=DIM, layers=LAYERS, heads=2, kv_heads=HEADS), device).own


@dataclass
class Side:
    """A pool and what fills it."""

    pool: GpuPool
    prefill: Prefill
    runs: dict[int, list[Run]]

    @classmethod
    def of(cls, model: Llama, place: Place, config: AttentionConfig, rows: int, staged: int | None = ROOM) -> "Side":
        """`staged`: tokens that staging holds; none without it."""
        bases = [basis(HEADS, DIM, seed) for seed in range(LAYERS)]
        pool = GpuPool(LAYERS, HEADS, DIM, 2 << 20, torch.float32, model.device, bases, place)
        staging = Staging(pool, rows, staged) if pool.offloaded and staged else None
        return cls(pool, Prefill(model, config, pool, rows, ROOM, staging=staging), {})

    def put(self, row: int, tokens: int, behind: Sequence[Run] = ()) -> None:
        """A sequence takes a row."""
        self.runs[row] = [*behind, *self.pool.allocate(tokens)]
        self.prefill.put(row, self.runs[row])

    def state(self, row: int, tokens: int) -> tuple[Tensor, ...]:
        """Keys and values of a row, and its codes."""
        data = self.pool.read(self.runs[row])[:, :, :, :tokens]
        tables = Tables(1, HEADS, ROOM, self.pool.device)
        tables.put(0, self.runs[row])
        found = [cache.index.read(0, 0, tokens) for cache in self.pool.caches(tables) if cache.index]
        return data, *(torch.stack(part) for part in zip(*found, strict=True))


@pytest.fixture
def place(device: str) -> Place:
    return best_place(torch.device(device))


def assert_same_masks(found: Sequence[Taken], expected: Sequence[Taken]) -> None:
    assert [one.limit for one in found] == [one.limit for one in expected]
    for one, other in zip(found, expected, strict=True):
        for kept, wanted in zip(one.kept, other.kept, strict=True):
            assert torch.equal(kept.starts, wanted.starts)
            assert torch.equal(kept.count, wanted.count)
            assert torch.equal(kept.dropped, wanted.dropped)


def forced(side: Side, monkeypatch: pytest.MonkeyPatch, in_place: bool) -> None:
    """Whatever is less to read."""
    monkeypatch.setattr(side.prefill, "in_place", lambda spans: in_place)


@pytest.mark.thorough
def test_documents_behind_one_prefix(model: Llama, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix, documents = prompt(32, 1), [prompt(20, 2), prompt(35, 3)]
    found = []
    kinds: list[tuple[Place, bool]] = [("device", False), (place, False), (place, True)]
    for kind, in_place in kinds:
        one = Side.of(model, kind, CONFIG, 3)
        if one.pool.offloaded:
            forced(one, monkeypatch, in_place)
        one.put(0, len(prefix))
        one.prefill.read([Part(0, 0, prefix)])
        for row, document in enumerate(documents, 1):
            one.put(row, len(document), one.runs[0])
        # Pieces of several sequences; the second one's border lies inside a page.
        hidden = [
            one.prefill.read([Part(2, 32, documents[1][:10])]),
            one.prefill.read([Part(1, 32, documents[0]), Part(2, 42, documents[1][10:])]),
        ]
        found.append((torch.cat(hidden), *one.state(1, 52), *one.state(2, 67)))
        if (staging := one.prefill._staging) is not None:
            # Pages: the prefix's; behind it the beginning of one; both rows' past, and the new ones with one begun.
            moved = 0 if in_place else 2 + (2 + 1) + (2 + 3) + (2 + 3)
            assert staging.moved == moved * PAGE * one.pool.token_bytes
    for other in found[1:]:
        for here, there in zip(found[0], other, strict=True):
            assert torch.equal(here, there)


@pytest.mark.thorough
@pytest.mark.parametrize("config", [CONFIG, INDEXED], ids=["exact", "index"])
def test_a_long_past(model: Llama, place: Place, monkeypatch: pytest.MonkeyPatch, config: AttentionConfig) -> None:
    ids, found, masks = prompt(250, 4), [], []
    kinds: list[tuple[Place, bool]] = [("device", False), (place, False), (place, True)]
    for kind, in_place in kinds:
        one = Side.of(model, kind, config, 1)
        if one.pool.offloaded:
            forced(one, monkeypatch, in_place)
        one.put(0, len(ids))
        # Inside the window, out of it, and on from inside a page.
        hidden = [one.prefill.read([Part(0, at, ids[at:end])]) for at, end in ((0, 100), (100, 202), (202, 250))]
        found.append((torch.cat(hidden), *one.state(0, len(ids))))
        masks.append(one.prefill.taken())
        assert 0 < one.prefill.coverage() < 1
    for other in (1, 2):
        for here, there in zip(found[0], found[other], strict=True):
            assert torch.equal(here, there)
        assert_same_masks(masks[0], masks[other])


def test_a_pass_that_fails_leaves_staging_usable(model: Llama, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, one = prompt(40, 5), Side.of(model, place, CONFIG, 1)
    one.put(0, len(ids))
    expected = one.prefill.read([Part(0, 0, ids)])
    before = one.state(0, 40)

    def fail(layer: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with monkeypatch.context() as patched:
        patched.setattr(one.prefill._staging, "leave", fail)
        with pytest.raises(torch.OutOfMemoryError):
            one.prefill.read([Part(0, 0, prompt(40, 6))])
    assert torch.equal(one.prefill.read([Part(0, 0, ids)]), expected)
    for here, there in zip(one.state(0, 40), before, strict=True):
        assert torch.equal(here, there)


@pytest.mark.parametrize("slow", ["layers", "bus"])
def test_layers_wait_for_their_past_and_buffers_for_their_layers(device: str, place: Place, slow: str) -> None:
    layers, new, past = 5, 37, 1 << 17 if device == "cuda" else 100
    pool = GpuPool(layers, HEADS, DIM, 2 << 29 if device == "cuda" else 2 << 20, torch.float32, device, place=place)
    tables, staging = Tables(1, HEADS, past + 128, pool.device), Staging(pool, 1, past + 128)
    runs = pool.allocate(past + 2 * new)
    tables.put(0, runs)
    values = torch.randn(2, layers, HEADS, past + 2 * new, DIM, generator=torch.Generator().manual_seed(1))
    stored = values.clone()
    stored[:, :, :, past:] = torch.nan
    pool.write(runs, stored)
    caches, seen = staging.caches(tables), []
    row, appended = torch.zeros(1, dtype=torch.int32, device=device), values.transpose(2, 3).to(device)
    for start in (past, past + new):
        staging.begin(tables, [Span(0, start, start + new)])
        for layer, cache in enumerate(caches):
            staging.enter(layer)
            if device == "cuda" and slow == "layers":
                torch.cuda._sleep(20_000_000)
            k, v = appended[:, layer, start : start + new]
            write(k[None], v[None], cache.bank, row, row + start)
            slots = cache.bank.k_table[0, 0, : pages(start + new)].long()
            seen.append(
                (layer, torch.stack([cache.bank.k[slots], cache.bank.v[slots]]).flatten(1, 2)[:, : start + new])
            )
            staging.leave(layer)
        staging.end()
    for layer, found in seen:
        assert torch.equal(found.cpu(), values[:, layer, 0, : found.shape[1]])
    assert torch.equal(pool.read(runs), values)


def test_it_takes_what_the_plan_says(model: Llama, place: Place) -> None:
    pool = Side.of(model, place, CONFIG, 1).pool
    staging = Staging(pool, 3, 100)
    bank = staging.caches(Tables(3, HEADS, ROOM, pool.device))[0].bank
    found = 4 * bank.k.nbytes + bank.k_table.nbytes + staging._order.nbytes
    assert found == Kv(LAYERS, HEADS, DIM, "float32", 0).staging(3, 100)


@pytest.mark.thorough
def test_contexts_share_the_room(model: Llama, place: Place) -> None:
    one = Side.of(model, place, CONFIG, 3, staged=64)
    staging = one.prefill._staging
    assert staging is not None
    assert staging.fits([Span(0, 0, 17), Span(1, 0, 32)])
    assert not staging.fits([Span(0, 0, 17), Span(1, 0, 33)])
    for row in range(2):
        one.put(row, 40)
    with pytest.raises(ValueError, match="80 tokens in a pass with room for 64"):
        one.prefill.read([Part(0, 0, prompt(40, 1)), Part(1, 0, prompt(40, 2))])
    # One alone that is longer than the room is read in place.
    one.put(2, 80)
    other = Side.of(model, "device", CONFIG, 1)
    other.put(0, 80)
    for at in (0, 40):
        ids = prompt(40, at)
        assert torch.equal(one.prefill.read([Part(2, at, ids)]), other.prefill.read([Part(0, at, ids)]))


def test_questions_are_read_in_place_and_documents_are_staged(model: Llama, place: Place) -> None:
    config = choose(AttentionChoice(preset="3k-index", overrides={"dense_below": 8192}), 131072, indexed=True)
    one = Side.of(model, place, CONFIG, 1)
    one.prefill._config = config
    past = 65536
    one.prefill._staging = Staging(one.pool, 1, past + 32768)
    assert one.prefill.in_place([Span(0, past, past + 100)])
    assert not one.prefill.in_place([Span(0, past, past + 32768)])
    assert not one.prefill.in_place([Span(0, 0, 4096)])
    assert not one.prefill.in_place([Span(0, 4096, 4196)])
    # A first stage without an index reads every key for every block of queries.
    one.prefill._config = choose(AttentionChoice(preset="8k", overrides={"dense_below": 8192}), 131072)
    assert one.prefill.in_place([Span(0, past, past + 64)])
    assert not one.prefill.in_place([Span(0, past, past + 128)])
