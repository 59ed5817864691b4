"""The CUDA driver where torch does not reach: memory that the host and a GPU share. By ctypes, no CUDA toolkit.

Calls run in the device's primary context, which is torch's too, from whatever thread they come. An error names the
call, the driver's code and the way out.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from unabridged.engine.errors import EngineError, EngineUnavailable, OutOfMemory

_LIBRARY = "libcuda.so.1"
# CUdevice_attribute
CONCURRENT_MANAGED_ACCESS = 89
HOST_POINTER_FOR_REGISTERED = 91
# CUmem_advise, and the device number that stands for the host.
_PREFERRED_LOCATION, _ACCESSED_BY, _HOST = 3, 5, -1
_ATTACH_GLOBAL = 1
# Host memory that kernels reach: CU_MEMHOSTALLOC_DEVICEMAP and CU_MEMHOSTREGISTER_DEVICEMAP.
_MAPPED = 2
_OUT_OF_MEMORY = 2


class Driver:
    """One GPU's. Raises OutOfMemory where memory is short and EngineUnavailable where a call fails otherwise."""

    def __init__(self, number: int) -> None:
        """`number`: the device's, as torch counts them."""
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise EngineUnavailable(f"the GPU's driver cannot be loaded: {error}", _WAY_OUT) from error
        self._device, self._context = c_int(), c_void_p()
        self._call("cuInit", c_uint(0))
        self._call("cuDeviceGet", byref(self._device), c_int(number))
        self._call("cuDevicePrimaryCtxRetain", byref(self._context), self._device)

    def attribute(self, number: int) -> int:
        """A property of the device, by the driver's number for it."""
        value = c_int()
        self._call("cuDeviceGetAttribute", byref(value), c_int(number), self._device)
        return value.value

    def allocate_managed(self, size: int) -> int:
        """The address of `size` bytes that live in host memory and that the GPU reads and writes in place. Reserved:
        memory is taken where it is first touched."""
        address = c_uint64()
        with self._current():
            self._call("cuMemAllocManaged", byref(address), c_size_t(size), c_uint(_ATTACH_GLOBAL))
            try:
                # The first form of the call: later ones take a struct, and drivers keep this one.
                for advice, where in ((_PREFERRED_LOCATION, c_int(_HOST)), (_ACCESSED_BY, self._device)):
                    self._call("cuMemAdvise", address, c_size_t(size), c_int(advice), where)
            except EngineError:
                self._call("cuMemFree_v2", address)
                raise
        return address.value

    def free_managed(self, address: int) -> None:
        """Give it back. Waits for the GPU."""
        with self._current():
            self._call("cuCtxSynchronize")
            self._call("cuMemFree_v2", c_uint64(address))

    def allocate_pinned(self, size: int) -> int:
        """The address of `size` bytes of host memory that the GPU reaches, all taken at once."""
        address = c_void_p()
        with self._current():
            self._call("cuMemHostAlloc", byref(address), c_size_t(size), c_uint(_MAPPED))
        return address.value or 0

    def free_pinned(self, address: int) -> None:
        """Give it back. Waits for the GPU."""
        with self._current():
            self._call("cuCtxSynchronize")
            self._call("cuMemFreeHost", c_void_p(address))

    def register(self, address: int, size: int) -> None:
        """Pin whole pages of host memory, so that the GPU reaches them at their own address."""
        with self._current():
            self._call("cuMemHostRegister_v2", c_void_p(address), c_size_t(size), c_uint(_MAPPED))

    def unregister(self, address: int) -> None:
        """Let registered pages go. The GPU has ended what used them (`synchronize`)."""
        with self._current():
            self._call("cuMemHostUnregister", c_void_p(address))

    def synchronize(self) -> None:
        """Wait until the GPU has done all that was queued."""
        with self._current():
            self._call("cuCtxSynchronize")

    @contextmanager
    def _current(self) -> Iterator[None]:
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code == 0:
            return
        text = c_char_p()
        self._library.cuGetErrorName(c_int(code), byref(text))
        message = f"{name} of the GPU's driver failed: {(text.value or b'an unknown error').decode()} ({code})"
        if code == _OUT_OF_MEMORY:
            raise OutOfMemory(message, "close other programs, or lower engine.kv_memory_mib")
        raise EngineUnavailable(message, _WAY_OUT)


_WAY_OUT = "check the driver with nvidia-smi; unabridged config set engine.place gpu keeps KV in the GPU's own memory"
