"""The torch engine on a GPU: model and attention in its memory, keys and values there or in the host's, several answers
at a time. The memory plan (engine.plan) says how much of what."""

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from unabridged.engine.ahead import Identity
from unabridged.engine.attention import index_basis
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.support import gpu_refusal
from unabridged.engine.errors import EngineUnavailable
from unabridged.engine.events import PROTOCOL, AttentionChoice, Event, Generate, Prefill, Ready
from unabridged.engine.gpu import memory
from unabridged.engine.gpu.chosen import chosen, own, reads_index
from unabridged.engine.gpu.host_memory import Place, best_place
from unabridged.engine.gpu.passes import Streaming
from unabridged.engine.gpu.pool import K_SCALE, V_SCALE, GpuPool
from unabridged.engine.gpu.runner import GpuRunner
from unabridged.engine.kv.cache import KvCache
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.store import KvStore, fingerprint
from unabridged.engine.options import EngineOptions
from unabridged.engine.plan.divide import divide
from unabridged.engine.plan.plan import Subject, Wish
from unabridged.engine.plan.weights import weights_of
from unabridged.engine.plan.words import plan_lines
from unabridged.engine.serving import Serving
from unabridged.models.config import ModelConfig
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.hashing import sha256_of
from unabridged.models.load import load
from unabridged.models.manifest import CALIBRATION, read_manifest
from unabridged.models.tokenizer import Tokenizer

log = logging.getLogger("unabridged.engine")

# Bytes of KV on their way to the disk at most: seconds of a slow one.
_UNWRITTEN = 1 << 30
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
        """Plans, loads the model, takes the pool's memory and records the steps of decoding. `device`: the CPU for
        Triton's interpreter, which needs `kv_bytes`; `dtype`: of the model, by default as it is stored.

        Raises ModelUnsupported for a model that the GPU does not run, EngineUnavailable for a KV type that it does not
        store, OutOfMemory, ModelError or StoreError.
        """
        began = time.perf_counter()
        self._options, self._name, self._device = options, model_dir.name, torch.device(device)
        kind, weights = _kv_type(options, self._device), weights_of(model_dir, options.head_bits)
        _refuse(weights.config)
        manifest, tokenizer = read_manifest(model_dir), Tokenizer.load(model_dir)
        bases, self._notes = _bases(model_dir, manifest.fingerprint)
        window = weights.config.window
        attention = own(options.attention, window, bool(bases))
        # Whoever never reads it needs no memory for it: a third of what a long context takes of the GPU's.
        bases = bases if reads_index(attention) else ()
        self._indexed = bool(bases)
        subject = Subject(
            name=self._name,
            config=weights.config,
            weights=weights.bytes,
            itemsize=weights.itemsize,
            attention=attention,
            kind=kind,
            indexed=self._indexed,
            eight=_eight_bits(self._device),
        )
        machine, wish = memory.machine(options, self._device), Wish.of(options)
        # Before gigabytes are read for nothing.
        divide(subject, machine, wish)
        memory.hold(options, self._device)
        model, report = load(model_dir, dtype, device=self._device, head_bits=options.head_bits)
        self._config = model.config
        self._plan = plan = divide(replace(subject, weights=report.device or weights.bytes), machine, wish)
        self.slots = plan.slots
        pool = self._pool(bases)
        form = f"{pool.dtype} k/{K_SCALE} v/{V_SCALE} pages of {PAGE} head {options.head_bits}"
        self._fingerprint = fingerprint(manifest.fingerprint, tokenizer.id, form, "cuda")
        self._cache = KvCache(pool, PAGE)
        streaming = Streaming(plan.staged, plan.longest)
        runner = GpuRunner(model, pool, plan.attention, plan.slots, plan.chunk, streaming=streaming)
        recorded = runner.record()
        # Behind the recording, which has the allocator give back what nobody uses.
        memory.reserve(plan, self._device)
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
                plan.attention,
                self._choose,
                Identity(self._name, self._fingerprint),
                # With another calibration another selection is made.
                sha256_of(model_dir / CALIBRATION) if bases else "",
            )
        )
        self._load_seconds = time.perf_counter() - began
        log.info(
            "loaded in %.1f s: weights %.1f s, %s bytes read, at most %s on the GPU; %d steps recorded in %.1f s; "
            "KV of %s tokens in %s",
            *(self._load_seconds, report.seconds, f"{report.read:,}", f"{report.device_peak:,}"),
            *(recorded.graphs, recorded.seconds, f"{pool.slots:,}", kind),
        )
        for line in plan_lines(plan):
            log.info("%s", line)

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
            place=self._plan.place,
            memory=tuple((part.name, part.bytes) for part in self._plan.parts),
            host_bytes=self._plan.ram,
            notes=self._notes,
        )

    def run(self, request: Generate | Prefill) -> Iterator[Event | None]:
        """See engine.backend.Backend."""
        return self._serving.run(request)

    def close(self) -> None:
        """See engine.backend.Backend. What waits for the disk is written first."""
        if self._store is not None:
            self._store.close()
        if taken := memory.most_taken(self._device):
            planned = self._plan.vram
            log.info("GPU memory at most %s, %.1f %% of the plan", f"{taken:,}", 100 * taken / planned)
        self._cache.pool.close()

    def _choose(self, choice: AttentionChoice) -> AttentionConfig:
        return chosen(choice, self._plan, self._config.window, self._indexed)

    def _pool(self, bases: Sequence[Basis]) -> GpuPool:
        """As planned. What the allocator keeps of loading is given back first."""
        plan, kv = self._plan, self._plan.kv
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        place: Place = "device" if plan.place == "gpu" else best_place(self._device, plan.pool)
        size = memory.limit_bytes(plan)
        return GpuPool(kv.layers, kv.heads, kv.dim, size, _DTYPES[kv.kind], self._device, bases, place)


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


def _kv_type(options: EngineOptions, device: torch.device) -> str:
    """How KV is stored. Raises EngineUnavailable for what the device does not convert to."""
    if options.kv_dtype == "auto":
        return "float8_e4m3fn" if device.type == "cuda" and _eight_bits(device) else "bfloat16"
    if options.kv_dtype == "float8_e4m3fn" and not _eight_bits(device):
        found = "{}.{}".format(*torch.cuda.get_device_capability(device))
        raise EngineUnavailable(
            f"KV in float8_e4m3fn needs compute capability 8.9, this GPU has {found}",
            "unabridged config set engine.kv_dtype auto",
        )
    return options.kv_dtype


def _eight_bits(device: torch.device) -> bool:
    return device.type != "cuda" or torch.cuda.get_device_capability(device) >= _FP8


def _device_name(device: torch.device) -> str:
    return f"{device} {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
