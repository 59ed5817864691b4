"""Answers of a model whose KV lies in host memory: the same tokens as from a pool on the device."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tests.engine.gpu.test_batch import CONFIG, ROOM, WINDOW, Models, prompt
from tests.engine.tiny import save_tiny

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import Taken
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.decoding import Answering, Decoder
from unabridged.engine.gpu.host_memory import Place, best_place
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.gpu.resident import BankMemory
from unabridged.models.llama import Llama

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, device: str) -> Llama:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return Models.load(save_tiny(folder, WINDOW, dim=64, layers=1, heads=2, kv_heads=1), device).own


class Engine:
    """A pool, prompts, and answers that share memory for their banks, as the engine puts them together."""

    def __init__(self, model: Llama, config: AttentionConfig, offloaded: bool, slots: int = 1) -> None:
        shape, self.model = model.config, model
        place: Place = best_place(model.device, 4 << 20) if offloaded else "device"
        dims = shape.layers, shape.kv_heads, shape.head_dim
        self.pool = GpuPool(*dims, 4 << 20, torch.float32, model.device, place=place)
        self.prefill = Prefill(model, config, self.pool, 1, ROOM)
        banks = BankMemory(self.pool, BankRoom.of(config, shape.layers, slots, ROOM, 1.0)) if offloaded else None

        def batch(rows: int) -> DecodeBatch:
            return DecodeBatch(model, config, self.pool, rows, ROOM, mass=True, banks=banks)

        self.decoder = Decoder(batch, slots)

    def begin(self, ids: Sequence[int], room: int = 64) -> Answering:
        """Read a prompt and begin its answer."""
        runs = self.pool.allocate(len(ids) + room)
        self.prefill.put(0, runs)
        hidden = self.prefill.read([Part(0, 0, ids)])
        masks: Sequence[Taken] = self.prefill.taken()
        token = int(self.model.logits(hidden)[0].argmax())
        one = Answering(runs, len(ids), [*ids, token], Sampling(), masks, span=range(0, 32))
        self.decoder.join(one)
        return one


def both(model: Llama, config: AttentionConfig, slots: int = 1) -> tuple[Engine, Engine]:
    return Engine(model, config, True, slots), Engine(model, config, False, slots)


@pytest.mark.thorough
def test_an_answer_inside_the_window_is_the_same(model: Llama) -> None:
    host, own = both(model, CONFIG)
    found, expected = (engine.begin(prompt(37, 1)) for engine in (host, own))
    assert [host.decoder.next(found) for _ in range(3)] == [own.decoder.next(expected) for _ in range(3)]
    assert found.look is not None
    assert expected.look is not None
    assert found.look.read() == expected.look.read()


@pytest.mark.thorough
def test_an_answer_past_the_window_begins_with_its_prompts_masks(model: Llama) -> None:
    host, own = both(model, replace(CONFIG, refresh=(64, 64, 64)))
    found, expected = (engine.begin(prompt(230, 2)) for engine in (host, own))
    for _ in range(3):
        assert host.decoder.next(found) == own.decoder.next(expected)
    assert host.decoder.coverage(found) == own.decoder.coverage(expected)
    masks = zip(host.decoder.masks(found), own.decoder.masks(expected), strict=True)
    for mine, other in masks:
        assert mine.limit == other.limit
        assert all(torch.equal(a.starts, b.starts) for a, b in zip(mine.kept, other.kept, strict=True))
    assert found.traffic is not None
    # What the prompt's masks name, before the first step, and what the only renewal chose.
    assert (found.traffic.found + found.traffic.fetched).flatten().tolist() == [8, 4]
    assert found.traffic.found.sum() > 0
    assert expected.traffic is None


@pytest.mark.thorough
def test_answers_change_seats_and_cross_the_window(model: Llama) -> None:
    every = replace(CONFIG, refresh=(2, 2, 1))
    host, own = both(model, every, 2)
    answers = []
    for engine in (host, own):
        decoder, tokens = engine.decoder, list[int]()
        first = engine.begin(prompt(WINDOW - 3, 3))
        tokens += [decoder.next(first) for _ in range(2)]
        # Into a batch of two rows, the second one past the window.
        second = engine.begin(prompt(200, 4))
        for _ in range(3):
            tokens += [decoder.next(second), decoder.next(first)]
        assert (first.seat, second.seat) == ((decoder.shared[False], 0), (decoder.shared[False], 1))
        decoder.leave(first)
        tokens += [decoder.next(second) for _ in range(2)]
        assert second.seat == (decoder.alone, 0)
        answers.append(tokens)
    assert answers[0] == answers[1]
