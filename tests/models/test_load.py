"""Loading says what it took, keeps what it was asked to keep, and holds no more in memory than it must."""

from pathlib import Path

import pytest
import torch
from benchmarks.checkpoint import Format, write
from tests.models.conftest import TinyLlama
from tests.models.test_llama import ours

from unabridged.models.embedding import Int8Table, Table
from unabridged.models.int8 import Int8Linear
from unabridged.models.linear import Dense
from unabridged.models.load import load, load_model
from unabridged.models.quantised import Quantised

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


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["gemm", "compressed"])
def test_a_4_bit_model_of_the_kernels_is_the_dequantised_one(tmp_path: Path, device: str, form: Format) -> None:
    write(tmp_path / "made", form=form)
    quantised, _ = load(tmp_path / "made", torch.float16, device=device, kernels=True)
    plain, _ = load(tmp_path / "made", torch.float16, device=device, kernels=False)
    assert isinstance(quantised.layers[0].qkv, Quantised)
    ids = torch.randint(0, 500, (3 if form == "gemm" else 18,), generator=torch.Generator().manual_seed(4)).to(device)
    found, wanted = (model.step(ids, Values(model.config.group)) for model in (quantised, plain))
    assert (found - wanted).float().norm() < 0.01 * wanted.float().norm()


class Values:
    """In place of attention, which has tests of its own: each token attends to itself."""

    def __init__(self, group: int) -> None:
        self._group = group

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return v.repeat_interleave(self._group, 1)
