"""Encrypted members of ZIP files: the old ZipCrypto, and AES as WinZip and 7-Zip write it. Pure functions of bytes."""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from functools import cache

from unabridged.ingest.archives.zip_directory import Entry, extras

AES_METHOD = 99
_AES_EXTRA = 0x9901
_SALT = {1: 8, 2: 12, 3: 16}
_STREAMED = 0x8
_PLAIN_HEADER = 12
_BLOCKS = 4_096  # of 16 bytes, decrypted at once


class WrongPassword(Exception):
    """The password does not open this member."""


def opened(raw: Iterator[bytes], entry: Entry, password: str) -> tuple[int, Iterator[bytes]]:
    """The packing method below the encryption, and the decrypted bytes. Raises WrongPassword."""
    secret = password.encode("utf-8")
    if entry.method == AES_METHOD:
        strength, method = _aes_facts(entry)
        return method, _aes(b"".join(raw), strength, secret)
    data = b"".join(raw)
    return entry.method, iter([_zip_crypto(data, entry, secret)])


def _aes_facts(entry: Entry) -> tuple[int, int]:
    for kind, value in extras(entry.extra):
        if kind == _AES_EXTRA and len(value) >= 7 and value[4] in _SALT:
            return value[4], struct.unpack_from("<H", value, 5)[0]
    raise WrongPassword


def _aes(data: bytes, strength: int, secret: bytes) -> Iterator[bytes]:
    """AES in counter mode with a little-endian counter from 1, its key checked by two bytes and a MAC over all."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    salt_bytes = _SALT[strength]
    key_bytes = 2 * salt_bytes
    salt, check, body, mac = (
        data[:salt_bytes],
        data[salt_bytes : salt_bytes + 2],
        data[salt_bytes + 2 : -10],
        data[-10:],
    )
    derived = hashlib.pbkdf2_hmac("sha1", secret, salt, 1000, 2 * key_bytes + 2)
    if derived[-2:] != check or hmac.digest(derived[key_bytes : 2 * key_bytes], body, "sha1")[:10] != mac:
        raise WrongPassword
    cipher = Cipher(algorithms.AES(derived[:key_bytes]), modes.ECB()).encryptor()  # of counters, never of text
    step = 16 * _BLOCKS
    for at in range(0, len(body), step):
        piece = body[at : at + step]
        first = at // 16 + 1
        counters = b"".join(n.to_bytes(16, "little") for n in range(first, first + (len(piece) + 15) // 16))
        stream = cipher.update(counters)[: len(piece)]
        mixed = int.from_bytes(piece, "little") ^ int.from_bytes(stream, "little")
        yield mixed.to_bytes(len(piece), "little")


@cache
def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        table.append(value)
    return table


def _zip_crypto(data: bytes, entry: Entry, secret: bytes) -> bytes:
    """PKWARE's own stream cipher, as the appnote has it: three keys that every plain byte changes."""
    table = _table()
    one, two, three = 0x12345678, 0x23456789, 0x34567890
    out = bytearray()

    for byte in secret:
        one = one >> 8 ^ table[(one ^ byte) & 0xFF]
        two = ((two + (one & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        three = three >> 8 ^ table[(three ^ two >> 24) & 0xFF]
    for byte in data:
        mask = three | 2
        byte ^= (mask * (mask ^ 1) >> 8) & 0xFF
        out.append(byte)
        one = one >> 8 ^ table[(one ^ byte) & 0xFF]
        two = ((two + (one & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        three = three >> 8 ^ table[(three ^ two >> 24) & 0xFF]
        if len(out) == _PLAIN_HEADER and byte != _expected(entry):
            raise WrongPassword
    return bytes(out[_PLAIN_HEADER:])


def _expected(entry: Entry) -> int:
    """The last byte of the header: of the checksum, or of the time where the checksum came behind the data."""
    return entry.time >> 8 if entry.flags & _STREAMED or entry.crc is None else entry.crc >> 24
