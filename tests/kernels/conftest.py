"""Kernel tests run on the GPU where there is one, in Triton's interpreter otherwise (tests/conftest.py)."""

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> str:
    """Where the tensors of a kernel test live."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` skip where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
