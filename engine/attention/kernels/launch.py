"""A kernel with its arguments: to run, or to compile for a card that is not there.

Kernel modules describe a launch in a `plan_...` function and run it in another, so that what the tests compile ahead of
time for other cards is what runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from triton.runtime.jit import KernelInterface

Argument = Tensor | int | float | None


@dataclass(frozen=True)
class Launch:
    """One launch. `arguments` are the kernel's run-time arguments by name (tensors may be on the meta device if the
    launch is only compiled), `constants` its constexpr ones."""

    kernel: KernelInterface[Any]
    grid: tuple[int, ...]
    arguments: Mapping[str, Argument]
    constants: Mapping[str, Any] = field(default_factory=dict)
    warps: int = 4
    stages: int = 2

    def run(self) -> None:
        """Queue it on the current stream."""
        self.kernel[self.grid](**self.arguments, **self.constants, num_warps=self.warps, num_stages=self.stages)
