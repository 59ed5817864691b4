"""Kernel tests run on the GPU where there is one, in Triton's interpreter otherwise."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def device() -> str:
    """Where the tensors of a kernel test live."""
    return "cuda" if torch.cuda.is_available() else "cpu"
