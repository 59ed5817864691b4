"""Greedy answers of a 4-bit model by the engine's kernels beside the same weights dequantised, in plain PyTorch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from benchmarks.divergence import Causal
from torch import Tensor

from unabridged.engine.attention.config import choose
from unabridged.engine.events import AttentionChoice, Sampling
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.models.llama import Llama
from unabridged.models.load import load


@dataclass(frozen=True)
class Difference:
    """The first token that differs, and both candidates' logits there: what the kernels chose, what the plain model
    chose; seen by the kernels and by the plain model."""

    at: int
    ours: int
    plain: int
    logits_by_kernels: tuple[float, float]
    logits_by_plain: tuple[float, float]

    @property
    def gap(self) -> float:
        """By how much the plain model prefers its own choice."""
        ours, plain = self.logits_by_plain
        return plain - ours


@dataclass(frozen=True)
class Answer:
    """Of one prompt: tokens compared, the first difference, and the largest distance of the prompt's last logits."""

    tokens: int
    difference: Difference | None
    off: float


class Pair:
    """Both, of one checkpoint. Keys and values are float16, so that nothing but the kernels differs."""

    def __init__(self, folder: Path, room: int) -> None:
        self.ours, self.plain = (load(folder, device="cuda", kernels=kernels)[0] for kernels in (True, False))
        shape = self.ours.config
        token = 4 * shape.layers * shape.kv_heads * shape.head_dim
        self._pool = GpuPool(shape.layers, shape.kv_heads, shape.head_dim, 2 * room * token, self.ours.dtype)
        self._config = choose(AttentionChoice(), shape.window)
        self._room, self._causal = room, Causal(shape, room, self.plain.device)
        self._runs = self._pool.allocate(room)
        self._prefill = Prefill(self.ours, self._config, self._pool, 1, room)
        self._batch = DecodeBatch(self.ours, self._config, self._pool, 1, room)
        self._batch.capture(dense=True)

    def compare(self, prompt: Sequence[int], count: int) -> Answer:
        """`count` tokens behind the prompt."""
        first = self._by_kernels(prompt)
        ours = self._answer(prompt, first, count)
        plain, ids = [], list(prompt)
        off = (first - self._by_plain(ids)).abs().max().item()
        for _ in range(count):
            plain.append(int(self._by_plain(ids).argmax()))
            ids.append(plain[-1])
        return Answer(count, self._difference(prompt, ours, plain), off)

    def _answer(self, prompt: Sequence[int], first: Tensor, count: int) -> list[int]:
        tokens = [int(first.argmax())]
        self._batch.admit(0, self._runs, len(prompt), [], tokens[0], Sampling())
        while len(tokens) < count:
            self._batch.launch()
            tokens.append(self._batch.collect()[0])
        self._batch.release(0)
        return tokens

    def _difference(self, prompt: Sequence[int], ours: list[int], plain: list[int]) -> Difference | None:
        at = next((i for i, (one, other) in enumerate(zip(ours, plain, strict=True)) if one != other), None)
        if at is None:
            return None
        ids = [*prompt, *plain[:at]]
        both = [ours[at], plain[at]]
        kernels, torchs = (self._pick(logits, both) for logits in (self._by_kernels(ids), self._by_plain(ids)))
        return Difference(at, ours[at], plain[at], kernels, torchs)

    @staticmethod
    def _pick(logits: Tensor, tokens: Sequence[int]) -> tuple[float, float]:
        one, other = (float(logits[token]) for token in tokens)
        return one, other

    def _by_kernels(self, ids: Sequence[int]) -> Tensor:
        """Logits behind `ids`, float32."""
        self._prefill.put(0, self._runs)
        return self._last(self.ours, self._prefill.read([Part(0, 0, ids)]))

    def _by_plain(self, ids: Sequence[int]) -> Tensor:
        hidden = self.plain.forward(torch.tensor(ids, device=self.plain.device), self._causal)
        return self._last(self.plain, hidden[-1:])

    @staticmethod
    def _last(model: Llama, hidden: Tensor) -> Tensor:
        return model.logits(hidden)[0].float()
