"""Where the torch engine computes when there is no GPU. With one the GPU's own tests run."""

from pathlib import Path

import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.app.assembly import worker_backend
from unabridged.app.settings import EngineSettings, Settings
from unabridged.engine import choice
from unabridged.engine.errors import EngineUnavailable, OutOfMemory
from unabridged.engine.generate import TorchBackend
from unabridged.engine.options import EngineOptions

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")


def test_without_a_gpu_auto_takes_the_cpu_and_has_nothing_to_remark(tmp_path: Path) -> None:
    backend = choice.load(save_tiny(tmp_path / "tiny"), EngineOptions(threads=1, kv_bytes=1 << 20))
    assert isinstance(backend, TorchBackend)
    ready = backend.ready()
    assert (ready.device, ready.notes, backend.slots) == ("cpu", (), 1)


def test_a_gpu_that_is_asked_for_and_not_there_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"CPU only|no CUDA device") as error:
        choice.load_gpu(tmp_path, EngineOptions())
    assert error.value.hint


def test_a_gpu_that_is_not_used_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    ready = choice.load(save_tiny(tmp_path / "tiny"), EngineOptions(threads=1, kv_bytes=1 << 20)).ready()
    assert ready.device == "cpu"
    assert ready.notes[0].startswith("the GPU is not used: Tesla T4 has compute capability 7.5")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that can, as far as torch says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA GeForce RTX 4090")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (23 << 30, 24 << 30))


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(("cc", "why"), [(None, "Failed to find C compiler"), ("/nowhere/cc", "/nowhere/cc")])
def test_without_a_c_compiler_the_gpu_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cc: str | None, why: str
) -> None:
    # Triton asks for the driver's library first.
    monkeypatch.setenv("TRITON_LIBCUDA_PATH", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    if cc is not None:
        monkeypatch.setenv("CC", cc)
    with pytest.raises(EngineUnavailable, match=f"^Triton does not start: .*{why}.*apt install gcc"):
        choice.load_gpu(tmp_path, EngineOptions())


@pytest.mark.usefixtures("card")
def test_a_gpu_that_others_fill_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 112.00 MiB.")

    monkeypatch.setattr(choice, "check_gpu", lambda: None)
    monkeypatch.setattr("unabridged.engine.gpu.backend.load", full)
    model, options = save_tiny(tmp_path / "tiny"), EngineOptions(threads=1, kv_bytes=1 << 20)
    with pytest.raises(OutOfMemory, match="does not hold tiny"):
        choice.load_gpu(model, options)
    ready = choice.load(model, options).ready()
    assert ready.device == "cpu"
    assert ready.notes[0].startswith("the GPU is not used: the GPU's memory does not hold tiny")


@pytest.mark.usefixtures("card")
def test_what_was_asked_of_the_gpu_and_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "check_gpu", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 20, 24 << 30))
    model, options = save_tiny(tmp_path / "tiny"), EngineOptions(threads=1, kv_bytes=1 << 20)
    assert choice.load(model, options).ready().notes[0].startswith("the GPU is not used: 64 tokens of tiny need")
    with pytest.raises(OutOfMemory, match="4,096 tokens of tiny need"):
        choice.load(model, EngineOptions(threads=1, context_tokens=4096))


def test_eight_bits_are_for_gpus(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="float8_e4m3fn"):
        TorchBackend(tmp_path, EngineOptions(kv_dtype="float8_e4m3fn"))


@pytest.mark.parametrize(
    ("backend", "device", "named"),
    [
        ("torch", "auto", "auto"),
        ("torch", "cpu", "torch"),
        ("torch", "cuda", "cuda"),
        ("llama-cpp", "cuda", "llama-cpp"),
    ],
)
def test_settings_name_the_workers_backend(backend: str, device: str, named: str) -> None:
    engine = EngineSettings.model_validate({"backend": backend, "device": device})
    assert worker_backend(Settings(engine=engine)) == named
