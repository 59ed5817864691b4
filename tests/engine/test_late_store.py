"""Writing behind: what is saved comes to the disk in order, a failure comes back, little waits."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from unabridged.engine.errors import StoreError
from unabridged.engine.kv.blocks import Run
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.store import KvStore, Outgoing


class Held(KvStore):
    """A disk that writes when it is let."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1 << 30)
        self.let = threading.Semaphore(0)

    def put(self, key: str, outgoing: Outgoing) -> None:
        self.let.acquire()
        super().put(key, outgoing)


def pool() -> KvPool:
    one = KvPool(1, 1, 8, 1 << 20, torch.float32)
    one.k.normal_()
    one.v.normal_()
    return one


def test_what_was_saved_is_on_the_disk_after_closing_though_the_slots_were_reused(tmp_path: Path) -> None:
    one, disk = pool(), Held(tmp_path)
    store, runs = LateStore(disk, 1 << 20), one.allocate(100)
    expected = one.read(runs)
    store.save("a", one, runs)
    store.save("b", one, runs)
    one.k.zero_()
    assert not store.has("a")
    disk.let.release(2)
    store.close()
    assert store.has("b")
    store.load("a", one, runs)
    assert torch.equal(one.read(runs), expected)


def test_saving_waits_when_too_much_is_unwritten(tmp_path: Path) -> None:
    one, disk = pool(), Held(tmp_path)
    store, runs = LateStore(disk, 10_000), one.allocate(100)
    store.save("a", one, runs)
    second = threading.Thread(target=store.save, args=("b", one, runs))
    second.start()
    second.join(0.1)
    assert second.is_alive()
    disk.let.release(2)
    second.join(10)
    assert not second.is_alive()
    store.close()
    assert store.has("b")


def test_what_is_expected_is_read_ahead_and_its_failure_comes_with_loading(tmp_path: Path) -> None:
    one = pool()
    disk, runs = KvStore(tmp_path, 1 << 20), one.allocate(100)
    for key in "ab":
        disk.save(key, one, runs)
    (tmp_path / "b.kv").write_bytes(b"half")
    expected = one.read(runs)
    one.k.zero_()
    store = LateStore(disk, 1)
    for key in "abc":
        store.expect(key, one, runs)
        while not store.ready(key):
            pass
    store.load("a", one, runs)
    assert torch.equal(one.read(runs), expected)
    with pytest.raises(StoreError, match=r"b\.kv is unusable"):
        store.load("b", one, runs)
    store.forget("c")
    store.forget("a")
    store.close()


def save_for_a_second(store: LateStore, one: KvPool, runs: Sequence[Run]) -> None:
    for _ in range(100):
        store.save("a", one, runs)
        time.sleep(0.01)


def test_a_defect_is_raised_by_the_next_save_and_writing_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, disk = pool(), KvStore(tmp_path, 1 << 20)
    store, runs = LateStore(disk, 1 << 20), one.allocate(100)
    with monkeypatch.context() as broken:
        broken.setattr(disk, "put", {}.__getitem__)
        with pytest.raises(TypeError, match="argument"):
            save_for_a_second(store, one, runs)
    store.save("c", one, runs)
    store.close()
    assert [disk.has(key) for key in "ac"] == [False, True]


def test_a_failure_is_raised_by_the_next_save_alone(tmp_path: Path) -> None:
    one = pool()
    store, runs = LateStore(KvStore(tmp_path, 10), 1), one.allocate(100)
    store.save("a", one, runs)
    # The second waits for the first to be written, which fails.
    with pytest.raises(StoreError, match="does not fit"):
        store.save("b", one, runs)
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
