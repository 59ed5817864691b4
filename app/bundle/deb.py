"""A .deb of the same parts, for systems whose packages are managed by dpkg: written here, without Debian's tools.

It holds what installing gives, taken from the wheels themselves, below /usr/lib/unabridged; dpkg does the upgrades and
the rolling back. Nothing runs when it is installed. An ar archive of three members, as deb(5) has it.
"""

import gzip
import hashlib
import io
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from unabridged.app.bundle import archive
from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.manifest import FACTS, INSTALLED, MANIFEST, SIGNATURE, Facts

_HOME = "usr/lib/unabridged"
_MAINTAINER = "Unabridged <unabridged@localhost>"
# Fast: nearly all of it is machine code and weights.
_LEVEL = 1
# Ten digits of an ar archive's head, less what stands before.
_LARGEST = 9_999_000_000
# What stands elsewhere, and where it leads to below _HOME.
_LINKS = {
    "usr/bin/unabridged": "../lib/unabridged/bin/unabridged",
    "usr/share/bash-completion/completions/unabridged": "../../../lib/unabridged/share/completions/unabridged.bash",
    "usr/share/zsh/vendor-completions/_unabridged": "../../../lib/unabridged/share/completions/unabridged.zsh",
    "usr/share/fish/vendor_completions.d/unabridged.fish": "../../../lib/unabridged/share/completions/unabridged.fish",
    "usr/share/applications/unabridged.desktop": "../../lib/unabridged/share/applications/unabridged.desktop",
}


def name(facts: Facts) -> str:
    """The package's file name."""
    return f"unabridged_{_version(facts)}_amd64.deb"


def write(bundle: Path, facts: Facts, file: Path) -> None:
    """Write the package of an unpacked bundle: the same bytes for the same bundle."""
    data = file.with_name(file.name + ".data")
    with data.open("wb") as raw:
        sums, size = _data(bundle, facts, raw)
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", _control(facts, sums, size))]
    with file.open("wb") as out:
        out.write(b"!<arch>\n")
        for member, content in members:
            _member(out, member, len(content), facts.epoch)
            out.write(content + b"\n" * (len(content) % 2))
        _member(out, "data.tar.gz", data.stat().st_size, facts.epoch)
        with data.open("rb") as source:
            while block := source.read(1 << 20):
                out.write(block)
        out.write(b"\n" * (data.stat().st_size % 2))
    data.unlink()
    if file.stat().st_size >= _LARGEST:
        raise BundleFailed("the package is larger than 9 GB, which no .deb may be", "leave --deb or a model away")


class _Summed:
    """Sums up what is read. MD5 is what dpkg's own check reads; what counts is the manifest."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.sum = hashlib.md5(usedforsecurity=False)

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size)
        self.sum.update(block)
        return block


@dataclass
class _Tree:
    """A tar that is being written; folders are added before what lies in them."""

    out: tarfile.TarFile
    epoch: int
    sums: list[str] = field(default_factory=list)
    size: int = 0
    _folders: set[str] = field(default_factory=set)

    def file(self, path: str, content: bytes, *, executable: bool = False) -> None:
        self.stream(path, io.BytesIO(content), len(content), executable=executable)

    def stream(self, path: str, source: IO[bytes], size: int, *, executable: bool) -> None:
        self._above(path)
        read = _Summed(source)
        archive.add(self.out, f"./{path}", cast("IO[bytes]", read), size, self.epoch, executable=executable)
        self.sums.append(f"{read.sum.hexdigest()}  {path}\n")
        self.size += size

    def link(self, path: str, target: str) -> None:
        self._above(path)
        self.out.addfile(archive.member(f"./{path}", self.epoch, link=target))

    def _above(self, path: str) -> None:
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            if folder not in self._folders:
                self._folders.add(folder)
                self.out.addfile(archive.member(f"./{folder}/", self.epoch, folder=True))


def _data(bundle: Path, facts: Facts, raw: IO[bytes]) -> tuple[list[str], int]:
    """Write data.tar.gz; the lines of md5sums and the bytes of all files."""
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0, compresslevel=_LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as out,
    ):
        tree = _Tree(out, facts.epoch)
        out.addfile(archive.member("./", facts.epoch, folder=True))
        _own(tree, bundle, facts)
        python = f"/usr/bin/python{facts.python}"
        for link in ("python", "python3", f"python{facts.python}"):
            tree.link(f"{_HOME}/bin/{link}", python if link == "python" else "python")
        for place, target in _LINKS.items():
            tree.link(place, target)
        files = bundle / "files"
        unit = (
            (files / "share/systemd/unabridged.service").read_text("utf-8").replace("@COMMAND@", "/usr/bin/unabridged")
        )
        tree.file("usr/lib/systemd/user/unabridged.service", unit.encode())
        manual = (files / "share/man/man1/unabridged.1").read_bytes()
        tree.file("usr/share/man/man1/unabridged.1.gz", gzip.compress(manual, mtime=0))
        tree.file("usr/share/doc/unabridged/copyright", _copyright(files))
        change = f"unabridged ({_version(facts)}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
        tree.file("usr/share/doc/unabridged/changelog.gz", gzip.compress(change.encode(), mtime=0))
    return tree.sums, tree.size


def _own(tree: _Tree, bundle: Path, facts: Facts) -> None:
    """Add everything of the version's folder."""
    settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {facts.python}\n"
    tree.file(f"{_HOME}/pyvenv.cfg", settings.encode())
    for paper in (MANIFEST, SIGNATURE, FACTS, INSTALLED):
        if (bundle / paper).exists():
            tree.file(f"{_HOME}/bundle/{paper}", (bundle / paper).read_bytes())
    for file in archive.files_of(bundle / "files"):
        found = file.stat()
        with file.open("rb") as source:
            path = f"{_HOME}/{file.relative_to(bundle / 'files').as_posix()}"
            tree.stream(path, source, found.st_size, executable=bool(found.st_mode & 0o100))
    for wheel in sorted((bundle / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as opened:
            for member, place in WheelFile(wheel, "").places(opened, facts.python):
                with opened.open(member) as source:
                    executable = bool(member.external_attr >> 16 & 0o111)
                    tree.stream(f"{_HOME}/{place}", source, member.file_size, executable=executable)


def _control(facts: Facts, sums: list[str], size: int) -> bytes:
    python = f"python{facts.python}"
    fields = {
        "Package": "unabridged",
        "Version": _version(facts),
        "Architecture": "amd64",
        "Maintainer": _MAINTAINER,
        "Installed-Size": str(size >> 10),
        "Depends": f"{python}, lib{python}-stdlib, libc6 (>= {facts.glibc}), libstdc++6, libgcc-s1",
        "Recommends": f"openssh-client{'' if facts.launcher or facts.flavour == 'cpu' else f', gcc, {python}-dev'}",
        "Section": "text",
        "Priority": "optional",
        "Description": "answers about a folder of documents, on this machine alone\n"
        " Puts whole documents into a language model's context and names document and\n"
        f" page for each sentence. Built for {facts.flavour.upper()} and Python {facts.python}; uses no network.",
    }
    text = "".join(f"{field}: {value}\n" for field, value in fields.items())
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", filename="", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as out,
    ):
        out.addfile(archive.member("./", facts.epoch, folder=True))
        for path, content in (("./control", text), ("./md5sums", "".join(sums))):
            archive.add(out, path, io.BytesIO(content.encode()), len(content.encode()), facts.epoch)
    return buffer.getvalue()


def _copyright(files: Path) -> bytes:
    own = (files / "share/licences/unabridged/licenses/LICENSE").read_text("utf-8")
    return (
        f"Licences of all parts: /usr/lib/unabridged/share/licences/INDEX.txt\n\nUnabridged itself:\n\n{own}".encode()
    )


def _version(facts: Facts) -> str:
    """As the id, in the letters that dpkg takes."""
    return facts.id.replace("-", "+")


def _member(out: IO[bytes], member: str, size: int, epoch: int) -> None:
    """The head of a member of an ar archive."""
    out.write(f"{member:<16}{epoch:<12}{0:<6}{0:<6}{100644:<8}{size:<10}`\n".encode("ascii"))
