"""The plan's sizes beside what is built: all of an 8B model's shapes, as tensors without memory."""

from dataclasses import replace

import pytest
import torch
from tests.kernels import meta
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig, choose
from unabridged.engine.attention.device import DecodeAttention
from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.limits import CONTEXTS, width_of
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.banks import Banks
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.resident import BankMemory, Whole
from unabridged.engine.gpu.staging import Staging
from unabridged.engine.gpu.steps import unindexed
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.plan import workspace
from unabridged.engine.plan.kv import Kv
from unabridged.engine.plan.workspace import Workspace
from unabridged.models.config import ModelConfig
from unabridged.models.quantisation import quantisation_of

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
FP8 = torch.float8_e4m3fn


def held(*roots: object) -> dict[int, int]:
    """Bytes of every tensor's memory that these hold, by its address."""
    seen: set[int] = set()
    out: dict[int, int] = {}
    stack = [*roots]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Tensor):
            out[one.untyped_storage()._cdata] = one.untyped_storage().nbytes()
        elif isinstance(one, dict):
            stack += one.values()
        elif isinstance(one, list | tuple):
            stack += one
        elif hasattr(one, "__dict__"):
            stack += vars(one).values()
    return out


class Built:
    """A pool of an 8B model and what works on it, all on the device "meta"."""

    def __init__(self, tokens: int, preset: str, dense_below: int) -> None:
        indexed = preset.endswith("index")
        self.kv = Kv.of(LLAMA, "float8_e4m3fn", indexed)
        numbers = meta.empty(8, 128, 4 * width_of(128))
        basis = Basis(meta.empty(8, 128), numbers, numbers, meta.empty(8, 4 * width_of(128)))
        each = self.kv.token + self.kv.codes
        self.pool = GpuPool(32, 8, 128, tokens * each, FP8, "meta", [basis] * 32 if indexed else [])
        self.tokens, chosen = tokens, choose(AttentionChoice(preset=preset), LLAMA.window, indexed)
        self.config: AttentionConfig = replace(chosen, dense_below=dense_below)
        self.rope = RopeTables.of(torch.ones(64), tokens + 64, "meta")

    def beside(self, made: object) -> int:
        """Bytes that it holds and the pool does not."""
        known = held(self.pool, self.rope)
        return sum(size for place, size in held(made).items() if place not in known)

    def decoding(self, slots: int) -> int:
        """Of the attention of all batches' steps."""
        total = 0
        for dense in (True, False):
            for rows in (1, slots) if slots > 1 else (1,):
                tables = Tables(rows, 8, self.tokens, "meta")
                config = unindexed(self.config) if dense else self.config
                caches = self.pool.caches(tables)
                made = DecodeAttention(config, 32, caches, self.rope, "dense" if dense else "sparse")
                total += self.beside(made) - self.beside(tables)
        return total


@pytest.mark.parametrize(
    ("tokens", "preset", "slots", "below"),
    [(1 << 20, "3k-index", 1, 8192), (1 << 18, "3k-index", 8, 131072), (1 << 20, "3k", 2, 8192)],
    ids=["a long context in the host", "several answers on the GPU", "tournaments"],
)
def test_sizes_are_those_of_what_is_built(tokens: int, preset: str, slots: int, below: int) -> None:
    built = Built(tokens, preset, below)
    planned = Workspace.of(LLAMA, built.config, 2, built.kv.layer_codes, slots, 4096, tokens)
    assert built.pool.slots == tokens
    assert sum(held(built.pool).values()) == pytest.approx(tokens * (built.kv.token + built.kv.codes), rel=1e-4)
    tables = Tables(CONTEXTS, 8, tokens, "meta")
    attention = PrefillAttention(built.config, 32, built.pool.caches(tables), built.rope)
    scores = built.beside(attention) - built.beside(tables)
    # Lists of what a pass keeps come and go; the plan counts them.
    assert 0.93 * planned.scores <= scores <= planned.scores
    assert 0.5 * planned.decoding <= built.decoding(slots) <= planned.decoding
    rows = workspace.rows(slots)
    several = sum(built.beside(Tables(count, 8, tokens, "meta")) for count in (CONTEXTS, 1, *([slots] * 2)[: rows - 1]))
    assert workspace.tables(LLAMA, slots, tokens) == pytest.approx(several, rel=1e-3)


@pytest.mark.parametrize("slots", [1, 4])
def test_banks_take_what_the_plan_says(slots: int) -> None:
    built = Built(1 << 20, "3k-index", 8192)
    memory = BankMemory(built.pool, BankRoom.of(built.config, 32, slots, built.tokens))
    kinds = [(count, dense) for count in ({1, slots}) for dense in (True, False)]
    tables = {count: Tables(count, 8, built.tokens, "meta") for count, _ in kinds}
    made = [(Whole if dense else Banks)(built.pool, tables[count], memory) for count, dense in kinds]
    total = built.beside(made) - sum(map(built.beside, tables.values()))
    room = memory.room
    assert built.beside(memory) == room.bytes(32, 8, 128, 1)
    assert total - built.beside(memory) == pytest.approx(room.tables_bytes(32, 8, built.tokens), rel=0.05)


def test_staging_takes_what_the_plan_says() -> None:
    built = Built(1 << 17, "3k", 8192)
    staging = Staging(built.pool, CONTEXTS, 1 << 17)
    assert built.beside(staging) == built.kv.staging(CONTEXTS, 1 << 17)


def test_activations_are_those_that_were_measured() -> None:
    # Of Llama 3.1 8B in 4 bits on an H200, behind 1M tokens, MiB at most: 432, 1,184 and 1,696, while two runs of a
    # gated product lived at a time: with 96 and 192 MiB more than now.
    config = replace(LLAMA, quantisation=quantisation_of({"quantization_config": {"quant_method": "awq"}}))
    below = Built(1 << 20, "3k-index", 0).config
    for piece, measured in ((4096, 432 - 96), (16384, 1184 - 192), (32768, 1696 - 192)):
        planned = Workspace.of(config, below, 2, 136, 1, piece, 1 << 20).activations
        assert planned / (1 << 20) == pytest.approx(measured, rel=0.01)


def test_what_a_context_inside_the_window_takes_for_a_moment_is_counted() -> None:
    built = Built(1 << 18, "3k-index", 131072)
    planned = Workspace.of(LLAMA, built.config, 2, built.kv.layer_codes, 8, 4096, 1 << 18)
    keys = meta.empty(8, 131072, 128, dtype=torch.float16)
    assert planned.rotated == 2 * keys.nbytes == 512 << 20
    assert planned.dequantised == 128 << 20
