"""What a plan is of, what is asked of it, and what it says."""

from dataclasses import dataclass
from typing import Literal

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.options import EngineOptions
from unabridged.engine.plan.kv import Kv
from unabridged.models.config import ModelConfig

Place = Literal["gpu", "host"]


@dataclass(frozen=True)
class Subject:
    """What is planned for. `weights`: bytes on the GPU, `itemsize`: of a number that the model computes with;
    `attention`: the engine's own; `kind`: of keys and values, a
    name of plan.kv.ITEMSIZE; `indexed`: whether the model has a calibrated index; `eight`: whether the card stores keys
    and values in 8 bits."""

    name: str
    config: ModelConfig
    weights: int
    itemsize: int
    attention: AttentionConfig
    kind: str
    indexed: bool
    eight: bool = True


@dataclass(frozen=True)
class Wish:
    """What is asked for; 0 leaves it to the plan. `context`: tokens; `slots`: answers at a time; `chunk`: tokens of a
    pass; `pool`: bytes of keys and values at most."""

    place: Literal["auto", "gpu", "host"] = "auto"
    context: int = 0
    slots: int = 0
    chunk: int = 0
    pool: int = 0

    @classmethod
    def of(cls, options: EngineOptions) -> "Wish":
        """What an engine's options ask for."""
        return cls(options.place, options.context_tokens, options.slots, options.prefill_chunk, options.kv_bytes)


@dataclass(frozen=True)
class Part:
    """A part of the GPU's memory."""

    name: str
    bytes: int
    about: str


@dataclass(frozen=True)
class Plan:
    """`tokens`: that the pool holds; `chunk`: tokens of a pass, `longest`: of one behind a long past in the host;
    `staged`: tokens that such passes have brought to the GPU at most, 0 without a pool in the host;
    `whole`: no context of as many tokens is attended to whole; `attention`: the engine's own; `parts`: of the GPU's
    memory; `passing`: bytes of them that passes over prompts take and give back."""

    place: Place
    tokens: int
    slots: int
    chunk: int
    longest: int
    staged: int
    whole: int
    attention: AttentionConfig
    kv: Kv
    parts: tuple[Part, ...]
    passing: int
    banks: BankRoom | None

    @property
    def vram(self) -> int:
        """Bytes of the GPU's memory, all in all."""
        return sum(part.bytes for part in self.parts)

    @property
    def pool(self) -> int:
        """Bytes of keys and values of all tokens."""
        return self.tokens * self.kv.token

    @property
    def ram(self) -> int:
        """Bytes of the host's memory."""
        return self.pool if self.place == "host" else 0

    def part(self, name: str) -> int:
        """Bytes of a part, 0 where there is none."""
        return next((part.bytes for part in self.parts if part.name == name), 0)
