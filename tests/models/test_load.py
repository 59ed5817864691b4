"""Loading says what it took, keeps what it was asked to keep, and holds no more in memory than it must."""

from pathlib import Path

import pytest
import torch
from benchmarks.checkpoint import write
from tests.models.conftest import TinyLlama
from tests.models.test_llama import ours

from unabridged.models.embedding import Int8Table, Table
from unabridged.models.int8 import Int8Linear
from unabridged.models.linear import Dense
from unabridged.models.load import load, load_model

IDS = torch.arange(60)


@pytest.mark.parametrize("tied", [False, True])
def test_embedding_and_head_in_int8(tiny_llama: TinyLlama, tied: bool) -> None:
    folder, _ = tiny_llama(tie_word_embeddings=tied)
    exact, small = load_model(folder), load_model(folder, head_bits=8)
    assert isinstance(small.embedding, Int8Table)
    assert isinstance(small.head, Int8Linear)
    assert (small.head.weight is small.embedding.rows) == tied
    assert (small.dtype, small.device) == (exact.dtype, exact.device)
    wanted, found = ours(exact, IDS, 60), ours(small, IDS, 60)
    assert not torch.equal(found, wanted)
    assert (found - wanted).norm() < 0.02 * wanted.norm()


def test_what_it_took_is_told(tiny_llama: TinyLlama) -> None:
    folder, reference = tiny_llama()
    model, report = load(folder)
    assert report.read == 4 * reference.num_parameters()
    assert report.seconds > 0
    assert report.device == report.device_peak == 0
    assert report.host_peak > report.read
    assert isinstance(model.embedding, Table)


def test_bfloat16_becomes_float32_on_the_cpu_unless_asked(tiny_llama: TinyLlama) -> None:
    folder, reference = tiny_llama()
    reference.bfloat16().save_pretrained(folder)
    assert load_model(folder).dtype == torch.float32
    assert load_model(folder, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_on_a_gpu_a_checkpoint_keeps_its_type(tiny_llama: TinyLlama, dtype: torch.dtype) -> None:
    folder, reference = tiny_llama()
    reference.to(dtype).save_pretrained(folder)
    model = load_model(folder, device="cuda")
    assert model.dtype == model.layers[0].attention_norm.weight.dtype == dtype
    assert isinstance(model.layers[0].qkv, Dense)


@pytest.mark.gpu
def test_on_a_gpu_loading_needs_little_more_than_the_model(tmp_path: Path) -> None:
    write(tmp_path / "made")
    before = torch.cuda.memory_allocated()
    model, report = load(tmp_path / "made", device="cuda")
    whole = 2 * model.config.intermediate * model.config.hidden
    assert report.device_peak - report.device < 8 * whole
    # 4 bits and their scales, and 16 bits of embedding and head.
    assert report.device - before < 1.5 * report.read
