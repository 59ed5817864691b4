"""Segments' KV between pool and disk, one file a segment, so that a text is read once in its life.

Files (`format`) lie in a folder (`folder`). Reading goes straight into the pool where the host reaches it, and no byte
counts before the file's checksum is seen to be right: a file that is not exactly right is deleted and never used. The
store knows keys and bytes, not tokens or models. Any thread may use it; pools want their own.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unabridged import __version__
from unabridged.engine.errors import StoreError
from unabridged.engine.kv.blocks import Pool, Run, packed_bytes
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import (
    MAGIC,
    PAGE,
    PIECE,
    Checksum,
    Damaged,
    Header,
    Stopped,
    file_bytes,
    read_header,
    read_into,
)
from unabridged.engine.kv.shelves import release

# To be raised when the same model and tokens give other keys or values than before, within one release.
_COMPUTED = 1
# Places of one system call.
_PLACES = 1024


@dataclass(frozen=True)
class Packed:
    """KV on its way to the disk. `data`: uint8."""

    form: str
    tokens: int
    data: Tensor

    @classmethod
    def of(cls, pool: Pool, runs: Sequence[Run]) -> "Packed":
        """The KV in `runs`, copied."""
        form, tokens, _ = _shape(pool, runs)
        return cls(form, tokens, pool.pack(runs))


class Fetch:
    """KV on its way from the disk into `runs`. Made and finished by the pool's thread, read by any."""

    def __init__(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        self.key, self.shape = key, _shape(pool, runs)
        self._pool, self._runs = pool, runs
        self._places = pool.places(runs)
        self._data = torch.empty(self.shape[2] if self._places is None else 0, dtype=torch.uint8)

    @property
    def places(self) -> Sequence[memoryview]:
        """Where the bytes go."""
        return [_bytes(self._data)] if self._places is None else self._places

    def finish(self) -> None:
        """All of it is read and right: the runs hold it from now on."""
        if self._places is None:
            self._pool.unpack(self._runs, self._data)
        else:
            self._pool.arrived(self._runs)


class KvStore:
    """A folder of KV files. Several processes may share it: files appear and vanish whole."""

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        """Raises StoreError when the folder cannot be made or listed."""
        self.folder = Folder(folder, quota_bytes)

    def has(self, key: str) -> bool:
        """Whether a file of this key is there; whether it is whole shows when it is loaded."""
        return self.folder.has(key)

    def load(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Copy the KV of `key` into `runs`. Raises StoreError after deleting a file that is not exactly right: what the
        runs hold then is undefined."""
        fetch = Fetch(key, pool, runs)
        self.read(fetch)
        fetch.finish()

    def read(self, fetch: Fetch, stopped: Callable[[], bool] = lambda: False) -> None:
        """The part of `load` that takes time. Raises StoreError as `load`, and Stopped within some MB after `stopped`
        has become true."""
        path = self.folder.file(fetch.key)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                header = read_header(file, fetch.key)
                if (header.form, header.tokens, header.size) != fetch.shape:
                    raise Damaged("it is of another kind")
                _read(file, header, fetch.places, stopped)
            finally:
                os.close(file)
        except Damaged as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise StoreError(f"stored KV {path.name} is unusable ({error})") from error
        except OSError as error:
            raise StoreError(f"stored KV {path.name} cannot be read ({error.strerror or error})") from error
        self.folder.touch(fetch.key)

    def save(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Write the KV in `runs` under `key`. Raises StoreError and leaves no partial file."""
        self.put(key, Packed.of(pool, runs))

    def put(self, key: str, packed: Packed) -> None:
        """`save` of what was packed. Raises StoreError and leaves no partial file."""
        raw = _bytes(packed.data)
        header = Header(key=key, form=packed.form, tokens=packed.tokens, size=len(raw))
        checksum = Checksum(header)
        with self.folder.writing(key, file_bytes(len(raw))) as file:
            for at in range(0, len(raw), PIECE):
                checksum.update(raw[at : at + PIECE])
                _write(file, raw[at : at + PIECE], PAGE + at)
            _write(file, memoryview(header.sealed(checksum).page()), 0)


def fingerprint(weights: str, tokenizer: str, *form: str) -> str:
    """What stored KV depends on besides the tokens: weights, tokenizer, this file format, `form` (how it was computed
    and is stored), the engine's version."""
    parts = (weights, tokenizer, MAGIC, str(_COMPUTED), *form, release(__version__))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _shape(pool: Pool, runs: Sequence[Run]) -> tuple[str, int, int]:
    """Form, tokens and bytes of the KV in these runs."""
    layers, heads, dim = pool.shape
    form = f"{pool.dtype} {pool.order} {layers} {heads} {dim}"
    return form, sum(run.length for run in runs), packed_bytes(pool, runs)


def _read(file: int, header: Header, places: Sequence[memoryview], stopped: Callable[[], bool]) -> None:
    """Fill places with the bytes behind the header. Raises Damaged when they are not those that were written."""
    checksum, at = Checksum(header), PAGE
    for batch in _batches(places):
        if stopped():
            raise Stopped
        at = read_into(file, batch, at)
        for place in batch:
            checksum.update(place)
    if checksum.text() != header.checksum:
        raise Damaged("its checksum is wrong")


def _batches(places: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """The same places, cut, so many together as are read at a time."""
    batch: list[memoryview] = []
    size = 0
    for place in places:
        for at in range(0, len(place), PIECE):
            batch.append(place[at : at + PIECE])
            size += len(batch[-1])
            if size >= PIECE or len(batch) == _PLACES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def _write(file: int, data: memoryview, at: int) -> None:
    while data:
        done = os.pwrite(file, data, at)
        data, at = data[done:], at + done


def _bytes(data: Tensor) -> memoryview:
    return memoryview(data.numpy().data)
