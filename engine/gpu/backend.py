"""The torch engine on a GPU: the model, the KV pool and all attention in its memory, several answers at a time."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from unabridged.engine.attention import index_basis
from unabridged.engine.attention.config import AttentionConfig, choose, for_window
from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.limits import PIECE
from unabridged.engine.attention.support import gpu_refusal
from unabridged.engine.errors import BadRequest, EngineUnavailable
from unabridged.engine.events import PROTOCOL, AttentionChoice, Event, Generate, Prefill, Ready
from unabridged.engine.gpu.memory import TokenBytes, Workspace, pool_bytes
from unabridged.engine.gpu.pool import K_SCALE, V_SCALE, GpuPool
from unabridged.engine.gpu.runner import GpuRunner
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.store import KvStore, fingerprint
from unabridged.engine.options import EngineOptions
from unabridged.engine.serving import Serving
from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.load import load
from unabridged.models.manifest import CALIBRATION, read_manifest
from unabridged.models.tokenizer import Tokenizer
from unabridged.models.weights import open_checkpoint

log = logging.getLogger("unabridged.engine")

SLOTS = 8
CHUNK = 4096
# Bytes of KV on their way to the disk at most: seconds of a slow one.
_UNWRITTEN = 1 << 30
# Steps until a schedule repeats. A recorded one takes a moment and some megabytes, in each kind of batch.
_PERIOD = 128
# What converts to and from 8 bits in hardware.
_FP8 = (8, 9)
_DTYPES = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}


class GpuBackend:
    """See engine.backend.Backend."""

    def __init__(
        self,
        model_dir: Path,
        options: EngineOptions,
        device: torch.device | str = "cuda:0",
        dtype: torch.dtype | None = None,
    ) -> None:
        """Loads the model, takes the pool's memory and records the steps of decoding. `device`: the CPU for Triton's
        interpreter, which needs `kv_bytes`; `dtype`: of the model, by default as it is stored.

        Raises ModelUnsupported for a model that the GPU does not run, EngineUnavailable for a KV type that it does not
        store, OutOfMemory, ModelError or StoreError.
        """
        began = time.perf_counter()
        self._options, self._name, self._device = options, model_dir.name, torch.device(device)
        self.slots, chunk = options.slots or SLOTS, min(options.prefill_chunk or CHUNK, PIECE)
        kind = _kv_type(options, self._device)
        _refuse(open_checkpoint(model_dir)[0])
        manifest, tokenizer = read_manifest(model_dir), Tokenizer.load(model_dir)
        model, report = load(model_dir, dtype, device=self._device, head_bits=options.head_bits)
        self._config = model.config
        bases, self._notes = _bases(model_dir, manifest.fingerprint)
        pool = GpuPool(
            *(self._config.layers, self._config.kv_heads, self._config.head_dim),
            options.kv_bytes or self._room(bases, kind, chunk),
            kind,
            self._device,
            bases,
        )
        self._indexed = pool.indexed
        form = f"{kind} k/{K_SCALE} v/{V_SCALE} pages of {PAGE} head {options.head_bits}"
        self._fingerprint = fingerprint(manifest.fingerprint, tokenizer.id, form, "cuda")
        self._cache = KvCache(pool, PAGE)
        own = for_window(self._config.window, self._indexed)
        runner = GpuRunner(model, pool, own, self.slots, chunk)
        recorded = runner.record()
        self._store = (
            None
            if options.store_dir is None
            else LateStore(KvStore(options.store_dir, options.store_bytes), _UNWRITTEN)
        )
        self._serving = Serving(
            *(
                runner,
                self._cache,
                self._store,
                tokenizer,
                self._config.vocab_size,
                own,
                self._choose,
                self._fingerprint,
            )
        )
        self._load_seconds = time.perf_counter() - began
        log.info(
            "loaded in %.1f s: weights %.1f s, %s bytes read, at most %s on the GPU; %d steps recorded in %.1f s; "
            "KV of %s tokens in %s",
            *(self._load_seconds, report.seconds, f"{report.read:,}", f"{report.device_peak:,}"),
            *(recorded.graphs, recorded.seconds, f"{pool.slots:,}", kind),
        )

    def ready(self) -> Ready:
        """See engine.backend.Backend."""
        window = self._config.window
        return Ready(
            protocol=PROTOCOL,
            engine="torch",
            device=_device_name(self._device),
            model=self._name,
            fingerprint=self._fingerprint,
            window=window,
            max_context=self._cache.pool.slots,
            segment_tokens=min(self._options.segment_tokens, window),
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

    def _choose(self, choice: AttentionChoice) -> AttentionConfig:
        """The settings that a request asks for. Raises BadRequest for what the kernels do not do."""
        config = choose(choice, self._config.window, self._indexed)
        blocks = {stage.block_q for layer in config.layers for stage in layer.stages}
        if config.stream % PAGE or len(blocks) > 1:
            raise BadRequest(f"attention stream = {config.stream}", f"a multiple of {PAGE} on a GPU")
        if max(config.refresh) > _PERIOD:
            refresh = "/".join(map(str, config.refresh))
            raise BadRequest(
                f"attention refresh = {refresh}", f"a GPU records each step of a period: {_PERIOD} at most"
            )
        # Steps take memory by it, and without extension it may be anything: no context is longer than the pool.
        longest = max(self._config.window, self._cache.pool.slots + 1)
        return replace(config, dense_below=min(config.dense_below, longest))

    def _room(self, bases: Sequence[Basis], kind: torch.dtype, chunk: int) -> int:
        """Bytes for the pool. What the allocator keeps of loading is given back first."""
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self._device)
        workspace = Workspace.of(self._config, self.slots, chunk)
        return pool_bytes(free, workspace, TokenBytes.of(self._config, kind, bases))


def _refuse(config: ModelConfig) -> None:
    """Raises ModelUnsupported for what runs on the CPU only."""
    if why := gpu_refusal(config):
        raise ModelUnsupported(why, "unabridged config set engine.device cpu")


def _bases(model_dir: Path, fingerprint: str) -> tuple[Sequence[Basis], tuple[str, ...]]:
    """The calibration of the model's index, one basis a layer, or none, and what is to be said of it."""
    try:
        return index_basis.load(model_dir / CALIBRATION, fingerprint).layers, ()
    except FileNotFoundError:
        return (), ()
    except (ModelDamaged, ModelUnsupported) as error:
        return (), (f"the index is not used: {error.message} ({error.hint})",)


def _kv_type(options: EngineOptions, device: torch.device) -> torch.dtype:
    """How KV is stored. Raises EngineUnavailable for what the device does not convert to."""
    fp8 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= _FP8
    if options.kv_dtype == "auto":
        return torch.float8_e4m3fn if fp8 else torch.bfloat16
    kind = _DTYPES[options.kv_dtype]
    if kind == torch.float8_e4m3fn and device.type == "cuda" and not fp8:
        found = "{}.{}".format(*torch.cuda.get_device_capability(device))
        raise EngineUnavailable(
            f"KV in float8_e4m3fn needs compute capability 8.9, this GPU has {found}",
            "unabridged config set engine.kv_dtype auto",
        )
    return kind


def _device_name(device: torch.device) -> str:
    return f"{device} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
