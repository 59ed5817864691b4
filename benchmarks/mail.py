"""Messages a second: our reader beside Python's mailbox and email, on one mailbox, in turns within one run.

    python -m benchmarks.mail [--mailbox FILE[.xz]] [--turn 500] [--copies 3]

Each way reads `--turn` messages, then the next way reads the same ones, so that a busy machine is as busy for all.
Times are CPU seconds of this process. Peak memory is measured in a process for each way, ours also on a mailbox of
`--copies` copies. Writes benchmarks/results/mail.json.

ours              from the file to the items that are stored: text by the charset ladder, HTML rendered, quotations and
                  signatures labelled, threads, dates and hashes as meta, attachments as documents
email default     mailbox.mbox and email with policy.default: eight headers, text of get_body(), names of attachments
email compat32    mailbox.mbox and email with policy.compat32: the same headers raw, the payload of the first text part
"""

import argparse
import email
import email.policy
import itertools
import json
import lzma
import mailbox
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.message import EmailMessage, Message
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.report import machine, save

from unabridged.ingest.document import Closed, Opened
from unabridged.ingest.extract import read_source
from unabridged.ingest.limits import Limits
from unabridged.ingest.mail import mbox
from unabridged.ingest.reading import Place, Reading, Source

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "mail" / "r-lists.mbox.xz"
HEADERS = ("subject", "from", "to", "cc", "date", "message-id", "references", "in-reply-to")
MIB = 1 << 20


def ours(path: str) -> Iterator[None]:
    """One step a message."""
    with open(path, "rb") as file:  # noqa: PTH123 - as a reader process does
        items = mbox.read(Source("mailbox", file=file), Reading(Limits(ocr="off"), read_source), Place())
        top = 0
        for item in items:
            top = item.ref if isinstance(item, Opened) and item.parent == 0 else top
            if isinstance(item, Closed) and item.ref and item.ref == top:
                yield


def package(policy: email.policy.Policy, take: Callable[[Any], None], path: str) -> Iterator[None]:
    """One step a message: parsed by Python's packages, and what a program takes from it taken."""
    box = mailbox.mbox(path, create=False)
    for key in box.iterkeys():
        take(email.message_from_bytes(box.get_bytes(key), policy=policy))
        yield


def _modern(message: EmailMessage) -> None:
    """With policy.default. The email package raises on broken messages; that costs nothing more here."""
    for name in HEADERS:
        with suppress(Exception):
            str(message[name])
    with suppress(Exception):
        if (body := message.get_body(("plain", "html"))) is not None:
            body.get_content()
    with suppress(Exception):
        [part.get_filename() for part in message.iter_attachments()]


def _raw(message: Message) -> None:
    """With policy.compat32."""
    for name in HEADERS:
        str(message[name])
    for part in message.walk():
        if part.get_content_maintype() == "text":
            with suppress(Exception):
                bytes(part.get_payload(decode=True)).decode("utf-8", "replace")
            return


WAYS: dict[str, Callable[[str], Iterator[None]]] = {
    "ours": ours,
    "email default": partial(package, email.policy.default, _modern),
    "email compat32": partial(package, email.policy.compat32, _raw),
}


def main() -> None:
    """Measure, print, save."""
    arguments = _arguments()
    if arguments.peak:
        print(_peak(*arguments.peak))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = _unpacked(arguments.mailbox, Path(folder))
        result: dict[str, Any] = {**machine(), "mailbox": arguments.mailbox.name, "bytes": path.stat().st_size}
        result |= _speed(str(path), arguments.turn)
        result["peak_mib"] = {name: _in_a_process(name, str(path)) for name in WAYS}
        many = Path(folder) / "copies.mbox"
        with many.open("wb") as file:
            for _ in range(arguments.copies):
                file.write(path.read_bytes().rstrip() + b"\n\n")
        result["peak_mib"][f"ours, {arguments.copies} copies"] = _in_a_process("ours", str(many))
    if not arguments.no_save:
        save("mail", result)
    print(json.dumps(result, indent=1))


def _speed(path: str, turn: int) -> dict[str, Any]:
    """Messages and CPU seconds of each way, in turns."""
    readers = {name: way(path) for name, way in WAYS.items()}
    seconds, counts = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0)
    while readers:
        for name, reader in list(readers.items()):
            start = time.process_time()
            read = sum(1 for _ in itertools.islice(reader, turn))
            seconds[name] += time.process_time() - start
            counts[name] += read
            if read < turn:
                del readers[name]
    rates = {name: counts[name] / seconds[name] for name in WAYS}
    ratios = {f"ours / {name}": rates["ours"] / rates[name] for name in WAYS if name != "ours"}
    return {"messages": counts, "cpu_seconds": seconds, "messages_per_second": rates, "ratios": ratios}


def _peak(name: str, path: str) -> int:
    """MiB of the largest resident size of this process after it has read all."""
    for _ in WAYS[name](path):
        pass
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def _in_a_process(name: str, path: str) -> int:
    command = [sys.executable, "-m", "benchmarks.mail", "--peak", name, path]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _unpacked(path: Path, folder: Path) -> Path:
    if path.suffix != ".xz":
        return path
    target = folder / path.stem
    with lzma.open(path) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file, MIB)
    return target


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mailbox", type=Path, default=DEFAULT)
    parser.add_argument("--turn", type=int, default=500)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
