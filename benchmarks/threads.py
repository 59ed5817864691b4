"""What is done with mail behind reading it: labels, threads, comparing quotations; and what a context saves by it.

    python -m benchmarks.threads [--mailbox FILE[.xz]]

Adds the mailbox to a library of its own, then measures in this process, in CPU seconds: labels of all bodies, the rows
and threads of all messages written anew (hashes as the reader gave them), one message more, the comparison of all
threads. Beside them what reading the same messages takes, so that each is a share of it. Writes
benchmarks/results/threads.json.
"""

import argparse
import lzma
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.mail import DEFAULT, ours
from benchmarks.report import machine, save

from unabridged.ingest.adding.add import add
from unabridged.ingest.catalog import messages
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.repeats import repeats
from unabridged.ingest.document import PartKind
from unabridged.ingest.library import Library
from unabridged.ingest.mail.labels import label

ONE = (
    b"From a@b Mon Mar  3 09:12:44 2025\nFrom: Ann <a@b.example>\nMessage-ID: <one@more>\nReferences: <%s>\n"
    b"Subject: Re: one more\n\nOne more.\n"
)


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mailbox", type=Path, default=DEFAULT)
    with tempfile.TemporaryDirectory() as folder:
        path = _plain(parser.parse_args().mailbox, Path(folder))
        with Library.open(Path(folder) / "data" / "library.db") as library:
            for _ in add(library, [path]):
                pass
            found = {"machine": machine(), **_measured(library, path, Path(folder))}
    save("threads", found)
    for name, value in found.items():
        print(f"{name:24}{value}")


def _plain(mailbox: Path, folder: Path) -> Path:
    path = folder / "box.mbox"
    with lzma.open(mailbox) if mailbox.suffix == ".xz" else mailbox.open("rb") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)
    return path


def _measured(library: Library, path: Path, folder: Path) -> dict[str, Any]:
    connection = library.connection
    bodies = [row["text"] for row in connection.execute("SELECT text FROM pages")]
    ids = [row["document_id"] for row in connection.execute("SELECT document_id FROM messages")]
    reading, _ = _timed(lambda: sum(1 for _ in ours(str(path))))
    labelling, _ = _timed(lambda: [label(body) for body in bodies])
    with transaction(connection):
        joining, _ = _timed(lambda: messages.refresh(connection))
    comparing, repeated = _timed(lambda: repeats(library, ids))
    quoted, left_out = _characters(library), sum(one.end - one.start for each in repeated.values() for one in each)
    return {
        "messages": len(ids),
        "threads": connection.execute("SELECT COUNT(*) FROM threads").fetchone()[0],
        "reading_s": reading,
        "labels_s": labelling,
        "threads_s": joining,
        "repeats_s": comparing,
        "one_more_ms": _one_more(library, folder),
        "characters": sum(map(len, bodies)),
        "quoted_characters": quoted,
        "repeated_characters": left_out,
        "quoted_share_repeated": round(left_out / quoted, 3),
    }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = work()
    return round(time.process_time() - began, 2), found


def _characters(library: Library) -> int:
    kinds = (PartKind.QUOTED, PartKind.FORWARDED)
    rows = library.connection.execute("SELECT p.value FROM pages, json_each(pages.parts) p")
    parts = (row["value"].strip("[]").split(",") for row in rows)
    return sum(int(end) - int(start) for kind, start, end in parts if kind.strip('"') in kinds)


def _one_more(library: Library, folder: Path) -> float:
    """Milliseconds of CPU of this process for a mailbox of one answer."""
    row = library.connection.execute("SELECT message_id FROM messages ORDER BY document_id DESC LIMIT 1").fetchone()
    (folder / "more.mbox").write_bytes(ONE % row["message_id"].encode())
    seconds, _ = _timed(lambda: list(add(library, [folder / "more.mbox"])))
    return seconds * 1000


if __name__ == "__main__":
    main()
