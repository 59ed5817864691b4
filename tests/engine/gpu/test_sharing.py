"""How the GPU's time and memory are divided."""

from dataclasses import fields

import pytest
import torch
from tests.kernels import meta

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.index import Index
from unabridged.engine.attention.kernels.index_gather import room
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.memory import LEAST_TOKENS, TokenBytes, Workspace, pool_bytes
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
TOKEN = TokenBytes.of(LLAMA, torch.float8_e4m3fn, ())


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
    assert sum(getattr(workspace, part.name) for part in fields(workspace)) == workspace.total < 7 << 29
    free = int(24e9 - 5.7e9 - 0.6e9)
    assert TOKEN.total == 2 * 32 * 8 * 128
    assert pool_bytes(free, workspace, TOKEN) // TOKEN.total > 200_000


def test_what_a_context_inside_the_window_takes_for_a_moment_is_counted() -> None:
    workspace = Workspace.of(LLAMA, 8, 4096)
    keys = meta.empty(8, 131072, 128, dtype=torch.float16)
    assert workspace.rotated == 2 * keys.nbytes == 512 << 20
    masses = meta.empty(32, 32, 131072 // PAGE)
    assert workspace.looks >= 2 * masses.nbytes + masses.numel()
    assert workspace.dequantised == 128 << 20


def test_a_context_that_fills_the_pool_has_room_for_its_codes_in_order() -> None:
    numbers = meta.empty(8, 128, 64)
    basis = Basis(meta.empty(8, 128), numbers, numbers, meta.empty(8, 64))
    token, workspace = TokenBytes.of(LLAMA, torch.float8_e4m3fn, [basis] * 32), Workspace.of(LLAMA, 8, 4096)
    tokens = 1 << 20
    index = Index.empty(tokens // PAGE, meta.empty(1, tokens // PAGE, dtype=torch.int32), basis)
    copy = room(index)
    assert copy.codes.numel() + copy.scales.numel() == token.copied * tokens == 142_606_336
    assert token.pool == TOKEN.pool + 32 * token.copied
    assert pool_bytes(workspace.total + tokens * token.total, workspace, token) == tokens * token.pool


def test_too_little_memory_is_told_with_the_numbers() -> None:
    workspace = Workspace.of(LLAMA, 8, 4096)
    with pytest.raises(
        OutOfMemory, match=rf"1,000 bytes free.*{workspace.total + LEAST_TOKENS * TOKEN.total:,} are needed"
    ):
        pool_bytes(1000, workspace, TOKEN)
