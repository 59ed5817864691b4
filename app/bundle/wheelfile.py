"""One wheel as a zip: its metadata, its licences, and the files that installing it gives, with their hashes."""

import hashlib
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path, PurePosixPath

from unabridged.app.bundle.errors import BundleFailed

_LICENCE = re.compile(r"(?i)(licen[cs]e|copying|notice|authors|copyright|third.?party)")
_NOT_TEXT = (".py", ".pyc", ".so", ".json")


def normalised(name: str) -> str:
    """A distribution's name as the index has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class WheelFile:
    """A wheel on disk. `sha256`: of the file."""

    path: Path
    sha256: str

    @cached_property
    def name(self) -> str:
        """The distribution's name, as the index normalises it."""
        return normalised(self._metadata["Name"])

    @cached_property
    def version(self) -> str:
        """Its version."""
        return str(self._metadata["Version"])

    @cached_property
    def expression(self) -> str:
        """The SPDX expression that the metadata states; may be empty."""
        return str(self._metadata.get("License-Expression") or "")

    @cached_property
    def licence(self) -> str:
        """The expression, else what the licence field says, else the classifiers; may be empty."""
        classifiers = [
            line.rpartition(" :: ")[2]
            for line in self._metadata.get_all("Classifier", [])
            if line.startswith("License ::") and not line.endswith("OSI Approved")
        ]
        stated = str(self._metadata.get("License", "")).strip()
        # Some put the whole text there.
        short = stated if "\n" not in stated and len(stated) < 80 else ""
        return self.expression or short or "; ".join(classifiers)

    @cached_property
    def needs(self) -> frozenset[str]:
        """Names of the distributions that it asks for without an extra."""
        found = set()
        for line in self._metadata.get_all("Requires-Dist", []):
            requirement, _, marker = line.partition(";")
            match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
            if match is not None and "extra" not in marker:
                found.add(normalised(match[0]))
        return frozenset(found)

    @cached_property
    def glibc(self) -> tuple[int, int]:
        """The oldest C library that one of its tags accepts; (0, 0) where it holds no machine code."""
        tags = self.path.stem.split("-")[-1].split(".")
        old = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
        found = [old[tag.removesuffix("_x86_64")] for tag in tags if tag.removesuffix("_x86_64") in old]
        found += [(int(m[1]), int(m[2])) for tag in tags if (m := re.match(r"manylinux_(\d+)_(\d+)_", tag))]
        return min(found, default=(0, 0))

    def licences(self) -> Iterator[tuple[str, bytes]]:
        """Licence texts and notices: name and content."""
        with zipfile.ZipFile(self.path) as archive:
            for member in sorted(archive.namelist()):
                parts = PurePosixPath(member).parts
                inside = parts[0].endswith(".dist-info") or len(parts) <= 2
                named = _LICENCE.search(parts[-1]) or "licenses" in parts[:-1]
                if inside and named and not member.endswith(("/", *_NOT_TEXT)):
                    yield "/".join(parts[1:] or parts), archive.read(member)

    def installed(self, python: str) -> Iterator[tuple[str, str, int]]:
        """What pip makes of it in an environment of that Python: path below it, SHA-256 and size of each file.

        Scripts are not among it: the installer removes them. Raises BundleFailed for a member that has no place.
        """
        with zipfile.ZipFile(self.path) as archive:
            for member, place in self.places(archive, python):
                digest = hashlib.sha256()
                with archive.open(member) as source:
                    while block := source.read(1 << 20):
                        digest.update(block)
                yield place, digest.hexdigest(), member.file_size

    def places(self, archive: zipfile.ZipFile, python: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
        """Each member of the opened wheel that stays, and where pip puts it. Raises BundleFailed."""
        for member in archive.infolist():
            place = None if member.is_dir() else self._place(member.filename, python)
            if place is not None:
                yield member, place

    def _place(self, member: str, python: str) -> str | None:
        """Where pip puts a member, below the environment; None for those that do not stay. Raises BundleFailed."""
        packages = f"lib/python{python}/site-packages"
        parts = PurePosixPath(member).parts
        if ".." in parts or member.startswith("/"):
            raise BundleFailed(f"{self.path.name} has a file outside its folder: {member}", "do not use this wheel")
        if parts[0].endswith(".dist-info") and parts[1:] in (("RECORD",), ("RECORD.jws",), ("RECORD.p7s",)):
            return None
        if not parts[0].endswith(".data"):
            return f"{packages}/{member}"
        kind, rest = parts[1], "/".join(parts[2:])
        folders = {"purelib": packages, "platlib": packages, "data": "", "scripts": None}
        folders["headers"] = f"include/site/python{python}/{parts[0].rpartition('-')[0]}"
        if kind not in folders:
            raise BundleFailed(f"{self.path.name} has a file that has no place: {member}", "report it")
        folder = folders[kind]
        return None if folder is None else f"{folder}/{rest}".lstrip("/")

    @cached_property
    def _metadata(self) -> Message:
        with zipfile.ZipFile(self.path) as archive:
            (member,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            return HeaderParser().parsestr(archive.read(member).decode("utf-8", "replace"))
