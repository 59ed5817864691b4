"""The lists of hashes and the facts of a bundle: how they are written, read and found.

A list has a line for each file, as `sha256sum` writes it: 64 hex digits, two spaces, a path with slashes. Paths are
relative, of printable ASCII, sorted. Standard library only.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

MANIFEST, SIGNATURE, FACTS, INSTALLED = "MANIFEST", "MANIFEST.sig", "bundle.json", "installed.sha256"
NAMESPACE = "unabridged-bundle"
"""What signatures are made for (`ssh-keygen -n`): one made for something else does not count."""
FORMAT = 1

_LINE = re.compile(r"([0-9a-f]{64})  ([!-~](?:[ -~]*[!-~])?)")
_BLOCK = 1 << 20


class Malformed(ValueError):
    """A list or the facts cannot be read: the file and what is wrong with it."""


@dataclass(frozen=True)
class Carried:
    """A model in the bundle. `size`: bytes; `licence`: as its source states it, empty where it states none."""

    name: str
    fingerprint: str
    size: int
    licence: str


@dataclass(frozen=True)
class Facts:
    """bundle.json: what the installer must know before it begins.

    `id` names the folder of the version; `python` is "3.11"; `glibc` the oldest C library that all wheels accept, as
    "2.28"; `installed` the bytes that installing takes; `driver` the oldest NVIDIA driver of the CUDA flavour, else
    empty; `launcher` the oldest C library that the carried launcher of Triton runs on, empty where none is carried and
    a machine with a GPU needs a C compiler and Python's headers; `epoch`: seconds.
    """

    id: str
    version: str
    python: str
    flavour: str
    platform: str
    glibc: str
    installed: int
    driver: str
    launcher: str
    commit: str
    epoch: int
    models: tuple[Carried, ...]
    format: int = FORMAT


def written(files: Mapping[str, str]) -> str:
    """The list of hashes by path. Raises Malformed for a path that it cannot hold."""
    lines = [f"{files[path]}  {path}" for path in sorted(files)]
    for line in lines:
        try:
            _parsed(line)
        except Malformed as error:
            raise Malformed(f"the list {error}") from error
    return "".join(f"{line}\n" for line in lines)


def read(file: Path) -> dict[str, str]:
    """Hashes by path. Raises Malformed, or OSError."""
    found, wrong = readable(file)
    if wrong:
        raise Malformed(f"{file} {wrong[0]}")
    return found


def readable(file: Path) -> tuple[dict[str, str], list[str]]:
    """Hashes by path of all lines that can be read, and what is wrong with each other line. Raises OSError."""
    found: dict[str, str] = {}
    wrong: list[str] = []
    for line in file.read_text("ascii", errors="backslashreplace").splitlines():
        try:
            path, digest = _parsed(line)
        except Malformed as error:
            wrong.append(str(error))
            continue
        if path in found:
            wrong.append(f"names {path} twice")
        found.setdefault(path, digest)
    return found, wrong


def _parsed(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None or "\\" in line:
        raise Malformed(f"has a line that is none of a list of hashes: {line[:120]!r}")
    path = PurePosixPath(match[2])
    if path.is_absolute() or ".." in path.parts or str(path) != match[2]:
        raise Malformed(f"names a path outside the folder: {match[2]!r}")
    return match[2], match[1]


def write_facts(facts: Facts) -> str:
    """The text of bundle.json."""
    return json.dumps(asdict(facts), indent=1, sort_keys=True) + "\n"


def read_facts(file: Path) -> Facts:
    """What bundle.json says. Raises Malformed, or OSError."""
    try:
        held = json.loads(file.read_text("utf-8"))
        models = tuple(Carried(**model) for model in held.pop("models"))
        facts = Facts(**held, models=models)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Malformed(f"{file} is not the facts of a bundle: {error}") from error
    if facts.format != FORMAT:
        raise Malformed(f"{file} has format {facts.format}, this installer knows {FORMAT}")
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", facts.id) is None:
        raise Malformed(f"{file} has the id {facts.id!r}, which names no folder")
    return facts


def sha256_of(file: Path) -> str:
    """Of a file's content."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
