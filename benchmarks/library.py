"""The library at size: adding many small files, looking at them again, memory; beside another version of the program.

    python -m benchmarks.library [--files 100000] [--folder DIR] [--beside SRC]

Makes a folder of small text files, adds it in a process of its own, and looks again: as it is, after a change of ten
files, after the folder was renamed, and through the watch's eyes (one path). `--beside` is the `src` folder of another
checkout, whose additions run in turn with ours over the same files. CPU seconds count the process and its readers.
Writes benchmarks/results/library.json.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.report import machine, save

_ROOT = Path(__file__).resolve().parent.parent
_SYLLABLES = ["ka", "lo", "mi", "ten", "ra", "so", "ver", "dun", "pel", "ist", "or", "an", "ge", "tu", "mor", "sal"]

# Runs in the version that is measured: its `add` knows nothing of ours.
_ADD = """
import json, resource, sys, time
from pathlib import Path
from unabridged.ingest.library import Library
try:
    from unabridged.ingest.adding.add import AddOptions, add
    from unabridged.ingest.catalog.rows import FileDone
except ImportError:  # a version whose modules were not in packages yet
    from unabridged.ingest.add import AddOptions, add
    from unabridged.ingest.rows import FileDone
def cpu():
    return sum(getattr(resource.getrusage(who), name) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
               for name in ("ru_utime", "ru_stime"))
database, folder, only = sys.argv[1:4]
options = AddOptions(only=[only]) if only else AddOptions()
with Library.open(Path(database)) as library:
    began, used, changes = time.monotonic(), cpu(), {}
    for item in add(library, [folder], options=options):
        if isinstance(item, FileDone):
            changes[item.change] = changes.get(item.change, 0) + 1
    wall = time.monotonic() - began
print(json.dumps({"changes": changes, "wall_s": round(wall, 2), "cpu_s": round(cpu() - used, 2),
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))
"""


def make(root: Path, files: int) -> int:
    """Folders of a hundred notes; their bytes."""
    moment = random.Random(7)
    words = ["".join(moment.choices(_SYLLABLES, k=moment.randint(1, 4))) for _ in range(20_000)]
    size = 0
    for number in range(files):
        folder = root / f"d{number // 4_000:03}" / f"case{number // 100:05}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        count = int(min(4_000, moment.lognormvariate(4.6, 0.9))) + 5
        text = f"File {number}. {' '.join(moment.choices(words, k=count))}\n"
        size += (folder / f"note{number % 100}.txt").write_text(text)
    return size


def added(source: Path, database: Path, root: Path, only: str = "") -> dict[str, Any]:
    """An addition by the version at `source`."""
    environ = os.environ | {"PYTHONPATH": str(source)}
    command = [sys.executable, "-c", _ADD, str(database), str(root), only]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure(home: Path, files: int, beside: Path | None) -> dict[str, Any]:
    """All of it."""
    root = home / "files"
    size = make(root, files)
    ours, database = _ROOT / "src", home / "ours" / "library.db"
    steps: dict[str, Any] = {"new": added(ours, database, root)}
    if beside is not None:
        steps["new, beside"] = added(beside, home / "beside" / "library.db", root)
    steps["unchanged"] = added(ours, database, root)
    if beside is not None:
        steps["unchanged, beside"] = added(beside, home / "beside" / "library.db", root)
    steps["unchanged, again"] = added(ours, database, root)
    if (cold := _cold(lambda: added(ours, database, root))) is not None:
        steps["unchanged, caches dropped"] = cold
    for number in range(10):
        (root / "d000" / "case00000" / f"note{number}.txt").write_text(f"Another text {number}.")
    steps["one path of the watch"] = added(ours, database, root, str(root / "d000" / "case00000" / "note1.txt"))
    steps["ten changed"] = added(ours, database, root)
    root.rename(home / "moved")
    steps["folder renamed"] = added(ours, database, home / "moved")
    return {
        "files": files,
        "bytes": size,
        "library_bytes": database.stat().st_size,
        "files_per_second": round(files / steps["new"]["wall_s"]),
        "files_per_cpu_second": round(files / steps["new"]["cpu_s"]),
        "steps": steps,
    }


def _cold(work: Any) -> dict[str, Any] | None:
    """The work with the system's caches dropped before, where we may do that."""
    try:
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        return None
    result: dict[str, Any] = work()
    return result


def main() -> None:
    """Run and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    parser.add_argument("--beside", type=Path, help="the src folder of another version")
    parser.add_argument("--name", default="library", help="of the file below benchmarks/results")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        result = {
            "machine": machine(),
            "load_before": os.getloadavg()[0],
            **measure(home, options.files, options.beside and options.beside.resolve()),
        }
    finally:
        shutil.rmtree(home)
    print(json.dumps(result, indent=1))
    print(save(options.name, result))


if __name__ == "__main__":
    main()
