"""Segments' KV between pool and disk, one file a segment, so that a text is read once in its life.

Files (`format`) lie in a folder (`folder`). Reading goes straight into the pool where the host reaches it, and no byte
counts before the file's checksum is seen to be right: a file that is not exactly right is deleted and never used. The
store knows keys and bytes, not tokens or models. Any thread may use it; pools want their own.
"""

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unabridged import __version__
from unabridged.engine.errors import StoreError
from unabridged.engine.kv.blocks import Pool, Run, packed_bytes
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import (
    MAGIC,
    PAGE,
    PIECE,
    Damaged,
    Header,
    aligned,
    file_bytes,
    open_file,
    pieces,
    read_header,
    write,
)
from unabridged.engine.kv.shelves import release

# To be raised when the same model and tokens give other keys or values than before, within one release.
_COMPUTED = 1


@dataclass(frozen=True)
class Outgoing:
    """KV on its way to the disk: an image of its file, without the header."""

    form: str
    tokens: int
    size: int
    image: memoryview

    @classmethod
    def of(cls, pool: Pool, runs: Sequence[Run], buffer: Callable[[int], memoryview] = aligned) -> "Outgoing":
        """A copy of the KV in `runs`. `buffer`: gives `aligned` memory of at least so many bytes."""
        form, tokens, size = _shape(pool, runs)
        image = buffer(file_bytes(size))[: file_bytes(size)]
        pool.take(runs, image[PAGE : PAGE + size])
        filler = len(image) - PAGE - size
        image[PAGE + size :] = bytes(filler)
        return cls(form, tokens, size, image)


class Incoming:
    """KV on its way from the disk into `runs`. Made and finished by the pool's thread, read by any."""

    def __init__(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        self.key, self.shape, self.places = key, _shape(pool, runs), pool.incoming(runs)
        self._pool, self._runs = pool, runs

    def finish(self) -> None:
        """All of it is read and right: the runs hold it from now on."""
        self._pool.arrived(self._runs, self.places)


class KvStore:
    """A folder of KV files. Several processes may share it: files appear and vanish whole."""

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        """Raises StoreError when the folder cannot be made or listed."""
        self.folder = Folder(folder, quota_bytes)
        self._own = threading.local()

    def has(self, key: str) -> bool:
        """Whether a file of this key is there; whether it is whole shows when it is loaded."""
        return self.folder.has(key)

    def load(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Copy the KV of `key` into `runs`. Raises StoreError after deleting a file that is not exactly right: what the
        runs hold then is undefined."""
        incoming = Incoming(key, pool, runs)
        self.read(incoming)
        incoming.finish()

    def read(self, incoming: Incoming, stopped: Callable[[], bool] = lambda: False) -> None:
        """The part of `load` that takes time. Raises StoreError as `load`, and Stopped within some MB after `stopped`
        has become true."""
        path = self.folder.file(incoming.key)
        try:
            file = open_file(path, os.O_RDONLY)
            try:
                header = read_header(file, incoming.key)
                if (header.form, header.tokens, header.size) != incoming.shape:
                    raise Damaged("it is of another kind")
                _scatter(pieces(file, header, self._buffer(), stopped), incoming.places)
            finally:
                os.close(file)
        except Damaged as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise StoreError(f"stored KV {path.name} is unusable ({error})") from error
        except OSError as error:
            raise StoreError(f"stored KV {path.name} cannot be read ({error.strerror or error})") from error
        self.folder.touch(incoming.key)

    def save(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Write the KV in `runs` under `key`. Raises StoreError and leaves no partial file."""
        self.put(key, Outgoing.of(pool, runs))

    def put(self, key: str, outgoing: Outgoing) -> None:
        """`save` of what was taken. Raises StoreError and leaves no partial file."""
        header = Header(key=key, form=outgoing.form, tokens=outgoing.tokens, size=outgoing.size)
        with self.folder.writing(key, len(outgoing.image)) as file:
            write(file, header, outgoing.image)

    def _buffer(self) -> memoryview:
        """Memory for a piece, this thread's."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = aligned(PIECE)
        buffer: memoryview = self._own.buffer
        return buffer


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


def _scatter(pieces: Iterable[memoryview], places: Iterable[memoryview]) -> None:
    """Copy pieces, one behind the other, into places, one behind the other. Other threads go on meanwhile."""
    places, place = iter(places), np.zeros(0, dtype=np.uint8)
    for piece in pieces:
        source = np.frombuffer(piece, dtype=np.uint8)
        while len(source):
            if not len(place):
                place = np.frombuffer(next(places), dtype=np.uint8)
            count = min(len(place), len(source))
            np.copyto(place[:count], source[:count])
            place, source = place[count:], source[count:]
