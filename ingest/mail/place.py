"""What the place of a file says of the mail in it: folder, state and day of delivery.

Maildir, MH, Apple Mail (V*/…/Inbox.mbox/…/1.emlx) and Thunderbird (Archive.sbd/2025) are known by their layout. Looks
at names and at `.mh_sequences`, and never raises: a layout that is none says nothing.
"""

import base64
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from unabridged.ingest.texts.normalise import one_line

FILE_TIME = "file time"  # the date_source of a message that says no date itself
_FLAGS = {"S": "seen", "R": "replied", "F": "flagged", "T": "deleted", "D": "draft", "P": "forwarded"}
_INFO = re.compile(r"[:;!]2,([A-Za-z]*)$")
_DELIVERED = re.compile(r"(\d{9,10})\.")
_SHIFTED = re.compile(r"&([A-Za-z0-9+,]*)-")
_SEQUENCES = ".mh_sequences"
_MOST = 1 << 20  # bytes of a file of sequences
_LEVELS = 20  # folders upwards


class MailPlace(NamedTuple):
    """`meta` has folder and flags where they are known; `dated` the days of delivery, the best first. `message`: the
    file is one, whatever it begins with."""

    meta: dict[str, str]
    dated: tuple[tuple[str, str], ...]
    message: bool = False


def of(path: str, modified: float) -> MailPlace:
    """What the place of a file of mail says. `modified` is its time in seconds."""
    where = Path(path)
    by_time = (_iso(modified), FILE_TIME)
    if where.parent.name in ("cur", "new") and _in_maildir(where):
        return _maildir(where, by_time)
    if where.name.isdigit() and _exists(where.parent / _SEQUENCES):
        meta = {"folder": _shown(where.parent.name), "flags": _sequences(where)}
        return MailPlace(_known(meta), (by_time,), message=True)
    boxes = [part.removesuffix(".mbox") for part in where.parent.parts if part.endswith(".mbox")]
    if boxes and where.name.endswith(".emlx"):
        return MailPlace({"folder": _shown("/".join(boxes))}, (by_time,))
    folders = [part.removesuffix(".sbd") for part in where.parent.parts if part.endswith(".sbd")]
    if folders or _exists(where.with_name(where.name + ".msf")):
        return MailPlace({"folder": _shown("/".join([*folders, where.name]))}, (by_time,))
    return MailPlace({}, (by_time,))


def _in_maildir(where: Path) -> bool:
    """Whether a file in a folder `cur` or `new` is mail: the other is there too, or its name is one that Maildir gives.
    Copies and archives leave empty folders out."""
    box = where.parent.parent
    return _exists(box / "cur", box / "new") or bool(_DELIVERED.match(where.name) or _INFO.search(where.name))


def _maildir(where: Path, by_time: tuple[str, str]) -> MailPlace:
    info = _INFO.search(where.name)
    words = [_FLAGS[letter] for letter in (info[1] if info else "") if letter in _FLAGS]
    delivered = _DELIVERED.match(where.name)
    dated = ((_iso(float(delivered[1])), "Maildir name"),) if delivered else ()
    meta = {"folder": _box(where.parent.parent), "flags": " ".join(words)}
    return MailPlace(_known(meta), (*dated, by_time), message=True)


def _box(box: Path) -> str:
    """The name of a Maildir: of Maildir++ behind its dot; of nested ones with those that it lies in."""
    if box.name.startswith("."):
        return _shown(box.name[1:].replace(".", "/"))
    names = [box.name]
    for parent in list(box.parents)[:_LEVELS]:
        if not _exists(parent / "cur", parent / "new"):
            break
        names.insert(0, parent.name)
    return _shown("/".join(names))


def _sequences(where: Path) -> str:
    """The state of a message of an MH folder."""
    try:
        with (where.parent / _SEQUENCES).open(encoding="utf-8", errors="replace") as file:
            lines = file.read(_MOST).splitlines()
    except OSError:
        return ""
    number = int(where.name[:12])
    named = {name.strip(): numbers for name, _, numbers in (line.partition(":") for line in lines)}
    words = [] if _in(named.get("unseen", ""), number) else ["seen"]
    words += [word for word in ("replied", "flagged") if _in(named.get(word, ""), number)]
    return " ".join(words)


def _in(ranges: str, number: int) -> bool:
    """Whether a number is in "3 5-9"."""
    for piece in ranges.split():
        first, _, last = piece.partition("-")
        if first.isdigit() and int(first) <= number <= int(last if last.isdigit() else first):
            return True
    return False


def _shown(name: str) -> str:
    """A folder's name as people see it: IMAP's modified UTF-7 undone."""
    return one_line(_SHIFTED.sub(_unshifted, name), 200)


def _unshifted(match: re.Match[str]) -> str:
    if not match[1]:
        return "&"
    coded = match[1].replace(",", "/")
    try:
        return base64.b64decode(coded + "=" * (-len(coded) % 4)).decode("utf-16-be")
    except ValueError:
        return match[0]


def _exists(*paths: Path) -> bool:
    # Unlike Path.exists, which raises for a name that became longer than a file system takes.
    return all(os.path.exists(path) for path in paths)  # noqa: PTH110


def _known(meta: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in meta.items() if value}


def _iso(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""
