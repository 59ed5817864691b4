"""Pages of PDFs a second, and the memory that it takes: the product's reader beside pypdfium2 and pypdf alone.

    python -m benchmarks.pdf_speed FOLDER [--rounds 5] [--name pdf_speed]

Each engine reads all files of the folder in a process of its own, the engines in turn, `--rounds` times. Processor time
of the reading alone is counted, without start and imports, and the best round is given: the machine may be busy. Ours
is everything that is done to a page: text, order, hidden text, quality, labels, notes. Writes
benchmarks/results/<name>.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.report import machine, save

from unabridged.ingest.document import Page
from unabridged.ingest.extract import read_source
from unabridged.ingest.limits import Limits
from unabridged.ingest.reading import Place, Reading, Source


def ours(data: bytes) -> int:
    """Pages read as the reader process does it."""
    reading = Reading(Limits(ocr="off"), read_source)
    items = read_source(Source("a.pdf", data), reading, Place())
    return sum(isinstance(item, Page) and item.ref == 0 for item in items)


def pdfium(data: bytes) -> int:
    """The text of each page, nothing else."""
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    for index in range(len(document)):
        page = document[index]
        textpage = page.get_textpage()
        textpage.get_text_range()
        textpage.close()
        page.close()
    count = len(document)
    document.close()
    return count


def pypdf_alone(data: bytes) -> int:
    """The text of each page, nothing else."""
    import io

    import pypdf

    return len([page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages])


ENGINES: dict[str, Callable[[bytes], int]] = {"ours": ours, "pypdfium2": pdfium, "pypdf": pypdf_alone}


def measure(engine: str, folder: Path) -> dict[str, Any]:
    """One engine over all files, in this process."""
    files = [path.read_bytes() for path in sorted(folder.glob("*.pdf"))]
    read = ENGINES[engine]
    read(files[0])
    begun = time.process_time()
    pages = sum(read(data) for data in files)
    seconds = time.process_time() - begun
    return {"pages": pages, "seconds": seconds, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def main() -> None:
    """Measure, print, save; with --engine, measure one in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="pdf_speed", help="of the file in benchmarks/results")
    parser.add_argument("--engine", choices=list(ENGINES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(measure(arguments.engine, arguments.folder)))
        return
    rounds: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for _ in range(arguments.rounds):
        for engine in ENGINES:
            command = [sys.executable, "-m", "benchmarks.pdf_speed", str(arguments.folder), "--engine", engine]
            rounds[engine].append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    best = {engine: min(results, key=lambda result: float(result["seconds"])) for engine, results in rounds.items()}
    print("| engine | pages | CPU seconds | pages/s | of pypdfium2 | peak MiB |\n|-|-:|-:|-:|-:|-:|")
    for engine, result in best.items():
        speed, ratio = result["pages"] / result["seconds"], best["pypdfium2"]["seconds"] / result["seconds"]
        cells = result["pages"], f"{result['seconds']:.2f}", f"{speed:.0f}", f"{ratio:.2f}", result["peak_mib"]
        print(f"| {engine} | {' | '.join(map(str, cells))} |")
    save(arguments.name, {"machine": machine(), "command": sys.argv, "best": best, "rounds": rounds})


if __name__ == "__main__":
    main()
