"""A kernel with its arguments: to run, or to compile for a card that is not there.

Kernel modules describe a launch in a `plan_...` function, and `runs` makes of it the one that runs it: what the tests
compile ahead of time for other cards is what runs.
"""

import functools
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ParamSpec

import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.runtime.jit import KernelInterface, create_function_from_signature

P = ParamSpec("P")
Argument = Tensor | int | float | None
# Triton's launcher takes these for its own; its interpreter does not, and would let a kernel use them.
RESERVED = frozenset(("stream", "grid", "device", "device_type", "warmup"))


@dataclass(frozen=True)
class Compiled:
    """What a program of a launch needs of a card: bytes of shared memory, registers a thread, bytes of local memory a
    thread (spills). And its code."""

    shared: int
    registers: int
    local: int
    ptx: str
    cubin: bytes


@dataclass(frozen=True)
class Launch:
    """One launch. `arguments` are the kernel's run-time arguments by name (tensors may be on the meta device if the
    launch is only compiled), `constants` its constexpr ones.

    registers: at most so many a thread. None leaves it to the compiler, which may spill a few for a second program.
    overlap: it may begin before the kernel before it has ended; the kernel knows (overlap.py).
    """

    kernel: KernelInterface[Any]
    grid: tuple[int, ...]
    arguments: Mapping[str, Argument]
    constants: Mapping[str, Any] = field(default_factory=dict)
    warps: int = 4
    stages: int = 2
    registers: int | None = None
    overlap: bool = False

    def __post_init__(self) -> None:
        taken = RESERVED & (self.arguments.keys() | self.constants.keys())
        assert not taken, f"the launcher keeps these argument names for itself: {', '.join(sorted(taken))}"

    def run(self) -> None:
        """Queue it on the current stream."""
        self.kernel[self.grid](**self._parameters(), **self._options())

    def compile(self, capability: int) -> Compiled:
        """Compile it for cards of a compute capability (89, 90), specialised as a run with these arguments would be.

        Needs no card. Impossible in a process that runs Triton's interpreter (TypeError).
        """
        if not isinstance(self.kernel, triton.JITFunction):
            raise TypeError("the interpreter's kernels do not compile: start Python without TRITON_INTERPRET")
        target = GPUTarget("cuda", capability, 32)
        backend = make_backend(target)
        # Triton's own binder and packer: no second notion here of what a run specialises on.
        bind = create_function_from_signature(self.kernel.signature, self.kernel.params, backend)
        bound, specialization, given = bind(**self._parameters(), **self._options())
        options, signature, constants, attributes = self.kernel._pack_args(backend, given, bound, specialization, given)
        source = ASTSource(self.kernel, signature, constants, attributes)
        built = triton.compile(source, target=target, options=options.__dict__)
        cubin: bytes = built.asm["cubin"]
        registers, local = _resources(cubin)
        return Compiled(built.metadata.shared, registers, local, built.asm["ptx"], cubin)

    def _parameters(self) -> dict[str, Any]:
        return {**self.arguments, **self.constants}

    def _options(self) -> dict[str, Any]:
        own = {"num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": True}
        if self.overlap:
            own["launch_pdl"] = True
        return own if self.registers is None else own | {"maxnreg": self.registers}


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of local memory a thread, the larger of a function's stack and its local variables."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(file)]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = {name: max(map(int, re.findall(rf"\b{name}:(\d+)", report))) for name in ("REG", "STACK", "LOCAL")}
    return used["REG"], max(used["STACK"], used["LOCAL"])


def runs(plan: Callable[P, Launch | tuple[Launch, ...]]) -> Callable[P, None]:
    """The function that queues, in order, what `plan` describes: it takes the same and is documented there."""

    @functools.wraps(plan)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        planned = plan(*args, **kwargs)
        for launch in planned if isinstance(planned, tuple) else (planned,):
            launch.run()

    return run
