"""The runner on the CPU: our attention over a pool in host memory, one forward pass at a time."""

import sys
from array import array
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Packed, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.witness import Witness
from unabridged.engine.events import AttentionReport, Sampling
from unabridged.engine.kv.blocks import Run
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.engine.sampling import Sampler
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq


class CpuCourse:
    """See runner.Course."""

    def __init__(self, model: Llama, attention: ContextAttention) -> None:
        self.attention = attention
        self.hidden = torch.zeros(0)  # of the token read last, `[1, hidden]`
        self._model = model
        self._sampler: Sampler | None = None
        self._token = 0

    @property
    def length(self) -> int:
        """See runner.Course."""
        return self.attention.context.length

    @property
    def short(self) -> bool:
        """See runner.Course."""
        return self.length == self.attention.context.reserved

    def fits(self, room: int, left: int) -> int:
        """See runner.Course."""
        return self.attention.fits(min(room, left))

    def extend(self, runs: Iterable[Run]) -> None:
        """See runner.Course."""
        self.attention.context.extend(runs)

    def first(self, sampling: Sampling, prompt: Sequence[int], span: tuple[int, int] | None) -> int:
        """See runner.Course."""
        self._sampler = Sampler(sampling, prompt)
        if span is not None:
            self.attention.witness = Witness(*span)
        return self._choose(self.hidden)

    @torch.inference_mode()
    def next(self) -> int:
        """See runner.Course."""
        self.attention.begin(1)
        hidden = self._model.forward(torch.tensor([self._token]), self.attention)
        self.attention.end()
        return self._choose(hidden)

    def looked(self) -> tuple[tuple[int, float], ...]:
        """See runner.Course."""
        return () if self.attention.witness is None else self.attention.witness.shares()

    def report(self) -> AttentionReport:
        """See runner.Course."""
        return self.attention.report()

    def close(self) -> None:
        """See runner.Course. Nothing is held."""

    def _choose(self, hidden: Tensor) -> int:
        assert self._sampler is not None
        self._token = self._sampler(self._model.logits(hidden)[0])
        return self._token


class CpuRunner:
    """See runner.Runner."""

    page = 1
    packs = False
    ahead = 1
    room = sys.maxsize

    def __init__(self, model: Llama, pool: KvPool, chunk: int) -> None:
        """`chunk`: tokens of a forward pass."""
        self._model, self._pool, self._chunk = model, pool, chunk
        self._shape = Shape.of(model.config)
        self._rotary = Rotary(inv_freq(model.config))

    def course(self, filled: Sequence[Run], room: Sequence[Run], read: int, config: AttentionConfig) -> CpuCourse:
        """See runner.Runner."""
        context = Context(self._pool, filled, room)
        context.length = read
        return CpuCourse(self._model, ContextAttention(context, config, self._shape, self._rotary))

    def chunk(self) -> int:
        """See runner.Runner."""
        return self._chunk

    @torch.inference_mode()
    def read(self, parts: Sequence[tuple[CpuCourse, "array[int]"]]) -> None:
        """See runner.Runner."""
        ids = torch.tensor([token for _, tokens in parts for token in tokens])
        sizes = [len(tokens) for _, tokens in parts]
        packed = Packed([(course.attention, size) for (course, _), size in zip(parts, sizes, strict=True)])
        hidden = self._model.forward(ids, packed)
        packed.end()
        for (course, _), rows in zip(parts, hidden.split(sizes), strict=True):
            course.hidden = rows[-1:].clone()
