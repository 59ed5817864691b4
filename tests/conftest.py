"""Shared fixtures: where the real data and the real model lie, and outputs filled with NaN.

Tests that need data which is not in the repository skip without it and say so; tests that need the default model do not
skip: `make test` installs it.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Tensors of tests are tiny: on a busy machine a second thread made them ten times as slow. Set before torch loads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

# Kernels run on the GPU where there is one, in Triton's interpreter otherwise. Set before
# Triton loads, whoever loads it.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real PDFs, mail and text beside the checkout (UNABRIDGED_TEST_DATA)."""
    folder = Path(os.environ.get("UNABRIDGED_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"needs the test data: no folder {folder} (set UNABRIDGED_TEST_DATA)")
    return folder


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Where `make test` installs the default model (UNABRIDGED_TEST_MODELS)."""
    return Path(os.environ.get("UNABRIDGED_TEST_MODELS", ROOT / ".cache" / "models"))


@pytest.fixture(scope="session")
def smollm2(models_dir: Path) -> Path:
    """The installed SmolLM2-135M-Instruct."""
    folder = models_dir / "smollm2-135m"
    if not folder.is_dir():
        pytest.fail(f"the default model is not installed in {folder}: run `make model`")
    return folder


@pytest.fixture
def nan_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.empty` and `empty_like` give NaN: whatever a function leaves unwritten shows."""
    import torch

    real_empty, real_like = torch.empty, torch.empty_like

    def fill(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", lambda *a, **k: fill(real_empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: fill(real_like(*a, **k)))
