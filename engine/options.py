"""What an engine process is started with. Torch-free: the supervisor builds it, the worker reads it."""

from pathlib import Path
from typing import Literal

import msgspec

# Compute threads that wait for each other spin by default, and where other programs use the cores, a token then takes
# seconds. They sleep after a few microseconds instead. Read when the process loads its OpenMP library.
THREAD_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and places of one engine process. 0 lets the engine choose from what the machine has free."""

    store_dir: Path | None = None  # where segments' KV is kept between runs; None keeps nothing
    store_bytes: int = 20 << 30  # disk quota of the store; the least recently used files go first
    kv_bytes: int = 0  # host memory of the KV pool; 0: 60 % of what is free at the start
    kv_dtype: Literal["float16", "bfloat16", "float32"] = "float16"  # storage; arithmetic is always float32
    threads: int = 0  # compute threads; 0: one per core
    prefill_chunk: int = 256  # tokens of one prefill step: cancelling takes at most one, progress comes after each
    segment_tokens: int = 2048  # the segment length that callers should aim at
