"""Archives: files under their paths, each in its bounds; damage costs no more than what it hit."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.ingest.made import end, opened, pages, read, sound, text
from tests.ingest.office import zipped

from unabridged.ingest.archives.zipfiles import safe_path
from unabridged.ingest.document import Closed, Item, Kind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.worker import Workers

FILES = {"contracts/lease.txt": "The lease.", "notes.txt": "A note.", "empty/": ""}


def _tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return out.getvalue()


def _names(items: list[Item]) -> list[str]:
    return [one.name for one in opened(items)[1:]]


def _ends(items: list[Item]) -> list[Status]:
    return [item.status for item in items if isinstance(item, Closed)]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_the_files_of_a_zip_are_documents_under_their_paths(method: int) -> None:
    items = read("case.zip", zipped(FILES, method))
    sound(items)
    assert _names(items) == ["contracts/lease.txt", "notes.txt"]
    assert [text(items, 1), text(items, 2)] == ["The lease.", "A note."]
    assert end(items).status == Status.READ


def test_the_library_keeps_the_path_within_the_archive(added, library, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "in").mkdir()
    inner = zipped({"deep/a.txt": "deep text"})
    (tmp_path / "in" / "case.zip").write_bytes(zipped({**FILES, "x/inner.zip": inner}))
    added(tmp_path / "in")
    paths = [row.path.rpartition("/in/")[2] for row in library.documents("default")]
    assert "case.zip/contracts/lease.txt" in paths
    assert "case.zip/x/inner.zip/deep/a.txt" in paths


@pytest.mark.parametrize(
    ("name", "harmless"),
    [
        ("../../etc/passwd", "etc/passwd"),
        ("/abs/file", "abs/file"),
        ("C:\\Users\\a.txt", "Users/a.txt"),
        ("a//b/./c", "a/b/c"),
        ("..\\..\\x", "x"),
        ("a\x00b\x1bc", "a bc"),
    ],
)
def test_names_lead_nowhere(name: str, harmless: str) -> None:
    assert safe_path(name) == harmless


def test_names_are_decoded_without_a_mark() -> None:
    for written, codec in (("účet.txt", "utf-8"), ("größe.txt", "cp437"), ("契約書の写し.txt", "cp932")):
        raw = written.encode(codec)
        data = zipped({"x" * len(raw): "content"}).replace(b"x" * len(raw), raw)
        assert _names(read("a.zip", data)) == [written]


def test_a_zip_that_is_cut_gives_its_files() -> None:
    import random

    noise = random.Random(5).randbytes(40_000).hex()
    whole = zipped({"a.txt": "first", "b.txt": noise, "c.txt": "third"})
    items = read("a.zip", whole[: whole.index(b"b.txt") + 20_000])
    sound(items)
    assert _names(items) == ["a.txt", "b.txt"]
    assert text(items, 1) == "first"
    assert text(items, 2).replace("\n", "")[:1_000] == noise[:1_000]
    assert end(items).status == Status.PARTIAL
    assert "directory is missing" in end(items).reason
    assert "b.txt cut off" in end(items).reason


def test_streamed_members_are_salvaged_too() -> None:
    out = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            return out.write(bytes(data))  # type: ignore[call-overload]

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "first " * 50)
        archive.writestr("b.txt", "second")
    data = out.getvalue()
    items = read("a.zip", data[: data.index(b"PK\x01\x02")])
    assert [text(items, 1)[:6], text(items, 2)] == ["first ", "second"]


def test_something_in_front_of_a_zip_and_behind_it_does_no_harm() -> None:
    items = read("a.zip", b"PK\x03\x04" + b"x" * 100 + zipped(FILES) + b"tail" * 10)
    assert _names(items)[-2:] == ["contracts/lease.txt", "notes.txt"]


def test_a_wrong_checksum_is_said_and_the_file_is_read() -> None:
    data = zipped(FILES, zipfile.ZIP_STORED).replace(b"The lease.", b"The louse.")
    items = read("a.zip", data)
    assert text(items, 1) == "The louse."
    assert "its checksum is wrong" in end(items).reason


def test_bombs_are_refused_by_what_they_claim_and_by_what_they_are() -> None:
    size = 33 << 20
    honest = zipped({"a.txt": bytes(size), "b.txt": "fine"})
    lying = honest.replace(struct.pack("<I", size), struct.pack("<I", 9))
    for data in (honest, lying):
        items = read("a.zip", data)
        assert _ends(items) == [Status.TOO_LARGE, Status.READ, Status.READ]
    nested = zipped({"x.txt": "core"})
    for _ in range(40):
        nested = zipped({"inner.zip": nested}, zipfile.ZIP_STORED)
    items = read("a.zip", nested)
    sound(items)
    assert any("nested more than 10 levels" in item.reason for item in items if isinstance(item, Closed))


def test_nested_archives_share_one_allowance() -> None:
    leaf = zipped({f"{n}.txt": "x" for n in range(50)})
    middle = zipped({f"{n}.zip": leaf for n in range(50)})
    items = read("a.zip", zipped({"m.zip": middle}), Limits(parts=100))
    assert len(opened(items)) < 400
    assert any("more than 100 parts" in item.reason for item in items if isinstance(item, Closed))


def test_encrypted_files_take_the_password_at_hand() -> None:
    for data in (_zip_crypto("open sesame", b"The secret lease."), _aes("open sesame", b"The secret lease.")):
        locked = read("a.zip", data)
        assert _ends(locked) == [Status.NEEDS_PASSWORD] * 2
        assert end(read("a.zip", data, password="wrong")).status == Status.NEEDS_PASSWORD
        items = read("a.zip", data, password="open sesame")
        assert (text(items, 1), end(items).status) == ("The secret lease.", Status.READ)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_the_files_of_a_tar_are_documents(mode: str) -> None:
    data = _tar({"a/one.txt": b"first", "../two.txt": b"second", "long/" * 30 + "n.txt": b"third"}, mode)
    items = read("a.bin", data)
    sound(items)
    assert _names(items) == ["a/one.txt", "two.txt", "long/" * 30 + "n.txt"]
    assert [text(items, ref) for ref in (1, 2, 3)] == ["first", "second", "third"]
    assert (end(items).status, end(items).reason) == (Status.PARTIAL, "1 links and devices left out")


def test_a_tar_that_is_cut_gives_what_it_has() -> None:
    data = gzip.compress(_tar({"a.txt": b"first", "b.txt": b"word " * 9_000}))
    plain = _tar({"a.txt": b"first", "b.txt": b"word " * 9_000})[:20_000]
    items = read("a.tar", plain)
    assert (text(items, 1), text(items, 2)[:9]) == ("first", "word word")
    assert "b.txt is cut off" in end(items).reason
    assert text(read("a.tgz", data[: len(data) - 10]), 1) == "first"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_is_a_container_of_one(pack) -> None:  # type: ignore[no-untyped-def]
    items = read("minutes.txt.gz", pack(b"The minutes.") + pack(b" And more."))
    assert _names(items) == ["minutes.txt"]
    assert text(items, 1) == "The minutes. And more."


def test_a_packed_bomb_stops_at_the_limit() -> None:
    data = gzip.compress(bytes(5 << 20))
    items = read("a.gz", data, Limits(message_bytes=1 << 20))
    assert _ends(items) == [Status.TOO_LARGE, Status.READ]


def test_what_macos_leaves_is_no_document() -> None:
    items = read("a.zip", zipped({"a.txt": "x", "__MACOSX/._a.txt": "junk", "b/.DS_Store": "junk"}))
    assert _names(items) == ["a.txt"]
    assert opened(items)[0].meta["left_out"] == "2 of macOS or Windows itself"


def test_an_archive_without_files_says_so() -> None:
    assert end(read("a.zip", zipped({}))).status == Status.NO_TEXT
    assert opened(read("a.zip", zipped({})))[0].kind == Kind.ARCHIVE


@pytest.mark.thorough
def test_reading_goes_on_behind_a_file_that_ends_its_process(tmp_path: Path) -> None:
    # Rows without a cell give nothing, for longer than a step may take.
    files = {f"{n}.txt": f"text {n}" for n in range(3)} | {"slow.csv": "\n" * 9_000_000, "last.txt": "the end"}
    path = tmp_path / "a.zip"
    path.write_bytes(zipped(files))
    with Workers(1, Limits(page_seconds=1)) as workers:
        items = list(workers.read(path))
    sound(items)
    assert _names(items) == list(files)
    assert pages(items, len(files))[0].text == "the end"
    assert (end(items, 4).status, end(items).status) == (Status.DAMAGED, Status.PARTIAL)


def _member(name: str, method: int, flags: int, packed: bytes, size: int, crc: int, extra: bytes = b"") -> bytes:
    """A ZIP file of one member, as it lies in the file."""
    raw = name.encode()
    facts = (flags, method, 0x6000, 0x5A21, crc, len(packed), size, len(raw), len(extra))
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, *facts) + raw + extra
    central = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, *facts, 0, 0, 0, 0, 0) + raw + extra
    at = len(local) + len(packed)
    return local + packed + central + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(central), at, 0)


def _zip_crypto(password: str, content: bytes) -> bytes:
    """PKWARE's cipher, written the other way round than the reader has it."""
    keys = [0x12345678, 0x23456789, 0x34567890]

    def crc(value: int, byte: int) -> int:
        return zlib.crc32(bytes((byte,)), value ^ 0xFFFFFFFF) ^ 0xFFFFFFFF

    def update(byte: int) -> None:
        keys[0] = crc(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = crc(keys[2], keys[1] >> 24)

    for byte in password.encode():
        update(byte)
    check = zlib.crc32(content)
    out = bytearray()
    for byte in bytes(11) + bytes((check >> 24,)) + content:
        mask = (keys[2] | 2) & 0xFFFF
        out.append(byte ^ (mask * (mask ^ 1) >> 8 & 0xFF))
        update(byte)
    return _member("lease.txt", 0, 1, bytes(out), len(content), check)


def _aes(password: str, content: bytes) -> bytes:
    """AES-256 as WinZip writes it."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    salt = bytes(range(16))
    key = hashlib.pbkdf2_hmac("sha1", password.encode(), salt, 1000, 66)
    machine = Cipher(algorithms.AES(key[:32]), modes.ECB()).encryptor()
    stream = machine.update(b"".join(n.to_bytes(16, "little") for n in range(1, len(content) // 16 + 2)))
    body = bytes(a ^ b for a, b in zip(content, stream, strict=False))
    packed = salt + key[64:] + body + hmac.digest(key[32:64], body, "sha1")[:10]
    extra = struct.pack("<2H", 0x9901, 7) + struct.pack("<H2sBH", 2, b"AE", 3, 0)
    return _member("lease.txt", 99, 1, packed, len(content), 0, extra)
