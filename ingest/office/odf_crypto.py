"""OpenDocument files with a password: each file of the package is encrypted by itself, as its manifest says."""

import base64
import binascii
import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from unabridged.ingest.archives.zipfiles import Zip, ZipError
from unabridged.ingest.document import Status
from unabridged.ingest.reading import Unreadable

_ITERATIONS = 10_000_000
_CHECKED = 1024  # bytes
_WHOLE = "encrypted-package"


@dataclass
class Lock:
    """How one file is encrypted: attributes of the manifest, as "element/attribute"."""

    facts: dict[str, str] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """An attribute, "" where it is missing."""
        return self.facts.get(name, "")

    def data(self, name: str) -> bytes:
        """An attribute's bytes. Raises Unreadable."""
        try:
            return base64.b64decode(self.value(name), validate=False)
        except (binascii.Error, ValueError) as error:
            raise Unreadable(Status.DAMAGED, "encrypted, and its manifest is damaged") from error


def decrypted(archive: Zip, locks: Mapping[str, Lock], password: str, limit: int) -> Zip | None:
    """The package without its encryption, None where the password does not open it. Raises Unreadable."""
    if _WHOLE in locks:
        raise Unreadable(Status.NEEDS_PASSWORD, "encrypted in the way of LibreOffice 24.2 or later: save it without")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as plain:
        for member in archive.members:
            if member.name.startswith(("META-INF/", "Thumbnails/", "Pictures/")):
                continue
            try:
                data = archive.read(member, limit)
            except ZipError as error:
                raise Unreadable(Status.DAMAGED, f"encrypted, and {member.name} {error}") from error
            if (lock := locks.get(member.name)) is not None:
                found = _opened(data, lock, password, limit)
                if found is None:
                    return None
                data = found
            plain.writestr(member.name, data)
    return Zip(out)


def _opened(data: bytes, lock: Lock, password: str, limit: int) -> bytes | None:
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    size = int(lock.value("key-derivation/key-size") or 16)
    count = int(lock.value("key-derivation/iteration-count") or 1)
    if not 0 < count <= _ITERATIONS or size not in (16, 24, 32):
        raise Unreadable(Status.UNSUPPORTED, "encrypted with parameters that are not read")
    start = "sha256" if "sha256" in lock.value("start-key-generation/start-key-generation-name").lower() else "sha1"
    first = hashlib.new(start, password.encode("utf-8")).digest()
    key = hashlib.pbkdf2_hmac("sha1", first, lock.data("key-derivation/salt"), count, size)
    vector = lock.data("algorithm/initialisation-vector")
    name = lock.value("algorithm/algorithm-name").lower()
    try:
        if "aes" in name and "cbc" in name:
            from cryptography.hazmat.primitives.ciphers.algorithms import AES

            machine = Cipher(AES(key), modes.CBC(vector)).decryptor()
        elif "blowfish" in name:
            from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
            from cryptography.hazmat.decrepit.ciphers.modes import CFB

            machine = Cipher(Blowfish(key), CFB(vector)).decryptor()
        else:
            raise Unreadable(Status.UNSUPPORTED, f"encrypted in a way that is not read ({name[:60]})")
        packed = machine.update(data[: len(data) - len(data) % 16] if "aes" in name else data)
    except ValueError as error:
        raise Unreadable(Status.DAMAGED, f"encrypted, and damaged ({error})") from error
    if not _fits(packed, lock):
        return None
    try:
        return zlib.decompressobj(-15).decompress(packed, limit)
    except zlib.error:
        return None


def _fits(packed: bytes, lock: Lock) -> bool:
    """Whether the stated checksum of the first bytes is theirs. It may count the padding or not."""
    kind = "sha256" if "256" in lock.value("encryption-data/checksum-type") else "sha1"
    stated = lock.data("encryption-data/checksum")
    ends = [len(packed)] + ([len(packed) - packed[-1]] if packed and packed[-1] <= 16 else [])
    return any(hashlib.new(kind, packed[: min(_CHECKED, end)]).digest() == stated for end in ends)
