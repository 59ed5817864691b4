"""The torch engine: answers with our own forward pass and attention, on the CPU.

A request runs as a generator, one forward pass a step: hold the segments' KV (pool, disk or reading), prefill the
prompt behind them, decode. Closing the generator anywhere releases what it held; finished KV stays for the next one.
"""

import hashlib
import os
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from unabridged import __version__
from unabridged.engine.answer import Answer
from unabridged.engine.attention.attend import Shape
from unabridged.engine.attention.config import choose, for_window
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.errors import BadRequest, ContextTooLong
from unabridged.engine.events import PROTOCOL, Event, Finished, Generate, Prefill, Ready, Usage
from unabridged.engine.kv import memory
from unabridged.engine.kv.blocks import whole_blocks
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.store import MAGIC, KvStore
from unabridged.engine.options import EngineOptions
from unabridged.engine.reading import Held, Reader
from unabridged.engine.sampling import check
from unabridged.models.load import load_model
from unabridged.models.manifest import read_manifest
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer

_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_POOL_SHARE = 0.6


class TorchBackend:
    """See engine.backend.Backend."""

    def __init__(self, model_dir: Path, options: EngineOptions) -> None:
        """Loads the model. Raises ModelError, StoreError or OutOfMemory."""
        began = time.perf_counter()
        torch.set_num_threads(options.threads or len(os.sched_getaffinity(0)))
        self._options = options
        self._name = model_dir.name
        self._model = load_model(model_dir, packed=True)
        self._tokenizer = Tokenizer.load(model_dir)
        model = self._model.config
        self._shape = Shape(model.layers, model.heads, model.kv_heads, model.head_dim)
        self._rotary = Rotary(inv_freq(model))
        self._fingerprint = _fingerprint(read_manifest(model_dir).fingerprint, self._tokenizer.id, options)
        limit = options.kv_bytes or int(memory.available() * _POOL_SHARE)
        pool = KvPool(model.layers, model.kv_heads, model.head_dim, limit, _DTYPES[options.kv_dtype])
        self._cache = KvCache(pool)
        store = None if options.store_dir is None else KvStore(options.store_dir, options.store_bytes)
        self._reader = Reader(
            self._model,
            self._rotary,
            self._shape,
            self._cache,
            store,
            for_window(model.window),
            self._fingerprint,
            options.prefill_chunk,
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
            window=self._model.config.window,
            max_context=self._cache.pool.slots,
            segment_tokens=min(self._options.segment_tokens, self._model.config.window),
            whole=True,
            load_seconds=self._load_seconds,
            pid=os.getpid(),
        )

    def run(self, request: Generate | Prefill) -> Iterator[Event | None]:
        """See engine.backend.Backend."""
        return self._answer(request) if isinstance(request, Generate) else self._prefill(request)

    def close(self) -> None:
        """See engine.backend.Backend. The store needs nothing: its files are whole at any time."""
        self._cache.pool.close()

    def _prefill(self, request: Prefill) -> Iterator[Event | None]:
        began = time.perf_counter()
        segments = [segment.ids for segment in request.segments]
        self._check(request.prefix, segments, array("i"))
        held = Held()
        try:
            yield from self._reader.hold(request.id, request.prefix, segments, held)
            usage = Usage(prompt=held.tokens, cached=held.cached, completion=0)
            seconds = time.perf_counter() - began
            yield Finished(id=request.id, reason="stop", usage=usage, prefill_seconds=seconds, notes=tuple(held.notes))
        finally:
            self._release(held)

    def _answer(self, request: Generate) -> Iterator[Event | None]:
        began = time.perf_counter()
        check(request.sampling)
        config = choose(request.attention, self._model.config.window)
        segments = [segment.ids for segment in request.segments]
        prompt = array("i", request.prompt)
        self._check(request.prefix, segments, prompt)
        held = Held()
        try:
            yield from self._reader.hold(request.id, request.prefix, segments, held, len(prompt) + 1)
            context_key = self._reader.context_key(request.prefix, segments)
            answer = Answer(
                self._model, self._rotary, self._shape, self._tokenizer, self._cache, config, request, held, context_key
            )
            yield from answer.run(began, self._options.prefill_chunk)
        finally:
            self._release(held)

    def _release(self, held: Held) -> None:
        for entry in held.holds:
            self._cache.release(entry)

    def _check(self, prefix: bytes, segments: Sequence[bytes], prompt: Sequence[int]) -> None:
        """Refuse what can be seen to fail before any work."""
        vocabulary = self._model.config.vocab_size
        for run in (array("i", prefix), prompt, *(array("i", one) for one in segments)):
            if run and not (min(run) >= 0 and max(run) < vocabulary):
                wrong = next(one for one in run if not 0 <= one < vocabulary)
                raise BadRequest(f"token id {wrong} is not in the vocabulary of {vocabulary}")
        unique = {one for one in (prefix, *segments) if one}
        wanted = sum(whole_blocks(len(one) // 4) for one in unique) + whole_blocks(len(prompt) + 1)
        limit = self._cache.pool.slots
        if wanted > limit:
            tokens = (len(prefix) + sum(len(one) for one in segments)) // 4 + len(prompt)
            raise ContextTooLong(
                f"the context has {tokens:,} tokens and needs {wanted:,} slots of KV memory; there are {limit:,}",
                "ask over fewer documents or raise the engine's kv_bytes",
                tokens=tokens,
                limit=limit,
            )


def _fingerprint(weights: str, tokenizer: str, options: EngineOptions) -> str:
    """What stored KV depends on besides the tokens: weights, tokenizer, KV format, engine version."""
    version = ".".join(__version__.split(".")[:2])
    parts = (weights, tokenizer, MAGIC, options.kv_dtype, "packed", version)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
