"""Prompts in GPU memory: pieces and several sequences of a pass give what each alone gives on the CPU."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tests.engine.gpu.test_batch import CONFIG, ROOM, WINDOW, Models, prompt
from tests.engine.tiny import save_tiny
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.models.rope import inv_freq

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, device: str) -> Models:
    return Models.load(save_tiny(tmp_path_factory.mktemp("models") / "tiny", WINDOW, dim=64), device)


def on_the_cpu(models: Models, config: AttentionConfig, ids: Sequence[int]) -> Tensor:
    """The last token's hidden row."""
    model, shape = models.cpu, models.cpu.config
    pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, 16 << 20, torch.float32)
    context = Context(pool, [], pool.allocate(len(ids)))
    sizes = Shape(shape.layers, shape.heads, shape.kv_heads, shape.head_dim)
    attention = ContextAttention(context, config, sizes, Rotary(inv_freq(shape)))
    hidden, at = torch.zeros(0), 0
    while at < len(ids):
        tokens = attention.fits(len(ids) - at)
        attention.begin(tokens)
        hidden = model.forward(torch.tensor(ids[at : at + tokens]), attention)
        attention.end()
        at += tokens
    return hidden[-1]


def made(models: Models, config: AttentionConfig, rows: int) -> tuple[GpuPool, Prefill]:
    model, shape = models.own, models.own.config
    pool = GpuPool(shape.layers, shape.kv_heads, shape.head_dim, 4 << 20, torch.float32, model.device)
    return pool, Prefill(model, config, pool, rows, ROOM)


def assert_close(found: Tensor, expected: Tensor) -> None:
    # Tensor cores round to 11 bits.
    assert (found.cpu() - expected).norm() <= (2e-2 if found.is_cuda else 1e-3) * expected.norm()


def test_documents_behind_one_prefix_are_read_together(model: Models) -> None:
    prefix, documents = prompt(32, 1), [prompt(20, 2), prompt(35, 3)]
    pool, prefill = made(model, CONFIG, 3)
    before = pool.allocate(32)
    prefill.put(0, before)
    prefill.read([Part(0, 0, prefix)])
    for row, document in enumerate(documents, 1):
        prefill.put(row, [*before, *pool.allocate(len(document))])
    # Pieces of different sequences, the second one's in two passes.
    prefill.read([Part(2, 32, documents[1][:10])])
    found = prefill.read([Part(1, 32, documents[0]), Part(2, 42, documents[1][10:])])
    assert prefill.taken() == []
    for hidden, document in zip(found, documents, strict=True):
        assert_close(hidden, on_the_cpu(model, CONFIG, [*prefix, *document]))


@pytest.mark.thorough
def test_a_prompt_past_the_window_selects(model: Models) -> None:
    ids = prompt(280, 4)
    pool, prefill = made(model, CONFIG, 1)
    prefill.put(0, pool.allocate(len(ids)))
    for at in range(0, len(ids), 192):
        hidden = prefill.read([Part(0, at, ids[at : at + 192])])
    assert_close(hidden[0], on_the_cpu(model, CONFIG, ids))
    assert [one.limit for one in prefill.taken()] == [192, 192]
    assert 0 < prefill.coverage() < 1
    dense = on_the_cpu(model, replace(CONFIG, dense_below=ROOM, window=ROOM), ids)
    assert (hidden[0].cpu() - dense).norm() > 0.01 * dense.norm()


def test_a_part_needs_slots(model: Models) -> None:
    pool, prefill = made(model, CONFIG, 1)
    prefill.put(0, pool.allocate(30))
    with pytest.raises(ValueError, match="row 0 has 30 slots for 31 tokens"):
        prefill.read([Part(0, 0, prompt(31, 0))])
