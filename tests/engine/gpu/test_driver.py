"""Calls to the GPU's driver: in the device's context, and errors that say which call failed and what to do."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch

from unabridged.engine.errors import EngineUnavailable, OutOfMemory
from unabridged.engine.gpu.driver import CONCURRENT_MANAGED_ACCESS, Driver

NAMES = {2: b"CUDA_ERROR_OUT_OF_MEMORY", 801: b"CUDA_ERROR_NOT_SUPPORTED"}


class Library:
    """Stands for libcuda.so.1: notes the calls, fails where it is told to."""

    def __init__(self, failing: dict[str, int]) -> None:
        self.calls: list[str] = []
        self._failing = failing

    def cuGetErrorName(self, code: ctypes.c_int, name: Any) -> int:
        name._obj.value = NAMES[code.value]
        return 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        def call(*arguments: object) -> int:
            self.calls.append(name)
            return self._failing.get(name, 0)

        return call


def opened(monkeypatch: pytest.MonkeyPatch, **failing: int) -> tuple[Driver, Library]:
    library = Library(failing)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return Driver(0), library


def test_calls_run_in_the_devices_context_and_leave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, library = opened(monkeypatch)
    assert library.calls == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]
    library.calls.clear()
    driver.allocate_managed(1 << 20)
    assert library.calls[0] == "cuCtxPushCurrent_v2"
    assert library.calls[1:4] == ["cuMemAllocManaged", "cuMemAdvise", "cuMemAdvise"]
    assert library.calls[-1] == "cuCtxPopCurrent_v2"
    library.calls.clear()
    driver.free_managed(4096)
    assert library.calls[1:3] == ["cuCtxSynchronize", "cuMemFree_v2"]


def test_an_error_names_the_call_the_code_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, library = opened(monkeypatch, cuMemHostRegister_v2=2, cuMemAdvise=801)
    with pytest.raises(OutOfMemory, match=r"cuMemHostRegister_v2 .* CUDA_ERROR_OUT_OF_MEMORY \(2\)") as short:
        driver.register(4096, 4096)
    assert "engine.kv_memory_mib" in short.value.hint
    assert library.calls[-1] == "cuCtxPopCurrent_v2"
    with pytest.raises(EngineUnavailable, match=r"cuMemAdvise .* CUDA_ERROR_NOT_SUPPORTED \(801\)") as other:
        driver.allocate_managed(4096)
    assert "engine.place gpu" in other.value.hint
    # What was allocated before is given back.
    assert library.calls[-2:] == ["cuMemFree_v2", "cuCtxPopCurrent_v2"]


def test_a_missing_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(EngineUnavailable, match=r"libcuda\.so\.1"):
        Driver(0)


@pytest.mark.gpu
def test_the_real_driver_answers() -> None:
    assert Driver(torch.cuda.current_device()).attribute(CONCURRENT_MANAGED_ACCESS) in (0, 1)
