"""An installed version against the papers of its bundle: every difference, not the first.

The chain: a signature covers MANIFEST, MANIFEST the list of what installing gives, the list each file. A broken link of
it is a difference itself and hides no other: files are compared with what the list says, whatever MANIFEST is like.
Nothing is changed. Standard library only, so that it works where an installed package does not.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from unabridged.app.installer.codes import DIFFERS, NOTHING, OK, SIGNATURE, Stop
from unabridged.app.installer.comparing import Difference, differences
from unabridged.app.installer.manifest import (
    FACTS,
    INSTALLED,
    MANIFEST,
    Malformed,
    read_facts,
    readable,
    sha256_of,
)
from unabridged.app.installer.manifest import SIGNATURE as SIGNED
from unabridged.app.installer.prefix import OURS
from unabridged.app.installer.signature import signer

PAPERS = "bundle"
"""Folder of a version with the bundle's papers."""
_AGAIN = "install the bundle again"


def is_version(folder: Path) -> bool:
    """Whether an installer made this folder, by its layout: its papers may be gone."""
    versions = folder.parent
    if versions.name == "versions" and (versions.parent / OURS).is_file():
        return True
    # A Debian package has no prefix around it.
    return (folder / PAPERS).is_dir() or (
        (folder / "setup/unabridged").is_dir() and (folder / "bin/unabridged").exists()
    )


def compared(folder: Path) -> Iterator[Difference]:
    """Every difference between a version and its papers."""
    papers = folder / PAPERS
    manifest, wrong = _lines(papers / MANIFEST)
    yield from (Difference(f"{PAPERS}/{MANIFEST}", reason) for reason in wrong)
    listed, unread = _lines(papers / INSTALLED)
    yield from (Difference(f"{PAPERS}/{INSTALLED}", reason) for reason in unread)
    for paper in (FACTS, INSTALLED):
        file = papers / paper
        if file.is_file() and manifest:
            found, expected = sha256_of(file), manifest.get(paper)
            if found != expected:
                reason = f"has sha256 {found}, not {expected}" if expected else "is not named in MANIFEST"
                yield Difference(f"{PAPERS}/{paper}", reason)
    try:
        read_facts(papers / FACTS)
    except Malformed as error:
        yield Difference(f"{PAPERS}/{FACTS}", f"cannot be read: {error}")
    except OSError as error:
        yield Difference(f"{PAPERS}/{FACTS}", _refused(error))
    if listed:
        yield from differences(folder, listed)
    else:
        yield Difference(f"{PAPERS}/{INSTALLED}", "names no file, so that none could be compared")


def verify(folder: Path, allowed: Path | None, *, as_json: bool) -> int:
    """The command: name every difference and what is wrong with the signature. Returns the exit code."""
    if not is_version(folder):
        raise Stop(
            NOTHING, f"{folder} was not installed from a bundle", "name the folder of all versions with --prefix"
        )
    count = 0
    for one in compared(folder):
        count += 1
        line = json.dumps({"path": one.path, "reason": one.reason}) if as_json else f"{one.path}: {one.reason}"
        print(line, file=sys.stdout if as_json else sys.stderr, flush=True)
    who, problem = "", None
    if allowed is not None:
        try:
            who = signer(folder / PAPERS / MANIFEST, folder / PAPERS / SIGNED, allowed)
        except Stop as stop:
            problem = stop
    if as_json:
        said = problem.message if problem else ""
        told = {"id": folder.name, "signed_by": who, "signature": said, "differences": count}
        print(json.dumps(told), flush=True)
    if problem is not None:
        print(f"signature: {problem.message} ({problem.remedy})", file=sys.stderr, flush=True)
    elif not as_json:
        print(f"signed by {who}" if who else "no signature was checked: no file allowed_signers, give --signers")
    if count:
        raise Stop(DIFFERS, f"{folder}: {count} differences from the manifest", _AGAIN)
    if problem is not None:
        raise Stop(SIGNATURE, f"{folder}: all files are as the list says, but nobody vouches for it", _AGAIN)
    print(f"{folder}: all files are as they were built", file=sys.stderr if as_json else sys.stdout)
    return OK


def _lines(file: Path) -> tuple[dict[str, str], list[str]]:
    """The hashes that can be read, and what is wrong with the file."""
    try:
        return readable(file)
    except OSError as error:
        return {}, [_refused(error)]


def _refused(error: OSError) -> str:
    return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
