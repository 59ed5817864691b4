"""What an engine process is started with. Torch-free: the supervisor builds it, the worker reads it."""

from pathlib import Path
from typing import Literal

import msgspec

from unabridged.engine.events import AttentionChoice

# Compute threads that wait for each other spin by default, and where other programs use the cores, a token then takes
# seconds. They sleep after a few microseconds instead. Read when the process loads its OpenMP library.
THREAD_ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}
CPU_CHUNK = 256
KvType = Literal["auto", "float8_e4m3fn", "bfloat16", "float16", "float32"]
Place = Literal["auto", "gpu", "host"]


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and places of one engine process. 0 lets the engine choose from what the machine has free."""

    store_dir: Path | None = None  # where segments' KV is kept between runs; None keeps nothing
    store_bytes: int = 20 << 30  # disk quota of the store; the least recently used files go first
    place: Place = "auto"  # of a GPU's KV pool; "auto": the GPU's memory if it holds `context_tokens`, else the host's
    vram_bytes: int = 0  # of the GPU's memory that the engine may take; 0: all that is free
    context_tokens: int = 0  # that a GPU's KV pool shall hold; 0: the model's window, and more where there is room
    kv_bytes: int = 0  # memory of the KV pool; 0: on the CPU 60 % of what is free, on a GPU what the plan gives
    kv_dtype: KvType = "auto"  # storage; "auto": float16 on the CPU, on a GPU float8_e4m3fn where it can, else bfloat16
    head_bits: Literal[8, 16] = 16  # of embedding and LM head; 8 takes half of their memory, with a scale a row
    slots: int = 0  # requests that run at a time on a GPU; 0: 8, or what leaves room. The CPU runs one
    attention: AttentionChoice = AttentionChoice()  # that a GPU keeps room and recorded steps for
    threads: int = 0  # compute threads; 0: one per core
    prefill_chunk: int = 0  # tokens of one prefill step: cancelling takes at most one; 0: 256 on the CPU, 4096 on a GPU
    segment_tokens: int = 2048  # the segment length that callers should aim at
