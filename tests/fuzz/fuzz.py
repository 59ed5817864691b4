"""Coverage-guided fuzzing of what reads mail and PDF (atheris, Python 3.11, not among the dependencies).

    pip install atheris
    python -m tests.fuzz.fuzz TARGET CORPUS [-max_total_time=600 -timeout=10 -rss_limit_mb=2048]

TARGET is a name in TARGETS; CORPUS a folder that it fills, seeded with `--seed FOLDER` from files of mail. What it
finds is written to a file crash-*, timeout-* or oom-*, which the same command with that file in place of CORPUS reads
again. The properties are those of `properties.py`, which the test suite checks on small inputs.
"""

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["unabridged.ingest"]):
    from tests.fuzz.properties import TARGETS

SEED_BYTES = 65_536


def seed(target: str, corpus: Path, source: Path) -> None:
    """Copies small files into a corpus, under names of their content."""
    corpus.mkdir(parents=True, exist_ok=True)
    for path in source.rglob("*"):
        if path.is_file() and path.stat().st_size <= SEED_BYTES:
            data = path.read_bytes()
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    print(f"{target}: {sum(1 for _ in corpus.iterdir())} files in {corpus}")


def main() -> None:
    """Runs a target for as long as the options of libFuzzer say."""
    target = sys.argv[1]
    if "--seed" in sys.argv:
        seed(target, Path(sys.argv[2]), Path(sys.argv[sys.argv.index("--seed") + 1]))
        return
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
