"""Segments' KV on disk, one file a segment, so that a text is read once in its life.

A file is a header line of JSON, zero padding to a multiple of 64 bytes, and the raw keys then values `[2, L, G, N, D]`.
It is written under a temporary name, flushed, then renamed: a kill or a full disk leaves the old state. The header
carries the shape, the key and a checksum; a file that does not match in every point is deleted and never used. The
least recently used files go when the quota is reached. The store knows keys and bytes, not tokens or models.
"""

import contextlib
import hashlib
import logging
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from unabridged import __version__
from unabridged.engine.errors import StoreError
from unabridged.engine.kv.blocks import Pool, Run

MAGIC = "unabridged-kv-1"
SUFFIX = ".kv"
_ALIGN = 64
_MAX_HEADER = 4096

log = logging.getLogger(__name__)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file. `shape` is `[2, L, G, N, D]`."""

    magic: str
    key: str
    dtype: str
    shape: tuple[int, int, int, int, int]
    sha256: str


class KvStore:
    """A folder of KV files. Several processes may share it: files appear and vanish whole."""

    def __init__(self, folder: Path, quota_bytes: int) -> None:
        """Raises StoreError when the folder cannot be made or listed."""
        self._folder, self._quota = folder, quota_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sweep()
        except OSError as error:
            raise StoreError(
                f"the KV store {folder} cannot be used: {error}", "check the folder's permissions"
            ) from error

    def has(self, key: str) -> bool:
        """Whether a file of this key is there; whether it is whole shows when it is loaded."""
        return self._path(key).is_file()

    def expect(self, key: str, pool: Pool, tokens: int) -> None:
        """`load` will be asked for this file of `tokens` tokens. It is read then."""

    def ready(self, key: str) -> bool:
        """Whether `load` need not wait for what was expected."""
        return True

    def forget(self, keys: Iterable[str]) -> None:
        """What was expected is not wanted any more."""

    def load(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Copy the KV of `key` into `runs`. Raises StoreError after deleting a file that is not exactly right."""
        pool.write(runs, self.get(key, pool, sum(run.length for run in runs)))

    def get(self, key: str, pool: Pool, tokens: int) -> Tensor:
        """The KV of `key`, `[2, L, G, N, D]`, mapped and checked. Raises StoreError as `load`."""
        path = self._path(key)
        try:
            data = self._payload(path, key, pool, tokens)
            os.utime(path)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            raise StoreError(f"stored KV {path.name} is unusable ({error})") from error
        return data

    def save(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Write the KV in `runs` under `key`. Raises StoreError and leaves no partial file."""
        self.put(key, pool.read(runs))

    def put(self, key: str, data: Tensor) -> None:
        """Write KV `[2, L, G, N, D]` under `key`. Raises StoreError and leaves no partial file."""
        raw = memoryview(data.contiguous().view(torch.uint8).numpy().data).cast("B")
        header = Header(
            magic=MAGIC,
            key=key,
            dtype=str(data.dtype),
            shape=(2, data.shape[1], data.shape[2], data.shape[3], data.shape[4]),
            sha256=hashlib.sha256(raw).hexdigest(),
        )
        try:
            self._make_room(len(raw) + _MAX_HEADER)
            self._write(self._path(key), _padded(header), raw)
        except OSError as error:
            raise StoreError(
                f"KV cannot be stored in {self._folder}: {error}", "the answer goes on; it will be read again next time"
            ) from error

    def used_bytes(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}{SUFFIX}"

    def _payload(self, path: Path, key: str, pool: Pool, tokens: int) -> Tensor:
        """The mapped keys and values. Raises ValueError for a file that does not match."""
        with path.open("rb") as file:
            line = file.readline(_MAX_HEADER)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        header = msgspec.json.decode(line, type=Header)
        layers, heads, dim = pool.shape
        wanted = (MAGIC, key, str(pool.dtype), (2, layers, heads, tokens, dim))
        if (header.magic, header.key, header.dtype, header.shape) != wanted:
            raise ValueError("it is of another kind")
        offset = len(_padded(header))
        if len(mapped) != offset + pool.token_bytes * tokens:
            raise ValueError(f"{len(mapped):,} bytes, {offset + pool.token_bytes * tokens:,} expected")
        if hashlib.sha256(memoryview(mapped)[offset:]).hexdigest() != header.sha256:
            raise ValueError("its checksum is wrong")
        return torch.frombuffer(mapped, dtype=pool.dtype, offset=offset).view(header.shape)

    def _write(self, path: Path, header: bytes, raw: memoryview) -> None:
        temporary = path.with_suffix(f".{os.getpid()}.new")
        try:
            with temporary.open("wb") as file:
                file.write(header)
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _files(self) -> list[tuple[float, int, Path]]:
        """(last use, size, path) of every file, oldest first."""
        found = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                state = path.stat()
                found.append((state.st_mtime, state.st_size, path))
        return sorted(found)

    def _make_room(self, wanted: int) -> None:
        if wanted > self._quota:
            raise OSError(f"{wanted:,} bytes exceed the quota of {self._quota:,}")
        files = self._files()
        used = sum(size for _, size, _ in files)
        for _, size, path in files:
            if used + wanted <= self._quota:
                return
            path.unlink(missing_ok=True)
            log.info("dropped stored KV %s: the quota of %d bytes is reached", path.name, self._quota)
            used -= size

    def _sweep(self) -> None:
        """Remove what killed writers left behind."""
        for path in self._folder.glob("*.new"):
            owner = path.suffixes[-2][1:] if len(path.suffixes) > 1 else ""
            if not owner.isdigit() or int(owner) == os.getpid() or not _alive(int(owner)):
                path.unlink(missing_ok=True)


def fingerprint(weights: str, tokenizer: str, *form: str) -> str:
    """What stored KV depends on besides the tokens: weights, tokenizer, this file format, `form` (how it was computed
    and is stored), the engine's version."""
    version = ".".join(__version__.split(".")[:2])
    return hashlib.sha256("\n".join((weights, tokenizer, MAGIC, *form, version)).encode()).hexdigest()[:32]


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _padded(header: Header) -> bytes:
    line = msgspec.json.encode(header) + b"\n"
    return line + b"\0" * (-len(line) % _ALIGN)
