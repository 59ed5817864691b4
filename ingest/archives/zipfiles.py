"""The members of a ZIP file: found even where its directory is lost, unpacked piece by piece. Touches no disk.

Nothing here trusts what the file claims: names are made harmless, sizes are counted while unpacking, and a member that
ends early gives what it has before it raises. How much is too much is for the caller to say (`bomb`, `read`).
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from unabridged.ingest.archives import unpack, zip_crypto
from unabridged.ingest.archives.zip_directory import Entry, directory, salvage
from unabridged.ingest.texts import charset
from unabridged.ingest.texts.normalise import one_line

MEMBERS = 100_000  # of one file; the rest is counted
_RATIO = 200  # text seldom packs 50:1; only what was made to harm packs better than this
_RATIO_FROM = 32 << 20  # bytes
_HEADER = 30
_DRIVE = re.compile(r"^[A-Za-z]:")
_UTF8 = 0x800
_ENCRYPTED = 0x1
_MULTIBYTE = frozenset({"cp932", "gb18030", "big5hkscs", "cp949", "euc_jp", "cp866"})


class ZipError(Exception):
    """A member cannot be unpacked, or only its beginning, which is `got`. The text is the reason, for people."""

    got: bytes = b""


class ZipBomb(ZipError):
    """A member is larger than it may be, or so much larger than what is stored of it that it was made to harm."""


class ZipLocked(ZipError):
    """A member is encrypted, and no password fits."""


@dataclass(frozen=True)
class Member:
    """A file in a ZIP file. `name` has "/" between folders and leads nowhere outside."""

    name: str
    entry: Entry

    @property
    def size(self) -> int:
        """Bytes unpacked, as claimed."""
        return self.entry.size

    @property
    def encrypted(self) -> bool:
        """Needs a password."""
        return bool(self.entry.flags & _ENCRYPTED)


class Zip:
    """A ZIP file that is open. `damage` says what is wrong with it as a whole; `left_out` members are past the cap."""

    def __init__(self, file: BinaryIO, passwords: Sequence[str] = ()) -> None:
        self._file = file
        self._passwords = list(passwords)
        entries, self.damage = directory(file, MEMBERS)
        if entries is None or self.damage:
            found = salvage(file, MEMBERS)
            entries = found if entries is None or found.total > entries.total else entries
        self.left_out = max(0, entries.total - len(entries.found))
        self.members = _named(entries.found)
        self._by_name = {member.name.casefold(): member for member in reversed(self.members)}

    def find(self, name: str) -> Member | None:
        """The member of this name; case and a leading slash do not count."""
        return self._by_name.get(name.lstrip("/").casefold())

    def read(self, member: Member, limit: int) -> bytes:
        """All of a member. Raises ZipError where it is more than `limit` bytes, damaged or locked."""
        if not member.encrypted:
            return self._whole(self.pieces(member), limit)
        for password in self._passwords:
            try:
                return self._whole(self._decrypted(member, password), limit)
            except zip_crypto.WrongPassword:
                continue
        raise ZipLocked("is encrypted and needs a password")

    def pieces(self, member: Member) -> Iterator[bytes]:
        """A member's bytes as they are unpacked. Raises ZipError, behind what could be unpacked."""
        if member.encrypted:
            raise ZipLocked("is encrypted and needs a password")
        yield from self._checked(self._raw(member), member.entry, member.entry.method)

    def _whole(self, pieces: Iterator[bytes], limit: int) -> bytes:
        data = bytearray()
        try:
            for piece in pieces:
                data += piece
                if len(data) > limit:
                    raise ZipBomb(f"unpacks to more than {limit >> 20:,} MB: not read")
        except ZipError as error:
            error.got = b"" if isinstance(error, ZipBomb) else bytes(data)
            raise
        return bytes(data)

    def _checked(self, raw: Iterator[bytes], entry: Entry, method: int) -> Iterator[bytes]:
        most = max(_RATIO_FROM, _RATIO * entry.packed)
        if entry.size > most:
            raise ZipBomb(f"unpacks to {entry.size >> 20:,} MB from {entry.packed >> 10:,} KB: not unpacked")
        check = size = 0
        try:
            for piece in unpack.unpacked(raw, method):
                check = zlib.crc32(piece, check)
                size += len(piece)
                if size > most:
                    raise ZipBomb(f"unpacks without end from {entry.packed >> 10:,} KB: stopped")
                yield piece
        except unpack.Broken as error:
            raise ZipError(str(error)) from error
        # AES has a check of its own, and then often no checksum.
        if entry.crc is not None and check != entry.crc and entry.method != zip_crypto.AES_METHOD:
            raise ZipError("its checksum is wrong: damaged")

    def _decrypted(self, member: Member, password: str) -> Iterator[bytes]:
        method, raw = zip_crypto.opened(self._raw(member), member.entry, password)
        try:
            yield from self._checked(raw, member.entry, method)
        except ZipBomb:
            raise
        except ZipError as error:
            # One wrong password in 256 passes the check of the old method and gives garbage.
            raise zip_crypto.WrongPassword from error

    def _raw(self, member: Member) -> Iterator[bytes]:
        """The stored bytes of a member."""
        entry = member.entry
        header = b""
        if entry.offset >= 0:
            self._file.seek(entry.offset)
            header = self._file.read(_HEADER)
        if len(header) < _HEADER or not header.startswith(b"PK\x03\x04"):
            raise ZipError("lies where the file has none: damaged")
        at = entry.offset + _HEADER + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        left = entry.packed
        while left > 0:
            self._file.seek(at)
            piece = self._file.read(min(left, 1 << 16))
            if not piece:
                return
            at += len(piece)
            left -= len(piece)
            yield piece


def safe_path(name: str) -> str:
    """A member's name as a relative path: no drive, no root, no "..", "/" between folders."""
    name = _DRIVE.sub("", name.replace("\\", "/"))
    parts = [one_line(part, 200) for part in name.split("/")]
    return "/".join(part for part in parts if part and part not in (".", ".."))


def _named(entries: list[Entry]) -> list[Member]:
    """Members without folders, their names decoded: UTF-8, else what the names together look like, else cp437."""
    strange = b"\n".join(entry.name for entry in entries[:2_000] if not _utf8(entry))
    guess = charset.detected(strange) if strange else None
    codec = guess if guess in _MULTIBYTE else "cp437"
    members = []
    for entry in entries:
        text = entry.unicode_name or entry.name.decode("utf-8" if _utf8(entry) else codec, "replace")
        if not text.endswith(("/", "\\")):
            members.append(Member(safe_path(text) or "unnamed", entry))
    return members


def _utf8(entry: Entry) -> bool:
    if entry.flags & _UTF8:
        return True
    try:
        entry.name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
