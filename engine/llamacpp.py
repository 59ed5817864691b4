"""The alternative CPU engine: llama.cpp over a GGUF model, behind the same messages (extra `llama-cpp`).

One sequence, composed as prefix + segments + prompt and attended densely, so it answers within the model's window or
what memory holds of it, never past it. What the context shares with the one before it is not computed again; nothing is
stored on disk. llama.cpp shows no attention: `attended` stays empty and citations rest on the text alone.
"""

import ctypes
import os
import time
from array import array
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unabridged.engine.errors import BadRequest, ContextTooLong, EngineUnavailable
from unabridged.engine.events import (
    PROTOCOL,
    AttentionReport,
    Event,
    Finished,
    Generate,
    Prefill,
    Progress,
    Ready,
    Token,
    Usage,
)
from unabridged.engine.kv.memory import available
from unabridged.engine.options import CPU_CHUNK, EngineOptions
from unabridged.engine.textstop import AnswerText
from unabridged.models.config import ModelConfig
from unabridged.models.container import read_header
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.folder import ModelFolder
from unabridged.models.manifest import read_manifest
from unabridged.models.tokenizer import Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

_MEMORY_SHARE = 0.6
Phase = Literal["read", "question"]


class LlamaCppBackend:
    """See engine.backend.Backend. `whole` is False: focused mode within the window."""

    # It has one sequence.
    slots = 1

    def __init__(self, model_dir: Path, options: EngineOptions) -> None:
        """Loads the model. Raises EngineUnavailable without the package, ModelUnsupported for another format."""
        began = time.perf_counter()
        self._file, self._config = _gguf(model_dir)
        self._tokenizer = Tokenizer.load(model_dir)
        self._fingerprint = read_manifest(model_dir).fingerprint
        self._name = model_dir.name
        self._options = options
        self._sequence = Sequence(self._file, _context(self._config, options), options)
        self._load_seconds = time.perf_counter() - began

    def ready(self) -> Ready:
        """See engine.backend.Backend."""
        size = self._sequence.size
        return Ready(
            protocol=PROTOCOL,
            engine="llama-cpp",
            device="cpu",
            model=self._name,
            fingerprint=self._fingerprint,
            window=self._config.window,
            max_context=size,
            segment_tokens=min(self._options.segment_tokens, size),
            whole=False,
            load_seconds=self._load_seconds,
            pid=os.getpid(),
        )

    def run(self, request: Generate | Prefill) -> Generator[Event | None, None, None]:
        """See engine.backend.Backend. Chunks of a closed iterator stay in the sequence for the next request."""
        began = time.perf_counter()
        documents = array("i", request.prefix)
        for segment in request.segments:
            documents.frombytes(segment.ids)
        prompt = array("i", request.prompt if isinstance(request, Generate) else b"")
        ids = documents + prompt
        self._check(request, ids, prompt)
        cached = self._sequence.keep(ids)
        yield from self._feed(request.id, ids[: len(documents)], "read")
        yield from self._feed(request.id, ids, "question")
        prefilled = time.perf_counter()
        reason: Literal["stop", "length"] = "stop"
        completion = 0
        notes: tuple[str, ...] = ()
        if isinstance(request, Generate):
            reason, completion, notes = yield from self._decode(request, ids)
        yield Finished(
            id=request.id,
            reason=reason,
            usage=Usage(prompt=len(ids), cached=cached, completion=completion),
            attention=_dense(len(ids), completion),
            prefill_seconds=prefilled - began,
            decode_seconds=time.perf_counter() - prefilled,
            notes=notes,
        )

    def close(self) -> None:
        """See engine.backend.Backend."""
        self._sequence.close()

    def _check(self, request: Generate | Prefill, ids: "array[int]", prompt: "array[int]") -> None:
        """Refuse what can be seen to fail before any work."""
        if isinstance(request, Generate):
            from unabridged.engine.sampling import check

            check(request.sampling)
            if not prompt:
                raise BadRequest("the prompt is empty", "send at least one token")
        vocabulary = self._sequence.vocabulary
        if ids and not (min(ids) >= 0 and max(ids) < vocabulary):
            raise BadRequest(f"a token id outside 0 to {vocabulary - 1}", "tokenise with this model's tokenizer")
        if len(ids) >= self._sequence.size:
            raise ContextTooLong(
                f"the context has {len(ids):,} tokens, llama.cpp holds {self._sequence.size:,} with an answer",
                "ask over fewer documents, or use the torch engine, which reads past the model's window",
                tokens=len(ids),
                limit=self._sequence.size - 1,
            )

    def _feed(self, id: str, ids: "array[int]", phase: Phase) -> Generator[Event | None, None, None]:
        """Compute what the sequence lacks of `ids`, a chunk a step, and the last one alone: llama.cpp's kernels for one
        row round differently (0.8 in a logit of 27), and an answer must not depend on what was kept before it."""
        start, total = len(self._sequence), len(ids)
        chunk = self._options.prefill_chunk or CPU_CHUNK
        while (done := len(self._sequence)) < total:
            self._sequence.extend(ids[done : done + min(chunk, max(1, total - 1 - done))])
            yield Progress(id=id, phase=phase, done=len(self._sequence) - start, total=total - start)

    def _decode(
        self, request: Generate, ids: "array[int]"
    ) -> Generator[Event | None, None, tuple[Literal["stop", "length"], int, tuple[str, ...]]]:
        """Token by token; returns the reason of the end, the number of tokens and notes."""
        from unabridged.engine.sampling import Sampler

        sampler = Sampler(request.sampling, ids[-len(array("i", request.prompt)) :])
        text = AnswerText(self._tokenizer.stream(), request.sampling.stop)
        limit = request.sampling.max_tokens
        notes: tuple[str, ...] = ()
        for count in range(1, limit + 1):
            token = sampler(self._sequence.logits())
            if token in self._tokenizer.eos_ids:
                yield _token(request.id, text.finish())
                return "stop", count, ()
            yield _token(request.id, text.push(token))
            if text.stopped:
                return "stop", count, ()
            if count == limit:
                break
            if len(self._sequence) == self._sequence.size:
                notes = (f"the answer was cut: all {self._sequence.size:,} tokens that llama.cpp holds are used",)
                break
            self._sequence.extend(array("i", [token]))
        yield _token(request.id, text.finish())
        return "length", count, notes


class Sequence:
    """The one sequence of tokens whose KV llama.cpp holds."""

    def __init__(self, file: Path, size: int, options: EngineOptions) -> None:
        """Loads `file` with room for `size` tokens."""
        llama = _package()
        threads = options.threads or len(os.sched_getaffinity(0))
        batch = min(options.prefill_chunk or CPU_CHUNK, size)
        self._api = llama
        self._ids = array("i")
        try:
            self._llama = llama.Llama(
                str(file), n_ctx=size, n_batch=batch, n_threads=threads, n_threads_batch=threads, verbose=False
            )
        except ValueError as error:
            raise ModelDamaged(
                f"llama.cpp cannot load {file}: {error}", "`unabridged models verify` checks it"
            ) from error
        # llama.cpp rounds the size up to a multiple of its own; past the window the model was not trained.
        self.size = min(size, int(self._llama.n_ctx()))
        self.vocabulary = int(self._llama.n_vocab())

    def __len__(self) -> int:
        """Tokens held."""
        return len(self._ids)

    def keep(self, ids: "array[int]") -> int:
        """Drop what is held behind the beginning that it shares with `ids`; returns how many tokens stay. The last of
        `ids` never does: its logits are wanted."""
        common = _common(self._ids, ids[:-1])
        memory = self._api.llama_get_memory(self._llama.ctx)
        # Models with a recurrent state cannot forget a tail: they begin anew.
        if common < len(self._ids) and not self._api.llama_memory_seq_rm(memory, 0, common, -1):
            self._api.llama_memory_clear(memory, True)
            common = 0
        del self._ids[common:]
        self._llama.n_tokens = common
        return common

    def extend(self, ids: "array[int]") -> None:
        """Compute tokens at the end."""
        self._llama.eval(ids.tolist())
        self._ids.extend(ids)

    def logits(self) -> "Tensor":
        """Of the last token `[V]`, float32; valid until the next `extend`."""
        import numpy as np
        import torch

        pointer = self._api.llama_get_logits_ith(self._llama.ctx, -1)
        row = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), shape=(self.vocabulary,))
        return torch.from_numpy(row)

    def close(self) -> None:
        """Free the model's memory."""
        self._llama.close()


def _package() -> Any:
    try:
        import llama_cpp
    except ImportError as error:
        raise EngineUnavailable(
            f"the engine llama-cpp needs a package that is not installed: {error}",
            "pip install 'unabridged[llama-cpp]'",
        ) from error
    return llama_cpp


def _gguf(model_dir: Path) -> tuple[Path, ModelConfig]:
    """The model's file and configuration."""
    folder = ModelFolder.inspect(model_dir)
    if folder.format != "gguf":
        raise ModelUnsupported(
            f"{model_dir.name} is a {folder.format} model; llama.cpp reads GGUF", "use the torch engine for it"
        )
    header = read_header(folder.weights[0])
    tied = not any(tensor.name == "output.weight" for tensor in header.tensors)
    return folder.weights[0], ModelConfig.from_gguf(header.metadata, tied)


def _context(config: ModelConfig, options: EngineOptions) -> int:
    """Tokens to hold: the window, or as much of it as memory has room for (16-bit K and V)."""
    per_token = 2 * 2 * config.layers * config.kv_heads * config.head_dim
    room = options.kv_bytes or int(available() * _MEMORY_SHARE)
    return max(1, min(config.window, room // per_token))


def _common(left: "array[int]", right: "array[int]") -> int:
    """Length of the beginning that both share."""
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    return next(at for at in range(length) if left[at] != right[at])


def _token(id: str, piece: tuple[str, tuple[int, ...]] | None) -> Token | None:
    return None if piece is None else Token(id=id, text=piece[0], ids=piece[1])


def _dense(prompt: int, completion: int) -> AttentionReport:
    """Every query sees every key before it."""
    context = prompt + completion
    attended = prompt + completion // 2
    return AttentionReport(kind="dense", preset="dense", context=context, attended=attended, coverage=1.0)
