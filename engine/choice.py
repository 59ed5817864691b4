"""Which device the torch engine computes on: a GPU that can, else the CPU. Loads no kernels where there is no GPU."""

import gc
import logging
import subprocess
from importlib.util import find_spec
from pathlib import Path

import torch

from unabridged.engine.backend import Backend
from unabridged.engine.errors import EngineUnavailable, OutOfMemory
from unabridged.engine.generate import TorchBackend
from unabridged.engine.options import EngineOptions
from unabridged.models.errors import ModelUnsupported, UnabridgedError

log = logging.getLogger("unabridged.engine")

# Tensor cores for bfloat16 and asynchronous copies, which the kernels are made of, came with it.
LEAST = (8, 0)


def load(model_dir: Path, options: EngineOptions) -> Backend:
    """The GPU's backend, or the CPU's where there is no GPU or it cannot run this model. Raises what TorchBackend does.

    A GPU that is there and not used is a note of `ready`. What was asked of its memory and does not fit is no reason to
    compute elsewhere: OutOfMemory says what would.
    """
    try:
        return load_gpu(model_dir, options)
    except (EngineUnavailable, ModelUnsupported, OutOfMemory) as error:
        if isinstance(error, OutOfMemory) and _asks(options):
            raise
        log.info("the CPU is used: %s", error)
        notes = (_not_used(error),) if torch.cuda.is_available() else ()
    # What was loaded before that is other programs' again.
    gc.collect()
    torch.cuda.empty_cache()
    return TorchBackend(model_dir, options, notes)


def load_gpu(model_dir: Path, options: EngineOptions) -> Backend:
    """The GPU's backend. Raises EngineUnavailable or OutOfMemory for the GPU, ModelUnsupported for the model, each with
    the way out, and what loading a model raises."""
    check_gpu()
    from unabridged.engine.gpu.backend import GpuBackend

    try:
        return GpuBackend(model_dir, options)
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            f"the GPU's memory does not hold {model_dir.name} and what it computes with",
            "close other programs on it, take a smaller model, or unabridged config set engine.device cpu",
        ) from error


def check_gpu() -> None:
    """Raises EngineUnavailable when no GPU can be used here, whatever the model."""
    if torch.version.cuda is None:
        raise EngineUnavailable(
            f"torch {torch.__version__} computes on the CPU only",
            "install torch's CUDA build (README, GPU), or: unabridged config set engine.device auto",
        )
    if not torch.cuda.is_available():
        raise EngineUnavailable("torch finds no CUDA device", "check `nvidia-smi`, or set engine.device cpu")
    found = torch.cuda.get_device_capability(0)
    if found < LEAST:
        raise EngineUnavailable(
            f"{torch.cuda.get_device_name(0)} has compute capability {found[0]}.{found[1]}, 8.0 is needed",
            "unabridged config set engine.device cpu",
        )
    if find_spec("triton") is None:
        raise EngineUnavailable("Triton is not installed", "pip install 'unabridged[gpu]'")
    _check_triton()


def _check_triton() -> None:
    """Triton builds its connection to the GPU on each machine anew, the first time that it is used there."""
    from triton.runtime import driver

    try:
        driver.active.get_current_target()
    except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as error:
        why = str(error).partition("\n")[0]
        raise EngineUnavailable(
            f"Triton does not start: {why}", "install a C compiler and Python's headers: apt install gcc python3-dev"
        ) from error


def _asks(options: EngineOptions) -> bool:
    return options.place != "auto" or options.context_tokens > 0 or options.vram_bytes > 0


def _not_used(error: UnabridgedError) -> str:
    way_out = f" ({error.hint})" if error.hint else ""
    return f"the GPU is not used: {error.message}{way_out}"
