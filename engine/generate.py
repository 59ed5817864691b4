"""The torch engine: answers with our own forward pass and attention, on the CPU. One forward pass a step."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from unabridged.engine.ahead import Identity
from unabridged.engine.attention.config import choose, for_window
from unabridged.engine.cpu import CpuRunner
from unabridged.engine.errors import EngineUnavailable
from unabridged.engine.events import PROTOCOL, Event, Generate, Prefill, Ready
from unabridged.engine.kv import memory
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.store import KvStore, fingerprint
from unabridged.engine.options import CPU_CHUNK, EngineOptions
from unabridged.engine.serving import Serving
from unabridged.models.load import load_model
from unabridged.models.manifest import read_manifest
from unabridged.models.tokenizer import Tokenizer

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_POOL_SHARE = 0.6
# KV that waits for the disk, copied out of the pool.
_UNWRITTEN = 256 << 20


class TorchBackend:
    """See engine.backend.Backend."""

    # Two requests that take turns on a CPU each take twice as long: both read all weights for each token of theirs.
    slots = 1

    def __init__(self, model_dir: Path, options: EngineOptions, notes: tuple[str, ...] = ()) -> None:
        """Loads the model; `notes` go into `ready`. Raises ModelError, StoreError, OutOfMemory, or EngineUnavailable
        for a KV type that the CPU does not store."""
        began = time.perf_counter()
        kv_dtype = "float16" if options.kv_dtype == "auto" else options.kv_dtype
        if kv_dtype not in _DTYPES:
            raise EngineUnavailable(f"KV in {kv_dtype} is for GPUs", "unabridged config set engine.kv_dtype auto")
        torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
        self._options, self._notes = options, notes
        self._name = model_dir.name
        model = load_model(model_dir, packed=True, head_bits=options.head_bits)
        tokenizer = Tokenizer.load(model_dir)
        form = (kv_dtype, "packed", *(["head 8"] if options.head_bits == 8 else []))
        self._fingerprint = fingerprint(read_manifest(model_dir).fingerprint, tokenizer.id, *form)
        limit = options.kv_bytes or int(memory.available() * _POOL_SHARE)
        self._window, shape = model.config.window, model.config
        pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, limit, _DTYPES[kv_dtype])
        self._cache = KvCache(pool)
        kept = options.store_dir
        self._store = None if kept is None else LateStore(KvStore(kept, options.store_bytes), _UNWRITTEN)
        self._serving = Serving(
            CpuRunner(model, pool, options.prefill_chunk or CPU_CHUNK),
            self._cache,
            self._store,
            tokenizer,
            shape.vocab_size,
            for_window(shape.window),
            lambda choice: choose(choice, shape.window),
            Identity(self._name, self._fingerprint),
        )
        self._load_seconds = time.perf_counter() - began

    def ready(self) -> Ready:
        """See engine.backend.Backend."""
        return Ready(
            protocol=PROTOCOL,
            engine="torch",
            device="cpu",
            model=self._name,
            fingerprint=self._fingerprint,
            window=self._window,
            max_context=self._cache.pool.slots,
            segment_tokens=min(self._options.segment_tokens, self._window),
            whole=True,
            load_seconds=self._load_seconds,
            pid=os.getpid(),
            notes=self._notes,
        )

    def run(self, request: Generate | Prefill) -> Iterator[Event | None]:
        """See engine.backend.Backend."""
        return self._serving.run(request)

    def close(self) -> None:
        """See engine.backend.Backend. What waits for the disk is written first."""
        if self._store is not None:
            self._store.close()
        self._cache.pool.close()
