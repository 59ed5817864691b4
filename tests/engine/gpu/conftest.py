"""Engine tests of the GPU run on it where there is one, in Triton's interpreter otherwise (tests/conftest.py)."""

from tests.kernels.conftest import device, pytest_collection_modifyitems

__all__ = ["device", "pytest_collection_modifyitems"]
