"""A tensor in host memory that a GPU's kernels read and write in place, at its own address.

Address space is reserved whole; memory is taken slot by slot, when it is asked for and after a look at what the machine
has free: an error in one line instead of a killed process. Which kind of memory, host_ranges says.
"""

import math
import weakref
from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from unabridged.engine.gpu.driver import CONCURRENT_MANAGED_ACCESS, HOST_POINTER_FOR_REGISTERED, Driver
from unabridged.engine.gpu.host_ranges import Managed, Pinned, Plain, Range, Registered, Span
from unabridged.engine.kv import memory

HostPlace = Literal["managed", "pinned", "plain"]
# Where a pool may lie.
Place = Literal["device", "managed", "pinned", "plain"]
# Compute capabilities where more managed memory than the card has free may hang it: an H200 did.
_HANGS = (9,)


class HostMemory:
    """`tensor` `[planes, slots, ...]`; a slot lies in every plane. The first slot is taken at once and stays: kernels
    read it for rows without a sequence, and Triton asks the driver for the address of a plane by its first byte."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, place: HostPlace, device: torch.device) -> None:
        """Raises OutOfMemory or EngineUnavailable. `device` does not matter for plain memory."""
        self._planes, self._slots = shape[:2]
        self._slot_bytes = math.prod(shape[2:]) * dtype.itemsize
        size = math.prod(shape) * dtype.itemsize
        self._range = _reserve(size, place, device, self._planes)
        # A range that is forgotten stays pinned, and the next one at its address could not be. A process that ends
        # gives everything back by itself.
        self._finalize = weakref.finalize(self, self._range.close)
        self._finalize.atexit = False
        flat = torch.frombuffer(self._range.buffer, dtype=torch.uint8, count=size)
        self.tensor = flat.view(dtype).view(shape)
        self._held = np.zeros(self._slots, dtype=bool)
        self.commit(0, 1)

    def check(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Raises OutOfMemory where the machine has not what `commit` of all these [first, last) would take."""
        memory.require(self._range.wanted([span for one in ranges for span in self._missing(*one)]))

    def commit(self, first: int, last: int) -> None:
        """Have memory behind slots first..last-1 of every plane; what has some keeps it. Raises OutOfMemory before the
        machine is short, and takes nothing."""
        spans = self._missing(first, last)
        memory.require(self._range.wanted(spans))
        self._range.take(spans)
        self._held[first:last] = True

    def release(self, first: int, last: int) -> None:
        """Their contents are not wanted any more: the memory goes back to the machine where it can (host_ranges)."""
        first = max(first, 1)
        if not self._range.keeps:
            self._range.give(self._spans(self._held[first:last], first))
            self._held[first:last] = False

    def close(self) -> None:
        """Give all of it back. The tensor must not be used afterwards."""
        self.tensor = torch.zeros(0)
        self._finalize()

    def _missing(self, first: int, last: int) -> list[Span]:
        return self._spans(~self._held[first:last], first)

    def _spans(self, which: npt.NDArray[np.bool_], first: int) -> list[Span]:
        """Bytes of the slots that `which` says, of every plane."""
        size, plane = self._slot_bytes, self._slots * self._slot_bytes
        runs = list(_runs(which))
        return [
            (number * plane + (first + begin) * size, number * plane + (first + end) * size)
            for number in range(self._planes)
            for begin, end in runs
        ]


def best_place(device: torch.device, size: int = 0) -> HostPlace:
    """The quickest memory for `size` bytes that this device uses in place: managed where host and GPU may use it at the
    same time, pinned elsewhere; plain without a GPU. Raises EngineUnavailable."""
    if device.type != "cuda":
        return "plain"
    if not Driver(_number(device)).attribute(CONCURRENT_MANAGED_ACCESS):
        return "pinned"
    hangs = torch.cuda.get_device_capability(device)[0] in _HANGS
    return "pinned" if hangs and size > torch.cuda.mem_get_info(device)[0] else "managed"


def _reserve(size: int, place: HostPlace, device: torch.device, planes: int) -> Range:
    if place == "plain":
        return Plain(size)
    driver = Driver(_number(device))
    if place == "managed":
        return Managed(size, driver)
    if driver.attribute(HOST_POINTER_FOR_REGISTERED):
        return Registered(size, driver, spare=planes)
    memory.require(size)
    return Pinned(size, driver)


def _number(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def _runs(which: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """[begin, end) of each run of True."""
    edges = np.flatnonzero(np.diff(which, prepend=False, append=False)).tolist()
    return zip(edges[::2], edges[1::2], strict=True)
