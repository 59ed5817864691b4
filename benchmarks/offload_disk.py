"""Stored keys and values on a disk: how fast they are written and restored, beside dd on the same files."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.kv.blocks import BLOCK, Run
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.store import KvStore

# Bytes that may wait to be written, as the engine has it.
_UNWRITTEN = 1 << 30
# Files that the engine reads at a time (kv.late), and how many it expects ahead.
_READERS = 4
_AHEAD = 8
Row = dict[str, Any]


def disk(pool: GpuPool, runs: Sequence[Run], folder: Path, tokens: int) -> Row:
    """Rates in bytes a second. `runs`: what is stored and restored, in files of `tokens` tokens; `folder` must not
    exist, and does not afterwards.

    write    from the pool until the last byte is on the disk; restore: from the disk into the pool, checked, as the
             engine does it, several files at a time
    dd_...   the same files: written with fsync from the page cache, read one at a time and four at a time

    Before each reading the files are dropped from the page cache.
    """
    parts = [Run(run.start + at, tokens) for run in runs for at in range(0, run.length - tokens + 1, tokens)]
    assert tokens % BLOCK == 0, f"files of {tokens} tokens"
    before = pool.read([parts[-1]])
    size = len(parts) * tokens * pool.token_bytes
    try:
        row: Row = {"bytes": size, "files": len(parts), "write": size / _timed(lambda: _write(pool, parts, folder))}
        files = sorted(folder.glob("*.kv"))
        copy = folder / "copy"
        row["dd_write"] = _bytes(files[:1]) / _dd(files[0], copy, "conv=fsync")
        copy.unlink()
        _forget(files)
        row["dd_read"] = _bytes(files[:1]) / _dd(files[0], Path(os.devnull))
        _forget(files)
        row["dd_read_four"] = _bytes(files) / _timed(lambda: _all(files))
        _zero(pool, parts[-1])
        _forget(files)
        row["restore"] = size / _timed(lambda: _restore(pool, parts, folder))
        if not torch.equal(pool.read([parts[-1]]).view(torch.uint8), before.view(torch.uint8)):
            raise ValueError("what was restored is not what was stored")
        row |= {"of_dd_write": row["write"] / row["dd_write"], "of_dd_read": row["restore"] / row["dd_read_four"]}
        return row
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write(pool: GpuPool, parts: Sequence[Run], folder: Path) -> None:
    store = LateStore(KvStore(folder, 1 << 50), _UNWRITTEN)
    for number, part in enumerate(parts):
        store.save(f"{number:032x}", pool, [part])
    store.close()


def _restore(pool: GpuPool, parts: Sequence[Run], folder: Path) -> None:
    store = LateStore(KvStore(folder, 1 << 50), _UNWRITTEN)
    keys = [f"{number:032x}" for number in range(len(parts))]
    for number, part in enumerate(parts):
        for ahead in range(number, min(number + _AHEAD, len(parts))):
            store.expect(keys[ahead], pool, [parts[ahead]])
        store.load(keys[number], pool, [part])
    if pool.device.type == "cuda":
        torch.cuda.synchronize()
    store.close()


def _zero(pool: GpuPool, part: Run) -> None:
    pool.write([part], torch.zeros_like(pool.read([part]).view(torch.uint8)).view(pool.dtype))


def _dd(source: Path, target: Path, *more: str) -> float:
    return _timed(
        lambda: subprocess.run(["dd", f"if={source}", f"of={target}", "bs=8M", *more], check=True, capture_output=True)
    )


def _all(files: Sequence[Path]) -> None:
    with ThreadPoolExecutor(_READERS) as readers:
        for _ in readers.map(lambda file: _dd(file, Path(os.devnull)), files):
            pass


def _forget(files: Sequence[Path]) -> None:
    """Out of the page cache."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def _bytes(files: Sequence[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _timed(body: Callable[[], object]) -> float:
    began = time.perf_counter()
    body()
    return time.perf_counter() - began
