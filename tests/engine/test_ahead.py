"""Reading ahead: everything comes to the disk, once; what was interrupted goes on; what does not fit is said before."""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.engine.errors import BadRequest, ContextTooLong, StoreError
from unabridged.engine.events import (
    Composition,
    Event,
    Finished,
    Generate,
    Outlook,
    Prefill,
    Progress,
    Sampling,
    Segment,
    Token,
    pack_ids,
)
from unabridged.engine.generate import TorchBackend
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.room import Room
from unabridged.engine.options import EngineOptions

Make = Callable[..., TorchBackend]
LENGTHS = (70, 150, 30, 200, 90, 64)
PREFIX = 9


def room(folder: Folder) -> Room:
    return folder.room(folder.stored(), folder.shelves.pinned_keys())


def text(length: int, seed: int) -> bytes:
    return pack_ids(torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist())


SEGMENTS = tuple(Segment(text(length, number)) for number, length in enumerate(LENGTHS))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def backend(model: Path, tmp_path: Path) -> Iterator[Make]:
    made = []

    def make(**options: object) -> TorchBackend:
        fields = {"threads": 1, "kv_bytes": 4 << 20, "prefill_chunk": 64, "store_dir": tmp_path / "kv", **options}
        made.append(TorchBackend(model, EngineOptions(**fields)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def prefill(segments: tuple[Segment, ...] = SEGMENTS, composition: Composition = "composable") -> Prefill:
    return Prefill(id="p", prefix=text(PREFIX, 99), segments=segments, composition=composition, shelf="case")


def events_of(of: TorchBackend, asked: Prefill) -> tuple[Outlook, list[Progress], Finished]:
    first, *others = [event for event in of.run(asked) if event is not None]
    assert isinstance(first, Outlook)
    assert isinstance(others[-1], Finished)
    assert others[-1].reason == "stop"
    return first, [event for event in others if isinstance(event, Progress)], others[-1]


def answer(of: TorchBackend, composition: Composition = "composable") -> tuple[list[int], Finished]:
    asked = Generate(
        id="q",
        prefix=text(PREFIX, 99),
        segments=SEGMENTS,
        prompt=text(12, 7),
        composition=composition,
        sampling=Sampling(max_tokens=8),
    )
    events = [event for event in of.run(asked) if event is not None]
    assert isinstance(events[-1], Finished)
    return [id for event in events if isinstance(event, Token) for id in event.ids], events[-1]


@pytest.mark.parametrize("composition", ["composable", "joint"])
def test_all_is_stored_once_and_found_by_a_question(backend: Make, tmp_path: Path, composition: Composition) -> None:
    wanted, _ = answer(backend(store_dir=None), composition)
    outlook, progress, last = events_of(backend(), prefill(composition=composition))
    total = sum(LENGTHS) + PREFIX
    assert (outlook.total, outlook.stored, outlook.fits, outlook.stored_size) == (total, 0, total, 0)
    assert [event.done for event in progress] == sorted(event.done for event in progress)
    assert (progress[0].done, progress[-1].done, progress[-1].total) == (0, total, total)
    assert outlook.size == sum(path.stat().st_size for path in (tmp_path / "kv").glob("*.kv"))
    assert (last.usage.prompt, last.usage.cached) == (total, 0)
    again, progress, last = events_of(backend(), prefill(composition=composition))
    assert (again.stored, again.stored_size, last.usage.cached) == (total, outlook.size, total)
    assert progress == []
    found, end = answer(backend(), composition)
    assert found == wanted
    assert end.usage.cached == total


@pytest.mark.parametrize("after", [3, 4, 6, 9, 11, 13])
def test_what_was_interrupted_goes_on_in_the_middle(backend: Make, after: int) -> None:
    wanted, _ = answer(backend(store_dir=None))
    first = backend()
    run = first.run(prefill())
    assert isinstance(run, Generator)
    for _ in range(after):
        next(run)
    run.close()
    first.close()
    outlook, progress, _ = events_of(backend(), prefill())
    total = sum(LENGTHS) + PREFIX
    assert 0 < outlook.stored < total
    assert progress[-1].total == total - outlook.stored
    assert answer(backend())[0] == wanted


def test_a_corpus_may_be_larger_than_the_pool(backend: Make) -> None:
    small = backend(kv_bytes=512 * 256)
    assert small._cache.pool.slots < sum(LENGTHS)
    outlook, _, _ = events_of(small, prefill())
    assert outlook.fits == outlook.total
    assert small._cache.evictable_tokens() + small._cache.pool.free_tokens == small._cache.pool.slots
    assert answer(backend())[1].usage.cached == outlook.total
    with pytest.raises(ContextTooLong):
        events_of(small, prefill(composition="joint"))


def test_what_the_quota_has_no_room_for_is_said_first_and_not_read(backend: Make, tmp_path: Path) -> None:
    probe, _, _ = events_of(backend(store_dir=tmp_path / "probe"), prefill(SEGMENTS[:3]))
    outlook, progress, _ = events_of(backend(store_bytes=probe.size + 5000), prefill())
    assert outlook.fits == sum(LENGTHS[:3]) + PREFIX == outlook.missing == progress[-1].done
    assert outlook.room == probe.size + 5000 < outlook.size
    assert room(Folder(tmp_path / "kv", 0)).used == probe.size
    again, progress, _ = events_of(backend(store_bytes=probe.size + 5000), prefill())
    assert (again.fits, again.missing, progress) == (outlook.fits, 0, [])
    with pytest.raises(StoreError, match="the KV store has room for 4,000 bytes"):
        events_of(backend(store_bytes=4000), prefill())


def test_older_kv_goes_for_it_and_pinned_kv_does_not(backend: Make, tmp_path: Path) -> None:
    events_of(backend(), prefill(SEGMENTS[:3]))
    folder = Folder(tmp_path / "kv", 0)
    size = room(folder).used
    other = tuple(Segment(text(length, 50 + number)) for number, length in enumerate(LENGTHS[:3]))
    outlook, _, _ = events_of(backend(store_bytes=size), prefill(other))
    # The prefix stays: it belongs to both.
    assert 0 < outlook.goes < size == outlook.size == room(folder).used
    folder.pin("case")
    assert room(folder).pinned == size
    with pytest.raises(StoreError, match="unpin"):
        events_of(backend(store_bytes=size), Prefill(id="o", prefix=b"", segments=SEGMENTS[3:], shelf="other"))
    assert room(folder).pinned == size


def test_what_is_pinned_of_a_collection_stays_where_it_stands_behind_what_fits(backend: Make, tmp_path: Path) -> None:
    probe, _, _ = events_of(backend(store_dir=tmp_path / "probe"), prefill(SEGMENTS[:3]))
    folder = Folder(tmp_path / "kv", 0)
    events_of(backend(), prefill(SEGMENTS[3:4]))
    folder.pin("case")
    before = room(folder).used
    outlook, _, _ = events_of(backend(store_bytes=before + 1), prefill(SEGMENTS))
    # The prefix only: nothing of the rest may go for it.
    assert (outlook.fits, room(folder).used) == (PREFIX, before)
    outlook, _, _ = events_of(backend(store_bytes=probe.size + before), prefill(SEGMENTS))
    assert outlook.fits >= PREFIX + sum(LENGTHS[:4])


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Makes the store's folder a file system of its own, or changes what it may do."""
    place = tmp_path / "kv"

    def mount(options: str) -> None:
        place.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting needs root and the right to mount")

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True)


def test_a_disk_is_filled_as_was_said(backend: Make, tmp_path: Path, mounted: Callable[[str], None]) -> None:
    wanted, _ = answer(backend(store_dir=None))
    mounted("size=300k")
    other = tuple(Segment(text(length, 50 + number)) for number, length in enumerate(LENGTHS))
    first, _, _ = events_of(backend(), Prefill(id="o", prefix=b"", segments=other, shelf="other"))
    outlook, progress, _ = events_of(backend(), prefill())
    assert first.fits == first.total
    assert outlook.goes > 0
    assert (outlook.fits, progress[-1].done) == (outlook.total, outlook.total)
    assert answer(backend())[1].usage.cached == outlook.total
    # A question makes room as well.
    asked = Generate(id="q", prefix=b"", segments=other, prompt=text(12, 7), sampling=Sampling(max_tokens=1))
    for cached in (False, True):
        last = [event for event in backend().run(asked) if event is not None][-1]
        assert isinstance(last, Finished)
        assert (last.notes, last.usage.cached == first.total) == ((), cached)
    assert answer(backend())[0] == wanted


def test_what_others_take_meanwhile_is_not_taken_from_what_was_just_read(
    backend: Make, tmp_path: Path, mounted: Callable[[str], None]
) -> None:
    mounted("size=1m")
    run = backend(kv_bytes=512 * 256).run(prefill())
    for event in run:
        if isinstance(event, Progress) and len(list((tmp_path / "kv").glob("*.kv"))) >= 5:
            break
    (tmp_path / "kv" / "hog").write_bytes(bytes(room(Folder(tmp_path / "kv", 0)).disk))
    before = {path.name for path in (tmp_path / "kv").glob("*.kv")}
    with pytest.raises(StoreError, match="bytes to spare"):
        list(run)
    assert before <= {path.name for path in (tmp_path / "kv").glob("*.kv")}


def test_a_store_that_may_not_be_written_is_read(backend: Make, tmp_path: Path, mounted: Callable[[str], None]) -> None:
    wanted, _ = answer(backend(store_dir=None))
    mounted("size=4m")
    events_of(backend(), prefill(SEGMENTS[:3]))
    (tmp_path / "kv" / "x.1-1.new").write_bytes(b"half")
    before = sorted(path.name for path in (tmp_path / "kv").iterdir())
    mounted("remount,ro")
    found, last = answer(backend())
    assert (found, last.usage.cached) == (wanted, sum(LENGTHS[:3]) + PREFIX)
    assert last.notes == (
        f"what was read is not stored: the KV store {tmp_path / 'kv'} cannot be written: Read-only file system "
        "(allow this user to write there)",
    )
    with pytest.raises(StoreError, match="Read-only file system"):
        events_of(backend(), prefill())
    assert sorted(path.name for path in (tmp_path / "kv").iterdir()) == before


def test_what_is_in_the_pool_but_not_on_the_disk_is_stored(backend: Make, tmp_path: Path) -> None:
    one = backend()
    events_of(one, prefill())
    folder = Folder(tmp_path / "kv", 0)
    before = {stored.key for stored in folder.stored()}
    folder.drop(list(before)[2:5])
    outlook, _, _ = events_of(one, prefill())
    assert outlook.stored < outlook.total
    assert {stored.key for stored in folder.stored()} == before


def test_a_part_of_a_collection_is_added_to_its_list(backend: Make, tmp_path: Path) -> None:
    one, shelves = backend(), Folder(tmp_path / "kv", 0).shelves
    events_of(one, prefill(SEGMENTS[:2]))
    events_of(one, msgspec.structs.replace(prefill(SEGMENTS[1:4]), adding=True))
    assert sorted(shelves.all()[0].tokens) == sorted((PREFIX, *LENGTHS[:4]))
    events_of(one, prefill(SEGMENTS[1:4]))
    assert sorted(shelves.all()[0].tokens) == sorted((PREFIX, *LENGTHS[1:4]))


def test_where_nothing_is_stored_reading_ahead_is_refused(backend: Make) -> None:
    with pytest.raises(BadRequest, match="nothing is stored"):
        events_of(backend(store_dir=None), prefill())


def test_what_cannot_be_written_ends_it(backend: Make, tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    one = backend()
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        with pytest.raises(StoreError, match="File too large"):
            events_of(one, prefill())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert events_of(one, prefill())[0].stored < sum(LENGTHS)
    assert answer(backend())[1].usage.cached == sum(LENGTHS) + PREFIX


def test_a_request_may_stop_while_another_waits_for_the_same_file(backend: Make) -> None:
    wanted, _ = answer(backend(store_dir=None))
    events_of(backend(), prefill())
    shared = backend()
    runs: list[Iterator[Event | None]] = [shared.run(prefill_question(str(number))) for number in range(2)]
    for run in runs:
        next(run)
    assert isinstance(runs[0], Generator)
    runs[0].close()
    events = [event for event in runs[1] if event is not None]
    assert [id for event in events if isinstance(event, Token) for id in event.ids] == wanted


def prefill_question(id: str) -> Generate:
    return Generate(
        id=id,
        prefix=text(PREFIX, 99),
        segments=SEGMENTS,
        prompt=text(12, 7),
        sampling=Sampling(max_tokens=8),
    )
