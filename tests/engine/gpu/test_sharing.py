"""How the GPU's time and memory are divided."""

from dataclasses import fields

import pytest

from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.memory import LEAST_TOKENS, Workspace, pool_bytes
from unabridged.engine.gpu.pace import Pace
from unabridged.models.config import ModelConfig

LLAMA = ModelConfig.from_hf(
    {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
    }
)
TOKEN = 2 * 32 * 8 * 128


def test_reading_and_answering_get_half_of_the_time_each() -> None:
    pace, reading, answering = Pace(), 0.0, 0.0
    for _ in range(200):
        if pace.reads(decoding=True):
            pace.read(0.06, decoding=True)
            reading += 0.06
        pace.decoded(0.008)
        answering += 0.008
    assert 0.4 < reading / (reading + answering) < 0.6


def test_reading_alone_owes_nothing() -> None:
    pace = Pace()
    pace.read(5.0, decoding=False)
    assert pace.reads(decoding=True)
    pace.read(5.0, decoding=True)
    assert not pace.reads(decoding=True)
    assert pace.reads(decoding=False)


def test_a_small_card_has_room_for_a_long_context_beside_an_8b_model() -> None:
    workspace = Workspace.of(LLAMA, 8, 4096)
    assert sum(getattr(workspace, part.name) for part in fields(workspace)) == workspace.total < 3 << 30
    free = int(24e9 - 5.7e9 - 0.6e9)
    assert pool_bytes(free, workspace, TOKEN) // TOKEN > 200_000


def test_too_little_memory_is_told_with_the_numbers() -> None:
    workspace = Workspace.of(LLAMA, 8, 4096)
    with pytest.raises(OutOfMemory, match=rf"1,000 bytes free.*{workspace.total + LEAST_TOKENS * TOKEN:,} are needed"):
        pool_bytes(1000, workspace, TOKEN)
