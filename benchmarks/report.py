"""What every benchmark prints beside its figures: the machine, the versions, the commit; and where results go."""

import json
import math
import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def interval(right: int, asked: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a proportion."""
    if asked == 0:
        return 0.0, 1.0
    share = right / asked
    centre = share + z * z / (2 * asked)
    spread = z * math.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked))
    scale = 1 + z * z / asked
    return (centre - spread) / scale, (centre + spread) / scale


def machine() -> dict[str, str | int]:
    """Processor, cores that this process may use, memory, versions, commit, date."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def save(name: str, result: dict[str, Any]) -> Path:
    """Write benchmarks/results/<name>.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return path


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _commit() -> str:
    if shutil.which("git") is None:
        return "unknown"
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=RESULTS.parent
    )
    return done.stdout.strip() or "unknown"
