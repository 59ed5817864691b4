"""Decode steps of a batch: the same tokens together as alone, and as the engine on the CPU; rows come, go and grow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from tests.engine.gpu.test_pool import basis
from tests.engine.tiny import save_tiny

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig, LayerAttention, Stage
from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.index import encoded
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

WINDOW, ROOM = 128, 320
LAYER = LayerAttention((Stage(64, 16, 64, "exact", 1), Stage(64, 16, 32, "exact", 1)), "relative")
CONFIG = AttentionConfig("tiny", (LAYER,), 16, 64, WINDOW, WINDOW, "kv", refresh=(4, 4, 2))
EVERY = replace(CONFIG, refresh=(1, 1, 1))


@dataclass(frozen=True)
class Models:
    """One model on the device of the tests, and on the CPU for the engine there."""

    own: Llama
    cpu: Llama

    @classmethod
    def load(cls, folder: Path, device: str) -> "Models":
        return cls(load_model(folder, torch.float32, device=device), load_model(folder))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, device: str) -> Models:
    """As small as kernels allow: the interpreter takes a tenth of a second for a head of a row."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return Models.load(save_tiny(folder, WINDOW, dim=64, layers=1, heads=2, kv_heads=1), device)


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory, device: str) -> Models:
    """Two layers and several heads."""
    return Models.load(save_tiny(tmp_path_factory.mktemp("models") / "larger", WINDOW, dim=64), device)


class Engine:
    """A pool, prompts and batches, as the engine puts them together."""

    def __init__(self, models: Models, config: AttentionConfig = CONFIG, bases: Sequence[Basis] = ()) -> None:
        model, shape = models.own, models.own.config
        self.model, self.config = model, config
        dims = shape.layers, shape.kv_heads, shape.head_dim
        self.pool = GpuPool(*dims, 4 << 20, torch.float32, model.device, bases)
        self.prefill = Prefill(model, config, self.pool, 1, ROOM)

    def batch(self, rows: int) -> DecodeBatch:
        return DecodeBatch(self.model, self.config, self.pool, rows, ROOM)

    def start(self, batch: DecodeBatch, prompt: Sequence[int], masks: bool = True, room: int = 32) -> tuple[int, int]:
        """Read a prompt and admit it: the row and its first token."""
        self.runs = self.pool.allocate(len(prompt) + room)
        self.prefill.put(0, self.runs)
        hidden = self.prefill.read([Part(0, 0, prompt)])
        token = int(self.model.logits(hidden)[0].argmax())
        row = batch.free_row()
        assert row is not None
        batch.admit(row, self.runs, len(prompt), self.prefill.taken() if masks else [], token, Sampling())
        return row, token


def step(batch: DecodeBatch) -> list[int]:
    batch.launch()
    return batch.collect()


def prompt(length: int, seed: int) -> list[int]:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def on_the_cpu(models: Models, config: AttentionConfig, ids: Sequence[int], count: int) -> list[int]:
    """The same answer by the engine's attention on the CPU."""
    model, shape = models.cpu, models.cpu.config
    pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, 16 << 20, torch.float32)
    context = Context(pool, [], pool.allocate(len(ids) + count))
    attention = ContextAttention(
        context, config, Shape(shape.layers, shape.heads, shape.kv_heads, shape.head_dim), Rotary(inv_freq(shape))
    )
    out: list[int] = []
    waiting = list(ids)
    while len(out) < count:
        tokens = attention.fits(len(waiting))
        attention.begin(tokens)
        hidden = model.forward(torch.tensor(waiting[:tokens]), attention)
        attention.end()
        waiting = waiting[tokens:]
        if not waiting:
            out.append(int(model.logits(hidden[-1:])[0].argmax()))
            waiting = [out[-1]]
    return out


def test_rows_that_join_and_leave_answer_as_they_do_alone(model: Models) -> None:
    prompts = prompt(20, 1), prompt(45, 2), prompt(33, 3)
    expected = [on_the_cpu(model, CONFIG, one, 4) for one in prompts]
    assert len({tuple(one) for one in expected}) == 3
    engine = Engine(model)
    batch = engine.batch(3)
    _, first = engine.start(batch, prompts[0])
    answers: list[list[int]] = [[first], [], []]
    answers[0].append(step(batch)[0])
    _, second = engine.start(batch, prompts[1])
    found = step(batch)
    answers[0].append(found[0])
    answers[1] += [second, found[1]]
    assert (batch.dense, batch.active, batch.length(0), batch.length(1)) == (True, [0, 1], 22, 46)
    assert batch.release(0) == []
    row, third = engine.start(batch, prompts[2])
    assert row == 0
    found = step(batch)
    answers[1].append(found[1])
    answers[2] += [third, found[0]]
    assert answers == [expected[0][:3], expected[1][:3], expected[2][:2]]


def test_steps_run_ahead_of_what_is_collected(model: Models) -> None:
    ids = prompt(40, 4)
    engine = Engine(model)
    batch = engine.batch(2)
    row, token = engine.start(batch, ids)
    batch.launch()
    batch.launch()
    assert (batch.pending, batch.length(row)) == (2, 42)
    found = [token, batch.collect()[row]]
    batch.launch()
    found += [batch.collect()[row], batch.collect()[row]]
    assert found == on_the_cpu(model, CONFIG, ids, 4)
    with pytest.raises(IndexError):
        batch.collect()


def test_a_row_grows_by_what_it_is_given(model: Models) -> None:
    ids = prompt(47, 5)
    engine = Engine(model)
    batch = engine.batch(1)
    row, token = engine.start(batch, ids, room=1)
    found = [token, step(batch)[row]]
    with pytest.raises(ValueError, match="row 0 with 48 tokens has no slot"):
        batch.launch()
    assert batch.short(row)
    batch.extend(row, engine.pool.allocate(64))
    assert [*found, step(batch)[row]] == on_the_cpu(model, CONFIG, ids, 3)


@pytest.mark.thorough
def test_an_answer_past_the_window_is_that_of_the_cpu(model: Models) -> None:
    ids = prompt(230, 6)
    engine = Engine(model, EVERY)
    batch = engine.batch(2)
    row, token = engine.start(batch, ids)
    assert not batch.dense
    assert [token, step(batch)[row]] == on_the_cpu(model, EVERY, ids, 2)
    assert len(batch.release(row)) == 1


@pytest.mark.thorough
def test_rows_without_a_sequence_store_nothing(model: Models) -> None:
    engine = Engine(model)
    batch, other = engine.batch(3), engine.pool.allocate(128)
    # Slot 0, which idle rows read, is another sequence's.
    assert other[0].start == 0
    shape = model.own.config
    engine.pool.write(other, torch.randn(2, shape.layers, shape.kv_heads, 128, shape.head_dim))
    before = engine.pool.read(other)
    row, _ = engine.start(batch, prompt(20, 12), room=64)
    engine.start(batch, prompt(20, 13))
    batch.release(row)
    for _ in range(24 if model.own.device.type == "cuda" else 2):
        step(batch)
    assert torch.equal(engine.pool.read(other), before)


def test_what_does_not_fit_is_refused(model: Models) -> None:
    engine = Engine(model)
    batch = engine.batch(2)
    with pytest.raises(ValueError, match="no row holds a sequence"):
        batch.launch()
    assert (batch.fits(WINDOW), batch.fits(ROOM)) == (True, False)
    runs = engine.pool.allocate(64)
    batch.admit(0, runs, 40, [], 0, Sampling())
    assert not batch.fits(WINDOW)
    with pytest.raises(ValueError, match="row 0 holds a sequence"):
        batch.admit(0, runs, 40, [], 0, Sampling())
    with pytest.raises(ValueError, match="128 tokens in a dense batch with room for 320"):
        batch.admit(1, runs, WINDOW, [], 0, Sampling())
    with pytest.raises(ValueError, match=r"rows \[0\] hold sequences"):
        batch.capture(dense=True)
    batch.admit(1, runs, 40, [], 0, Sampling())
    assert (batch.free_row(), batch.fits(1)) == (None, False)


@pytest.mark.thorough
def test_an_answer_across_the_window_is_that_of_the_cpu(larger: Models) -> None:
    ids = prompt(WINDOW - 2, 7)
    engine = Engine(larger, EVERY)
    batch = engine.batch(2)
    row, token = engine.start(batch, ids)
    found = [token, step(batch)[row], step(batch)[row]]
    assert batch.crossed(row)
    with pytest.raises(ValueError, match="row 0 with 128 tokens has left the window"):
        batch.launch()
    length, runs = batch.length(row), engine.runs
    batch.admit(row, runs, length, batch.release(row), found[-1], Sampling())
    assert not batch.dense
    found += [step(batch)[row], step(batch)[row]]
    assert found == on_the_cpu(larger, EVERY, ids, 5)


@pytest.mark.thorough
def test_a_row_moves_to_another_batch_with_its_masks(model: Models) -> None:
    # Nothing is renewed while it decodes, so the answer hangs on the masks that are carried.
    config = replace(CONFIG, refresh=(64, 64, 64))
    ids = prompt(230, 8)
    engine = Engine(model, config)
    stays, moves, into = engine.batch(2), engine.batch(1), engine.batch(2)
    for batch in (stays, into):
        # Whoever comes first into an empty batch renews.
        engine.start(batch, prompt(200, 9))
        step(batch)
    engine.start(stays, ids)
    expected = [step(stays)[1] for _ in range(3)]
    _, token = engine.start(moves, ids)
    into.admit(1, engine.runs, len(ids), moves.release(0), token, Sampling())
    assert [step(into)[1] for _ in range(3)] == expected


@pytest.mark.thorough
@pytest.mark.parametrize(("steps", "renewed"), [(7, True), (2, False)])
def test_masks_too_old_to_last_are_renewed_at_once(model: Models, steps: int, renewed: bool) -> None:
    engine = Engine(model, replace(CONFIG, refresh=(8, 8, 8)))
    batch, into = engine.batch(1), engine.batch(2)
    engine.start(into, prompt(200, 9))
    step(into)
    _, token = engine.start(batch, prompt(255, 10))
    for _ in range(steps):
        token = step(batch)[0]
    length, taken = batch.length(0), batch.release(0)
    assert taken[0].limit == 128
    into.admit(1, engine.runs, length, taken, token, Sampling())
    step(into)
    assert into._steps is not None
    assert into._steps.attention.rows[0].limits.tolist()[1] == (192 if renewed else 128)


@pytest.mark.thorough
def test_an_answer_is_in_the_index_and_past_the_window_by_it(model: Models) -> None:
    # The index's stage keeps everything, so that the exact one decides.
    layer = replace(LAYER, stages=(Stage(64, 16, 512, "index", 1), *LAYER.stages[1:]))
    config, shape = replace(EVERY, layers=(layer,)), model.own.config
    bases = [basis(shape.kv_heads, shape.head_dim, 3)]
    ids = prompt(WINDOW - 2, 11)
    engine = Engine(model, config, bases)
    batch = engine.batch(1)
    row, token = engine.start(batch, ids)
    found = [token, step(batch)[row], step(batch)[row]]
    batch.release(row)
    tables = Tables(1, shape.kv_heads, ROOM, model.own.device)
    tables.put(0, engine.runs)
    index = engine.pool.caches(tables)[0].index
    assert index is not None
    keys = engine.pool.read(engine.runs)[0, 0, :, :WINDOW]
    assert torch.equal(index.read(0, 0, WINDOW)[0].cpu(), encoded(keys, bases[0])[0])
    batch.admit(row, engine.runs, WINDOW, [], found[-1], Sampling())
    found += [step(batch)[row], step(batch)[row]]
    exact = replace(EVERY, layers=(replace(LAYER, stages=(Stage(64, 16, 512, "exact", 1), *LAYER.stages[1:])),))
    assert found == on_the_cpu(model, exact, ids, 5)
