"""The GPU as `doctor` and `plan` see it: the driver's own tool is asked, torch's build read from its version. Loads
neither."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

_QUERY = ("name", "memory.total", "memory.free", "compute_cap", "driver_version")
_SECONDS = 10

Seen = tuple[Literal["ok", "warn", "fail"], str, str]
# As engine.choice: what the kernels need, and what stores keys and values in 8 bits.
_LEAST, _FP8 = (8, 0), (8, 9)


@dataclass(frozen=True)
class Card:
    """The first card. `total` and `free`: bytes of its memory."""

    name: str
    total: int
    free: int
    capability: tuple[int, ...]
    driver: str

    @property
    def usable(self) -> bool:
        """Whether the kernels run on it."""
        return self.capability >= _LEAST

    @property
    def eight(self) -> bool:
        """Whether it keeps keys and values in 8 bits."""
        return self.capability >= _FP8


def look(device: str) -> Seen:
    """Level, text and remedy, for the setting engine.device."""
    card = found()
    if card is None:
        return _without(device)
    text = f"{card.name}, {card.free / (1 << 30):.1f} of {card.total / (1 << 30):.1f} GiB free, driver {card.driver}"
    if device == "cpu":
        return "ok", f"{text}; not used, engine.device is cpu", ""
    if not card.usable:
        capability = ".".join(map(str, card.capability))
        return _unused(device, f"{text}; compute capability {capability}, 8.0 is needed", "")
    for missing, remedy in missing_parts():
        return _unused(device, f"{text}; {missing}", remedy)
    kept = "8 bits" if card.eight else "16 bits, 8 need compute capability 8.9"
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


def missing_parts() -> Sequence[tuple[str, str]]:
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


def found() -> Card | None:
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
    parts = [part.strip() for part in lines[0].split(",")] if lines else []
    if len(parts) != len(_QUERY):
        return None
    name, total, free, capability, driver = parts
    try:
        return Card(name, int(total) << 20, int(free) << 20, tuple(map(int, capability.split("."))), driver)
    except ValueError:
        # "[N/A]", of cards whose driver does not say.
        return None
