"""Composable and joint contexts on the CPU: what is read again when documents come, go and move, and that nothing of
what went stays in the KV of the others."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
import torch
from tests.engine.tiny import config, save_tiny

from unabridged.engine.composing import Composer
from unabridged.engine.events import (
    AttentionChoice,
    Composition,
    Event,
    Finished,
    Generate,
    Progress,
    Sampling,
    Segment,
    Token,
    pack_ids,
)
from unabridged.engine.generate import TorchBackend
from unabridged.engine.options import EngineOptions

WINDOW = 320
SPARSE = AttentionChoice(overrides={"sink": 16, "stream": 64, "k": 64})
Make = Callable[..., TorchBackend]
Ids = list[int]


def text(length: int, seed: int = 0) -> Ids:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


PREFIX = text(9)
A, B, C = text(70, 1), text(60, 2), text(80, 3)
LONG = tuple(text(190, seed) for seed in range(4, 8))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", WINDOW)


@pytest.fixture
def backend(model: Path) -> Make:
    def make(**options: object) -> TorchBackend:
        fields = {"threads": 1, "kv_bytes": 8 << 20, "prefill_chunk": 64, **options}
        return TorchBackend(model, EngineOptions(**fields))  # type: ignore[arg-type]

    return make


def request(segments: Sequence[Ids], composition: Composition = "joint", prefix: Ids = PREFIX) -> Generate:
    return Generate(
        id="r",
        prefix=pack_ids(prefix),
        segments=tuple(Segment(pack_ids(one)) for one in segments),
        composition=composition,
        prompt=pack_ids(text(8, 9)),
        sampling=Sampling(max_tokens=6),
        attention=SPARSE,
    )


def ask(of: TorchBackend, asked: Generate) -> tuple[Ids, Finished, list[Event]]:
    events = [event for event in of.run(asked) if event is not None]
    last = events[-1]
    assert isinstance(last, Finished)
    return [one for event in events if isinstance(event, Token) for one in event.ids], last, events


def read(of: TorchBackend, asked: Generate) -> int:
    """Tokens that were read for it."""
    _, _, events = ask(of, asked)
    return max((event.done for event in events if isinstance(event, Progress) and event.phase == "read"), default=0)


def kv(of: TorchBackend, asked: Generate) -> list[bytes]:
    """What the pool holds of each part of a context, in order."""
    parts = of._serving._parts(asked)
    entries = [of._cache._entries[part.key] for part in parts]
    return [of._cache.pool.read(entry.runs).contiguous().view(torch.uint8).numpy().tobytes() for entry in entries]


def composer(below: int = 8192) -> Composer:
    return Composer("model", 1, config(dense_below=below), "")


def names(segments: Sequence[Ids], composition: Composition = "joint", prefix: Ids = PREFIX) -> list[str]:
    return [part.key for part in composer().parts(pack_ids(prefix), [pack_ids(one) for one in segments], composition)]


def test_a_joint_name_changes_with_everything_before_it_and_a_composable_one_with_the_prefix_alone() -> None:
    assert names((A, B, C))[:3] == names((A, B))
    assert names((A, C))[2] not in names((A, B, C))
    assert names((B, A))[1:] != names((A, B))[1:][::-1]
    assert set(names((A, B, C))) & set(names((A, B, C), prefix=text(9, 8))) == set()
    assert names((B, A), "composable")[1:] == names((A, B), "composable")[1:][::-1]


def test_the_first_part_is_the_same_in_both_and_no_other() -> None:
    joint, composable = names((A, B, A)), names((A, B, A), "composable")
    assert joint[:2] == composable[:2]
    assert set(joint[2:]).isdisjoint(composable)
    assert len(set(joint)) == 4


def test_where_one_segment_ends_matters_and_empty_ones_do_not() -> None:
    assert names((A[:30], A[30:])) != names((A,))
    assert names((A, [], B)) == names((A, B))


def test_past_the_window_a_name_changes_with_how_the_engine_selects() -> None:
    segments = [pack_ids(one) for one in LONG]
    made = [
        Composer("model", 1, config(dense_below=WINDOW, k=k), selection).parts(b"", segments, "joint")
        for k, selection in ((512, ""), (1024, ""), (512, "calibrated"))
    ]
    for one in made[1:]:
        assert [part.key for part in one[:1]] == [part.key for part in made[0][:1]]
        assert {part.key for part in one[1:]}.isdisjoint(part.key for part in made[0])


def test_many_short_segments_far_into_a_text_are_one_part_and_those_before_stay() -> None:
    segments = [pack_ids(text(10, seed)) for seed in range(2000)]
    fewer = composer(0).parts(pack_ids(PREFIX), segments[:1500], "joint")
    parts = composer(0).parts(pack_ids(PREFIX), segments, "joint")
    assert b"".join(part.ids for part in parts[1:]) == b"".join(segments)
    assert [part.behind for part in parts] == list(range(len(parts)))
    # One for each segment at first, then fewer and fewer.
    assert len(parts) < 200
    assert parts[: len(fewer) - 1] == fewer[:-1]
    again = sum(part.tokens for part in parts[len(fewer) - 1 :]) - 5000
    assert 0 <= again < 15000 / 32


def test_a_joint_context_is_one_text(backend: Make) -> None:
    exact = backend(kv_dtype="float32")
    apart, _, _ = ask(exact, request((A, B, C)))
    once, _, _ = ask(backend(kv_dtype="float32"), request((PREFIX + A + B + C,), prefix=[]))
    assert apart == once
    without, last, _ = ask(exact, request((A, B, C), prefix=[]))
    assert without == ask(backend(kv_dtype="float32"), request((A + B + C,), prefix=[]))[0]
    assert last.usage.prompt == 70 + 60 + 80 + 8


@pytest.mark.parametrize("segments", [(A, B, C), LONG])
def test_the_size_of_a_pass_changes_no_joint_context(backend: Make, segments: Sequence[Ids]) -> None:
    answers = [ask(backend(prefill_chunk=size, kv_dtype="float32"), request(segments))[0] for size in (64, 100, 512)]
    assert answers[0] == answers[1] == answers[2]


def test_only_what_stands_behind_the_first_change_is_read_again(backend: Make) -> None:
    one = backend()
    assert read(one, request((A, B))) == 9 + 70 + 60
    assert read(one, request((A, B, C))) == 80
    assert read(one, request((A, C))) == 80
    assert read(one, request((B, A, C))) == 60 + 70 + 80
    assert read(one, request((A, B, C))) == 0


def test_composable_documents_are_read_when_they_are_new_and_never_again(backend: Make) -> None:
    one = backend()
    assert read(one, request((A, B), "composable")) == 9 + 70 + 60
    assert read(one, request((C, B, A), "composable")) == 80
    for order in ((A, C), (C,), (B, C, A)):
        assert read(one, request(order, "composable")) == 0
    # The first document stands behind the prefix alone in either way.
    assert read(one, request((A, B))) == 60


@pytest.mark.parametrize("composition", ["composable", "joint"])
@pytest.mark.parametrize("segments", [(A, B, C, text(40, 4)), LONG])
def test_a_removed_document_leaves_no_trace_in_the_others(
    backend: Make, composition: Composition, segments: Sequence[Ids]
) -> None:
    kept = request([segments[0], *segments[2:]], composition)
    had, never = backend(), backend()
    ask(had, request(segments, composition))
    answer, last, _ = ask(had, kept)
    expected, _, _ = ask(never, kept)
    assert kv(had, kept) == kv(never, kept)
    assert answer == expected
    assert last.usage.prompt == 9 + 8 + sum(map(len, kept_ids(kept)))


def kept_ids(asked: Generate) -> list[Ids]:
    return [list(memoryview(segment.ids).cast("i")) for segment in asked.segments]


@pytest.mark.parametrize("segments", [(A, B, C), LONG])
def test_what_follows_leaves_no_trace_in_what_stands_before_it(backend: Make, segments: Sequence[Ids]) -> None:
    shorter, longer = request(segments[:-1]), request(segments)
    one, other = backend(), backend()
    ask(one, longer)
    ask(other, shorter)
    assert kv(one, longer)[:-1] == kv(other, shorter)


@pytest.mark.parametrize("composition", ["composable", "joint"])
def test_a_question_about_some_documents_attends_to_these_alone(backend: Make, composition: Composition) -> None:
    one = backend()
    ask(one, request(LONG, composition))
    scoped = request(LONG[1:2], composition)
    answer, last, events = ask(one, scoped)
    assert last.attention is not None
    assert last.attention.context == last.attention.attended == 9 + 190 + 8 + 5
    assert answer == ask(backend(), scoped)[0]
    looks = [place for event in events if isinstance(event, Token) for place, _ in event.attended]
    assert looks
    assert all(9 <= place < 9 + 190 for place in looks)


def test_joint_parts_come_back_from_the_disk(backend: Make, tmp_path: Path) -> None:
    asked = request(LONG)
    first, _, _ = ask(backend(store_dir=tmp_path), asked)
    later = backend(store_dir=tmp_path)
    second, last, _ = ask(later, asked)
    assert second == first
    assert last.usage.cached == 9 + sum(map(len, LONG))
    # One in the middle is lost: it alone is read again, behind what stands before it.
    lost = later._serving._parts(asked)[2]
    (tmp_path / f"{lost.key}.kv").unlink()
    again = backend(store_dir=tmp_path)
    assert read(again, asked) == 190
    assert kv(again, asked) == kv(later, asked)


@pytest.mark.parametrize("after", [1, 2, 3, 5, 8, 10, 12])
def test_closing_while_a_joint_context_is_read_leaves_everything_usable(backend: Make, after: int) -> None:
    asked = request(LONG)
    wanted, _, _ = ask(backend(), asked)
    one = backend()
    free = one._cache.pool.free_tokens
    run = one.run(asked)
    for _ in range(after):
        next(run)
    run.close()  # type: ignore[attr-defined]
    assert ask(one, asked)[0] == wanted
    assert one._cache.pool.free_tokens + one._cache.evictable_tokens() == free


def test_two_joint_requests_that_take_turns_read_what_they_share_once(backend: Make) -> None:
    asked = [request((*LONG[:2], LONG[2])), request((*LONG[:2], LONG[3]))]
    wanted = [ask(backend(), one)[0] for one in asked]
    shared = backend()
    runs, got, done = [shared.run(one) for one in asked], [Ids(), Ids()], [0, 0]
    open_ = {0, 1}
    while open_:
        for at in sorted(open_):
            event = next(runs[at])
            if isinstance(event, Token):
                got[at] += event.ids
            elif isinstance(event, Progress) and event.phase == "read":
                done[at] = event.done
            elif isinstance(event, Finished):
                open_.discard(at)
    assert got == wanted
    parts = [shared._serving._parts(one) for one in asked]
    assert [part.key for part in parts[0][:3]] == [part.key for part in parts[1][:3]]


def test_the_way_of_composing_travels(backend: Make) -> None:
    from unabridged.engine.events import decode_request, encode

    asked = request((A,))
    assert decode_request(encode(asked)) == asked
    assert msgspec.structs.replace(asked, composition="composable") != asked
