"""Kills an addition with SIGKILL, over and over: is anything lost, stored twice or damaged?

    python -m benchmarks.library_kills [--kills 1000] [--seed 1] [--folder DIR]

An addition of some hundred documents (text, mail with attachments, PDF) is killed at a random moment: its process, its
reader processes, all of them together, or a reader alone, which the addition must survive. Between kills files are
changed, renamed, copied and removed. Every few kills it may finish. Then the library must say exactly what one says
that was never disturbed, and hold against its own check (database, index, tokens, files). Writes
benchmarks/results/library_kills.json.
"""

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.report import machine, save

from unabridged.ingest.adding import filing
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog import storing
from unabridged.ingest.catalog.audit import audit
from unabridged.ingest.catalog.findings import Finding
from unabridged.ingest.library import Library

_KINDS = ("all", "all", "process", "reader")
_PER_LIBRARY = 10  # kills until one may finish
_LETTER = """From {0}@example.org Mon Jan  1 00:00:00 2024
From: {0}@example.org
To: all@example.org
Message-ID: <{1}@example.org>
Subject: Letter {1}
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="x"

--x
Content-Type: text/plain

Letter {1} says {2}. {3}
--x
Content-Type: text/plain
Content-Disposition: attachment; filename="note.txt"

Note {1}: {2}.
--x--

"""


def make(root: Path) -> None:
    """The files."""
    import io

    from pypdf import PdfWriter

    (root / "letters").mkdir(parents=True)
    for number in range(40):
        folder = root / ("letters" if number % 2 else "")
        (folder / f"{number}.txt").write_text(f"File {number} says {number * 7919}. " * (20 + 40 * (number % 5)))
    filler = "Words of it. " * 60
    box = "".join(_LETTER.format("a", number, number * 7919, filler) for number in range(50))
    (root / "box.mbox").write_text(box)
    for name, pages in (("short.pdf", 3), ("long.pdf", 20)):
        with PdfWriter() as writer:
            for _ in range(pages):
                writer.add_blank_page(200, 200)
            out = io.BytesIO()
            writer.write(out)
        (root / name).write_bytes(out.getvalue())


def change(root: Path, moment: random.Random) -> None:
    """Something that people do to their files."""
    texts = sorted(root.rglob("*.txt"))
    one = moment.choice(texts)
    what = moment.randrange(5)
    if what == 0:
        one.write_text(f"Changed to {moment.random()}. " * 30)
    elif what == 1:
        one.rename(root / f"renamed{moment.randrange(10**6)}.txt")
    elif what == 2:
        shutil.copy(one, root / f"copy{moment.randrange(10**6)}.txt")
    elif what == 3 and len(texts) > 30:
        one.unlink()
    else:  # as logs are rotated
        one.rename(one.with_name(f"old{moment.randrange(10**6)}.txt"))
        one.write_text(f"A new beginning {moment.random()}. " * 30)


def start(database: Path, root: Path, jobs: int = 1) -> int:
    """An addition in a process of its own, with small transactions; its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        storing.BATCH_CHARACTERS, filing._SMALL, filing._GROUP_SECONDS = 10_000, 20_000, 0.03
        with Library.open(database) as library:
            for _ in add(library, [root], options=AddOptions(jobs=jobs)):
                pass
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def children(pid: int) -> list[int]:
    """The reader processes of an addition."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def kill(pid: int, kind: str, moment: random.Random) -> bool:
    """Kills, and says whether the addition was still at work."""
    readers = children(pid)
    victims = {"all": [pid, *readers], "process": [pid], "reader": readers and [moment.choice(readers)]}[kind]
    for victim in victims or []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if kind == "reader":
        assert status == 0, f"an addition whose reader was killed ended with {status}"
        return bool(victims)
    return os.WIFSIGNALED(status)


def said(database: Path) -> list[tuple[Any, ...]]:
    """All that a library says, in an order of its own."""
    with Library.open(database) as library:
        rows = library.documents()
        found = [
            (path, row.kind, row.title, row.status, row.reason, row.pages, row.sha256, _text(library, row.id))
            for row in rows
            for path in (row.path, *row.also)
        ]
        loose = library.connection.execute(
            "SELECT COUNT(*) FROM contents WHERE state != 'done' OR id NOT IN (SELECT content_id FROM files)"
        ).fetchone()[0]
        damage = [step for step in audit(library) if isinstance(step, Finding) and step.grade == "damaged"]
    assert not damage, damage
    assert not loose, f"{loose} contents that no file has"
    return sorted(found)


def _text(library: Library, document: int) -> str:
    pages = [(page.number, page.label, page.text, page.parts, page.flags) for page in library.pages(document)]
    return hashlib.sha256(repr(pages).encode()).hexdigest()


def run(kills: int, seed: int, home: Path) -> dict[str, Any]:
    """The whole of it."""
    moment, counts, libraries, seconds = random.Random(seed), Counter[str](), 0, 1.0
    began = time.monotonic()
    root = home / "files"
    make(root)
    while counts.total() < kills:
        database = home / "killed" / "library.db"
        for _ in range(_PER_LIBRARY):
            pid, kind = start(database, root, moment.choice((1, 2))), moment.choice(_KINDS)
            time.sleep(moment.uniform(0.02, 1.1 * seconds))
            if kill(pid, kind, moment):
                counts[kind] += 1
            else:
                shutil.rmtree(database.parent)  # it was quicker: from the beginning
            if database.exists():
                with Library.open(database) as library:
                    assert library.verify() == [], library.verify()
            if moment.random() < 0.3:
                change(root, moment)
        assert os.waitpid(start(database, root), 0)[1] == 0
        at = time.monotonic()
        assert os.waitpid(start(home / "whole" / "library.db", root), 0)[1] == 0
        seconds = time.monotonic() - at
        killed, whole = said(database), said(home / "whole" / "library.db")
        assert killed == whole, _difference(killed, whole)
        libraries += 1
        shutil.rmtree(database.parent)
        shutil.rmtree(home / "whole")
        print(f"{counts.total():,} kills in {time.monotonic() - began:,.0f} s, {libraries} libraries whole", flush=True)
    return {
        "kills": counts.total(),
        "by": dict(counts),
        "libraries_compared": libraries,
        "documents_each": len(whole),
        "seconds_undisturbed": round(seconds, 2),
        "seconds": round(time.monotonic() - began),
        "lost": 0,
        "twice": 0,
        "damaged": 0,
    }


def _difference(killed: list[tuple[Any, ...]], whole: list[tuple[Any, ...]]) -> str:
    lost, more = Counter(whole) - Counter(killed), Counter(killed) - Counter(whole)
    return f"lost {list(lost.items())[:3]}, more {list(more.items())[:3]}"


def main() -> None:
    """Run and write the result; ends with an error at the first thing that is lost, twice or damaged."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as home:
        result = run(options.kills, options.seed, Path(home))
    result = {"machine": machine(), **result}
    print(save("library_kills", result), result)


if __name__ == "__main__":
    main()
