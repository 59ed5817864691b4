"""The GPU as `doctor` sees it: the driver's own tool is asked, torch's build read from its version. Loads neither."""

import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

_QUERY = ("name", "memory.total", "memory.free", "compute_cap", "driver_version")
_SECONDS = 10

Seen = tuple[Literal["ok", "warn", "fail"], str, str]
# As engine.choice: what the kernels need, and what stores keys and values in 8 bits.
_LEAST, _FP8 = (8, 0), (8, 9)


def look(device: str) -> Seen:
    """Level, text and remedy, for the setting engine.device."""
    card = _card()
    if card is None:
        return _without(device)
    name, total, free, capability, driver = card
    text = f"{name}, {int(free) / 1024:.1f} of {int(total) / 1024:.1f} GiB free, driver {driver}"
    if device == "cpu":
        return "ok", f"{text}; not used, engine.device is cpu", ""
    found = tuple(int(part) for part in capability.split("."))
    if found < _LEAST:
        return _unused(device, f"{text}; compute capability {capability}, 8.0 is needed", "")
    for missing, remedy in _missing():
        return _unused(device, f"{text}; {missing}", remedy)
    kept = "8 bits" if found >= _FP8 else "16 bits, 8 need compute capability 8.9"
    return "ok", f"{text}; answers are computed on it, keys and values in {kept}", ""


def _without(device: str) -> Seen:
    if any(path.read_text().strip() == "0x10de" for path in Path("/sys/class/drm").glob("card?/device/vendor")):
        return _unused(device, "an NVIDIA card, but no driver", "install NVIDIA's driver to use it")
    if device == "cuda":
        return _unused(device, "none, and engine.device is cuda", "unabridged config set engine.device auto")
    return "ok", "none: the CPU is used", ""


def _unused(device: str, text: str, remedy: str) -> Seen:
    if device == "cuda":
        return "fail", text, remedy or "unabridged config set engine.device cpu"
    return (
        "warn",
        f"{text}: the CPU is used",
        remedy or "unabridged config set engine.device cpu, and this is said no more",
    )


def _missing() -> Sequence[tuple[str, str]]:
    """What keeps this installation from using a GPU, and the remedy."""
    try:
        build = version("torch")
    except PackageNotFoundError:
        return [("torch is not installed", "reinstall Unabridged")]
    if "+cpu" in build:
        return [(f"torch {build} computes on the CPU only", "install torch's CUDA build")]
    if find_spec("triton") is None:
        return [("Triton is not installed", "pip install 'unabridged[gpu]'")]
    return []


def _card() -> list[str] | None:
    """What the driver says of the first card, as _QUERY asks; None without driver or card."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    lines = [line for line in told.splitlines() if line.strip()]
    return [part.strip() for part in lines[0].split(",")] if lines and lines[0].count(",") == len(_QUERY) - 1 else None
