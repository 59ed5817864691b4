"""Ranges of host memory that a GPU's kernels use in place: reserved whole, taken and given back by spans of bytes.

    Plain        ordinary memory: Triton's interpreter, tests
    Managed      the driver moves nothing: it lives in host memory and the GPU reads it over the bus. The fastest; what
                 was taken once stays until `close`
    Registered   ordinary memory, pinned in chunks when they are first taken, given back when all of a chunk is free
    Pinned       allocated by the driver and taken at once, for systems where the GPU reaches no other (WSL2)

A span is [begin, end), in bytes from the range's beginning. Spans are taken when nobody holds them and given back when
somebody does: who holds what is the owner's to know.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from unabridged.engine.errors import EngineError
from unabridged.engine.gpu.driver import Driver

Span = tuple[int, int]

# Bytes that one thread touches at a time, and what is worth threads: an answer that grows should not wait for one.
_PIECE, _LITTLE = 4 << 20, 4 << 20
# Touching is the kernel's work, half a second a GiB on one thread; more than so many wait for each other.
_THREADS = 8
# Registering takes time and the driver's memory, a chunk as much as a page.
CHUNK = 8 << 20


class Range(Protocol):
    """See the module. `buffer`: all of it, for torch.frombuffer. `keeps`: what is given back is not returned to the
    machine before `close`."""

    buffer: Any
    keeps: bool

    def wanted(self, spans: Sequence[Span]) -> int:
        """Bytes of memory that taking these would take."""
        ...

    def take(self, spans: Sequence[Span]) -> None:
        """Have memory behind them, reachable for the GPU; zeros where there was none. Raises OutOfMemory or
        EngineUnavailable."""
        ...

    def give(self, spans: Sequence[Span]) -> None:
        """They may go back to the machine."""
        ...

    def close(self) -> None:
        """Give all of it back. Nobody may use it afterwards."""
        ...


class Pins(Protocol):
    """What Registered needs of the driver."""

    def register(self, address: int, size: int) -> None:
        """See Driver."""
        ...

    def unregister(self, address: int) -> None:
        """See Driver."""
        ...

    def synchronize(self) -> None:
        """See Driver."""
        ...


class Plain:
    """See the module."""

    keeps = False

    def __init__(self, size: int) -> None:
        self.buffer: Any = _reserved(size)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))

    def wanted(self, spans: Sequence[Span]) -> int:
        return _bytes(spans)

    def take(self, spans: Sequence[Span]) -> None:
        _touch(self._address, spans)

    def give(self, spans: Sequence[Span]) -> None:
        for begin, end in spans:
            first, last = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
            if last > first:
                self.buffer.madvise(mmap.MADV_DONTNEED, first, last - first)

    def close(self) -> None:
        # Tensors over it keep it alive.
        self.buffer = None


class _Allocated:
    """What the driver allocates whole and takes back whole."""

    keeps = True

    def __init__(self, size: int, address: int, free: Callable[[int], None]) -> None:
        self._address, self._free = address, free
        self.buffer: Any = (ctypes.c_char * size).from_address(address)

    def take(self, spans: Sequence[Span]) -> None:
        # By the host: a kernel that touches managed memory first stalls at every page.
        _touch(self._address, spans)

    def give(self, spans: Sequence[Span]) -> None:
        """The driver has no way to take a part back."""

    def close(self) -> None:
        self.buffer = None
        self._free(self._address)


class Managed(_Allocated):
    """See the module."""

    def __init__(self, size: int, driver: Driver) -> None:
        super().__init__(size, driver.allocate_managed(size), driver.free_managed)

    def wanted(self, spans: Sequence[Span]) -> int:
        return _bytes(spans)


class Registered:
    """See the module."""

    keeps = False

    def __init__(self, size: int, driver: Pins, spare: int, chunk: int = CHUNK) -> None:
        """`spare`: free chunks that stay pinned: the next who asks wants them. `chunk`: bytes, whole pages."""
        self._driver, self._spare, self._chunk = driver, spare, chunk
        self._size = -(-size // chunk) * chunk
        self.buffer: Any = _reserved(self._size)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        # Bytes of each pinned chunk that are held; the free ones, longest first.
        self._held: dict[int, int] = {}
        self._free: dict[int, None] = {}

    def wanted(self, spans: Sequence[Span]) -> int:
        return self._chunk * len(self._missing(spans))

    def take(self, spans: Sequence[Span]) -> None:
        missing = self._missing(spans)
        _touch(self._address, [(number * self._chunk, (number + 1) * self._chunk) for number in missing])
        for number in missing:
            try:
                self._driver.register(self._address + number * self._chunk, self._chunk)
            except EngineError:
                for bare in set(missing) - self._held.keys():
                    self._return(bare)
                raise
            self._held[number] = 0
            self._free[number] = None
        for number, size in self._parts(spans):
            self._held[number] += size
            self._free.pop(number, None)

    def give(self, spans: Sequence[Span]) -> None:
        for number, size in self._parts(spans):
            self._held[number] -= size
            if self._held[number] == 0:
                self._free[number] = None
        if len(self._free) > self._spare:
            self._driver.synchronize()
            while len(self._free) > self._spare:
                self._drop(next(iter(self._free)))

    def close(self) -> None:
        self._driver.synchronize()
        for number in list(self._held):
            self._drop(number)
        self.buffer = None

    def _drop(self, number: int) -> None:
        self._driver.unregister(self._address + number * self._chunk)
        self._return(number)
        del self._held[number]
        self._free.pop(number, None)

    def _return(self, number: int) -> None:
        self.buffer.madvise(mmap.MADV_DONTNEED, number * self._chunk, self._chunk)

    def _missing(self, spans: Sequence[Span]) -> list[int]:
        return sorted({number for number, _ in self._parts(spans)} - self._held.keys())

    def _parts(self, spans: Sequence[Span]) -> Iterable[tuple[int, int]]:
        """The chunks that the spans touch, and by how many bytes."""
        for begin, end in spans:
            for number in range(begin // self._chunk, -(-end // self._chunk)):
                first = max(begin, number * self._chunk)
                yield number, min(end, (number + 1) * self._chunk) - first


class Pinned(_Allocated):
    """See the module."""

    def __init__(self, size: int, driver: Driver) -> None:
        super().__init__(size, driver.allocate_pinned(size), driver.free_pinned)

    def wanted(self, spans: Sequence[Span]) -> int:
        return 0


def _reserved(size: int) -> mmap.mmap:
    # MAP_NORESERVE (0x4000 on Linux; Python 3.11 has no name for it): address space now, memory at the first write.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)


def _bytes(spans: Sequence[Span]) -> int:
    return sum(end - begin for begin, end in spans)


def _touch(address: int, spans: Sequence[Span]) -> None:
    """Zeros, from several threads: memory appears where it is written."""
    pieces = [(at, min(end, at + _PIECE)) for begin, end in spans for at in range(begin, end, _PIECE)]

    def zero(piece: Span) -> None:
        ctypes.memset(address + piece[0], 0, piece[1] - piece[0])

    threads = min(_THREADS, len(os.sched_getaffinity(0)))
    if threads == 1 or _bytes(spans) < _LITTLE:
        for piece in pieces:
            zero(piece)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="kv memory") as workers:
        for _ in workers.map(zero, pieces):
            pass
