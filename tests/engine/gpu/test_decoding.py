"""Answers in their seats: who is alone, who shares, what becomes of one whose slots are used up."""

import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.engine.attention.config import AttentionConfig, LayerAttention, Stage
from unabridged.engine.events import Sampling
from unabridged.engine.gpu import decoding
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.decoding import Answering, Decoder
from unabridged.engine.gpu.pool import GpuPool
from unabridged.models.llama import Llama
from unabridged.models.load import load_model

# In the interpreter numpy remarks on log 0.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

LAYER = LayerAttention((Stage(64, 16, 32, "exact", 1),), "relative")
CONFIG = AttentionConfig("tiny", (LAYER,), 16, 64, 96, 96, "kv", refresh=(2,))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, device: str) -> Llama:
    folder = save_tiny(tmp_path_factory.mktemp("models") / "tiny", 96, dim=64, layers=1, heads=2, kv_heads=1)
    return load_model(folder, torch.float32, device=device)


class Answers:
    """A pool without any text in it, and answers that begin behind it."""

    def __init__(self, model: Llama) -> None:
        shape = model.config
        self.pool = GpuPool(shape.layers, shape.kv_heads, shape.head_dim, 1 << 20, torch.float32, model.device)
        self.decoder = Decoder(lambda rows: DecodeBatch(model, CONFIG, self.pool, rows, 256, mass=True), 2)

    def begin(self, length: int, token: int) -> Answering:
        one = Answering(self.pool.allocate(64), length, [token], Sampling(), ())
        self.decoder.join(one)
        return one


def test_one_alone_has_a_batch_of_one_row_and_two_share(model: Llama) -> None:
    answers = Answers(model)
    first = answers.begin(5, 1)
    token = answers.decoder.next(first)
    assert first.seat == (answers.decoder.alone, 0)
    second = answers.begin(9, 2)
    assert [one.seat and one.seat[0] for one in (first, second)] == [answers.decoder.shared[True]] * 2
    # The step that was under way while it moved was not lost.
    assert first.tokens[:2] == [1, token]
    assert (first.length, len(first.waiting)) == (5 + 2, 1)
    answers.decoder.leave(first)
    assert second.seat == (answers.decoder.alone, 0)
    assert len(answers.decoder) == 1


@pytest.mark.thorough
def test_a_look_that_finds_no_memory_is_the_end_of_one_answer(model: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(masses: torch.Tensor, span: range) -> None:
        raise torch.OutOfMemoryError(f"no memory for {len(masses)} masses of {span}")

    alone = Answers(model)
    one = alone.begin(17, 2)
    expected = [alone.decoder.next(one) for _ in range(2)]
    answers = Answers(model)
    looks, other = answers.begin(20, 1), answers.begin(17, 2)
    looks.span = range(16)
    with monkeypatch.context() as patched:
        patched.setattr(decoding, "Look", full)
        with pytest.raises(torch.OutOfMemoryError):
            answers.decoder.next(looks)
    answers.decoder.leave(looks)
    assert [answers.decoder.next(other) for _ in range(2)] == expected


@pytest.mark.thorough
def test_an_answer_without_slots_stands_up_and_goes_on_when_it_has_some(model: Llama) -> None:
    alone = Answers(model)
    one = alone.begin(61, 1)
    alone.decoder.extend(one, alone.pool.allocate(64))
    expected = [alone.decoder.next(one) for _ in range(6)]
    answers = Answers(model)
    short, other = answers.begin(61, 1), answers.begin(5, 2)
    for _ in range(5):
        answers.decoder.next(other)
    assert short.seat is None
    assert short.length == 64
    found = [answers.decoder.next(short) for _ in range(3)]
    with pytest.raises(ValueError, match="64 tokens has no slot"):
        answers.decoder.next(short)
    answers.decoder.extend(short, answers.pool.allocate(64))
    assert found + [answers.decoder.next(short) for _ in range(3)] == expected
