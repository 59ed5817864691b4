"""KV on disk: what comes back is what was written, or nothing; what goes, and what stays, when room is short."""

import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from unabridged.engine.errors import StoreError
from unabridged.engine.kv.blocks import Run
from unabridged.engine.kv.format import PAGE, Damaged, Stopped, check
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.shelves import Shelf
from unabridged.engine.kv.store import Incoming, KvStore, Outgoing, fingerprint


def make_pool(blocks: int = 8, dtype: torch.dtype = torch.float16) -> KvPool:
    pool = KvPool(2, 3, 8, blocks * 64 * 96 * dtype.itemsize, dtype)
    pool.k.copy_(torch.randn(pool.k.shape))
    pool.v.copy_(torch.randn(pool.v.shape))
    return pool


def stored(folder: Path, key: str = "k", tokens: int = 100, quota: int = 1 << 30) -> tuple[KvStore, KvPool, list[Run]]:
    store, pool = KvStore(folder, quota), make_pool()
    runs = pool.allocate(tokens)
    store.save(key, pool, runs)
    return store, pool, runs


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".kv", ".new"))


def test_what_is_stored_comes_back_bit_for_bit_into_other_slots_and_runs(tmp_path: Path) -> None:
    _, pool, runs = stored(tmp_path)
    expected = pool.read(runs)
    taken = pool.allocate(64)
    others = [*pool.allocate(64), Run(pool.allocate(64)[0].start, 36)]
    pool.free(taken)
    KvStore(tmp_path, 1 << 30).load("k", pool, others)
    assert torch.equal(pool.read(others), expected)
    assert files(tmp_path) == ["k.kv"]
    assert check(tmp_path / "k.kv").tokens == 100


def test_a_pool_that_the_host_does_not_reach_gets_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pool, runs = stored(tmp_path)
    expected = pool.read(runs)
    pool.k.zero_()
    monkeypatch.setattr(pool, "incoming", lambda runs: [memoryview(bytearray(100 * pool.token_bytes))])

    def arrived(runs: list[Run], places: list[memoryview]) -> None:
        pool.write(runs, torch.frombuffer(places[0], dtype=pool.dtype).view(2, *pool.shape[:2], 100, pool.shape[2]))

    monkeypatch.setattr(pool, "arrived", arrived)
    store.load("k", pool, runs)
    assert torch.equal(pool.read(runs), expected)


def test_any_changed_bit_is_seen_and_the_file_is_deleted(tmp_path: Path) -> None:
    store, pool, runs = stored(tmp_path, tokens=1)
    path, outgoing = tmp_path / "k.kv", Outgoing.of(pool, runs)
    size = path.stat().st_size
    for at in (*range(0, PAGE, 97), *range(PAGE, size, 41), size - 1):
        store.put("k", outgoing)
        data = bytearray(path.read_bytes())
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        with pytest.raises(Damaged):
            check(path)
        with pytest.raises(StoreError, match=r"k\.kv is unusable"):
            store.load("k", pool, runs)
        assert not path.exists()


@pytest.mark.parametrize("harm", ["cut", "longer", "header", "empty", "renamed", "text"])
def test_a_file_that_is_not_what_it_should_be_is_deleted_and_never_used(tmp_path: Path, harm: str) -> None:
    store, pool, runs = stored(tmp_path)
    path = tmp_path / "k.kv"
    data = path.read_bytes()
    harmed = {
        "cut": data[:-1],
        "longer": data + b"\0",
        "header": b"{" + data,
        "empty": b"",
        "text": b"hello\n" * 100,
        "renamed": data,
    }
    key = "j" if harm == "renamed" else "k"
    store.folder.file(key).write_bytes(harmed[harm])
    with pytest.raises(StoreError, match="unusable"):
        store.load(key, pool, runs)
    assert not store.has(key)


def test_kv_of_another_length_or_type_is_not_used(tmp_path: Path) -> None:
    for pool, tokens in ((make_pool(), 99), (make_pool(dtype=torch.bfloat16), 100)):
        store, _, _ = stored(tmp_path)
        with pytest.raises(StoreError, match="another kind"):
            store.load("k", pool, pool.allocate(tokens))


def test_a_file_that_cannot_be_read_now_is_not_deleted(tmp_path: Path) -> None:
    store, pool, runs = stored(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open() as lowest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno(), limit[1]))
    try:
        with pytest.raises(StoreError, match="Too many open files"):
            store.load("k", pool, runs)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    store.load("k", pool, runs)


def test_reading_ends_when_it_is_not_wanted(tmp_path: Path) -> None:
    store, pool, runs = stored(tmp_path)
    with pytest.raises(Stopped):
        store.read(Incoming("k", pool, runs), lambda: True)
    assert store.has("k")


def test_the_quota_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    store, pool, runs = stored(tmp_path, "a")
    size = (tmp_path / "a.kv").stat().st_size
    tight = KvStore(tmp_path, 2 * size)
    tight.save("b", pool, runs)
    os.utime(tmp_path / "b.kv", (1e9, 1e9))
    tight.load("a", pool, runs)
    tight.save("c", pool, runs)
    assert [store.has(key) for key in "abc"] == [True, False, True]


def shelf(name: str, *keys: str, version: str = "") -> Shelf:
    fields = {"version": version} if version else {}
    return Shelf(
        name=name, model="m", fingerprint=fingerprint("w", "t"), keys=keys, tokens=(100,) * len(keys), **fields
    )


def test_what_is_pinned_never_goes_and_what_comes_later_is_pinned_too(tmp_path: Path) -> None:
    _, pool, runs = stored(tmp_path, "a")
    size = (tmp_path / "a.kv").stat().st_size
    store = KvStore(tmp_path, 2 * size)
    store.folder.pin("case")
    store.folder.shelve(shelf("case", "a", "c"))
    store.folder.shelve(shelf("other", "b"))
    os.utime(tmp_path / "a.kv", (1e9, 1e9))
    store.save("b", pool, runs)
    store.save("c", pool, runs)
    assert files(tmp_path)[:2] == ["a.kv", "c.kv"]
    with pytest.raises(StoreError, match=f"of which {2 * size:,} are pinned"):
        store.save("d", pool, runs)
    assert store.folder.room(store.folder.stored(), store.folder.shelves.pinned_keys()).pinned == 2 * size
    assert store.folder.unpin("case")
    store.save("d", pool, runs)
    assert not store.has("a")


def test_a_shelf_of_another_version_pins_nothing(tmp_path: Path) -> None:
    store, _, _ = stored(tmp_path, "a")
    store.folder.pin("case")
    store.folder.shelve(shelf("case", "a", version="99.1.0"))
    assert store.folder.shelves.pinned_keys() == set()


def test_a_failed_write_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    _, pool, runs = stored(tmp_path, "a")
    with pytest.raises(StoreError, match="does not fit into the store's 1,000"):
        KvStore(tmp_path, 1000).save("b", pool, runs)
    assert files(tmp_path) == ["a.kv"]


@contextmanager
def limited(kind: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def test_a_file_larger_than_the_system_allows_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    store, pool, runs = stored(tmp_path, "a")
    with limited(resource.RLIMIT_FSIZE, PAGE), pytest.raises(StoreError, match=r"File too large \(allow larger files"):
        store.save("b", pool, runs)
    assert files(tmp_path) == ["a.kv"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting needs root and the right to mount")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_an_error_and_what_was_stored_stays(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pool, runs = stored(small_disk, "a", 400)
    store.save("b", pool, runs)
    store.folder.shelve(shelf("case", "a"))
    store.folder.pin("case")
    with (
        store.folder.keeping(["b"]),
        pytest.raises(StoreError, match=r"has [\d,]+ bytes to spare and 0 in KV that may go, KV of 81,920 is to be"),
    ):
        store.save("c", pool, runs)
    assert files(small_disk) == ["a.kv", "b.kv"]
    store.load("a", pool, runs)
    # Where only the writing shows it.
    monkeypatch.setattr("unabridged.engine.kv.folder.spare", lambda path: 1 << 40)
    with pytest.raises(StoreError, match=r"No space left on device \(free some space"):
        store.save("c", pool, runs)
    assert files(small_disk) == ["a.kv", "b.kv"]


def test_on_a_full_disk_what_was_used_longest_ago_goes(small_disk: Path) -> None:
    store, pool, runs = stored(small_disk, "a", 400)
    os.utime(small_disk / "a.kv", (1e9, 1e9))
    store.save("b", pool, runs)
    store.save("c", pool, runs)
    assert files(small_disk) == ["b.kv", "c.kv"]
    # Others take what is left: nothing goes where that would not do.
    (small_disk / "hog").write_bytes(bytes(20_000))
    store.folder.shelve(shelf("case", "b"))
    store.folder.pin("case")
    with pytest.raises(StoreError, match="81,920 in KV that may go, KV of 94,208"):
        store.save("d", pool, [*runs, *pool.allocate(64)])
    assert files(small_disk) == ["b.kv", "c.kv"]


def test_what_a_killed_writer_left_is_swept_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    stored(tmp_path)
    (tmp_path / "x.4194303-1.new").write_bytes(b"half")
    with (tmp_path / "y.1-1.new").open("wb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        KvStore(tmp_path, 1 << 30)
        assert files(tmp_path) == ["k.kv", "y.1-1.new"]
    KvStore(tmp_path, 1 << 30)
    assert files(tmp_path) == ["k.kv"]


_WRITER = """
import os, sys
from pathlib import Path
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import Header, aligned, check, file_bytes, write
size, folder = int(sys.argv[2]), Folder(Path(sys.argv[1]), 5 * file_bytes(int(sys.argv[2])))
for number in range(40):
    key = f"{sys.argv[3]}{number}"
    header, image = Header(key=key, form="", tokens=1, size=size), aligned(file_bytes(size))
    image[4096 : 4096 + size] = os.urandom(size)
    with folder.writing(key, len(image)) as file:
        write(file, header, image)
    for other in folder.stored()[-2:]:
        try:
            check(other.path)
        except FileNotFoundError:
            pass
"""


def test_two_processes_may_write_read_and_evict_at_once(tmp_path: Path) -> None:
    size = 100_000
    command = [sys.executable, "-c", _WRITER, str(tmp_path), str(size)]
    writers = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in "ab"]
    # A rename while the folder is listed may show one file twice.
    most = 0
    while any(one.poll() is None for one in writers):
        most = max(most, len(files(tmp_path)))
    assert [one.communicate()[1] for one in writers] == ["", ""]
    assert most <= 6
    assert len(files(tmp_path)) == 5
    for name in files(tmp_path):
        check(tmp_path / name)


def test_the_fingerprint_changes_with_everything_that_kv_depends_on() -> None:
    every = [("w", "t"), ("v", "t"), ("w", "u"), ("w", "t", "float16"), ("w", "t", "float16", "head 8")]
    assert len({fingerprint(*one) for one in every}) == len(every)
