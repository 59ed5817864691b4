"""Whole requests through the torch engine on a tiny random model: what is reused, and that it changes no answer."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.engine.errors import BadRequest, Cancelled, ContextTooLong
from unabridged.engine.events import (
    AttentionChoice,
    Event,
    Finished,
    Generate,
    Prefill,
    Progress,
    Sampling,
    Segment,
    Token,
    pack_ids,
)
from unabridged.engine.generate import TorchBackend
from unabridged.engine.options import EngineOptions

SPARSE = AttentionChoice(overrides={"sink": 16, "stream": 64, "k": 64, "dense_below": 128})
Make = Callable[..., TorchBackend]


def text(length: int, seed: int = 0) -> list[int]:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


PREFIX = text(9)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def backend(model: Path) -> Make:
    def make(**options: object) -> TorchBackend:
        fields = {"threads": 1, "kv_bytes": 4 << 20, "prefill_chunk": 64, **options}
        return TorchBackend(model, EngineOptions(**fields))  # type: ignore[arg-type]

    return make


def request(
    prompt: list[int],
    segments: tuple[list[int], ...] = (),
    prefix: list[int] = PREFIX,
    choice: AttentionChoice | None = None,
    **sampling: object,
) -> Generate:
    return Generate(
        id="r",
        prefix=pack_ids(prefix),
        segments=tuple(Segment(pack_ids(one)) for one in segments),
        prompt=pack_ids(prompt),
        sampling=Sampling(**{"max_tokens": 12, **sampling}),  # type: ignore[arg-type]
        attention=choice or AttentionChoice(overrides={"sink": 16, "stream": 64, "k": 64}),
    )


def ask(of: TorchBackend, asked: Generate | Prefill) -> tuple[list[int], Finished, list[Event]]:
    events = [event for event in of.run(asked) if event is not None]
    while of._store and not of._store.settled():
        pass
    ids = [one for event in events if isinstance(event, Token) for one in event.ids]
    last = events[-1]
    assert isinstance(last, Finished)
    return ids, last, events


def read(events: list[Event], phase: str) -> int:
    return max((event.done for event in events if isinstance(event, Progress) and event.phase == phase), default=0)


def test_one_segment_behind_the_prefix_is_as_good_as_one_prompt(backend: Make) -> None:
    segment, prompt = text(100, 1), text(10, 2)
    whole, _, _ = ask(backend(kv_dtype="float32"), request(PREFIX + segment + prompt, prefix=[]))
    composed, _, _ = ask(backend(kv_dtype="float32"), request(prompt, (segment,)))
    assert composed == whole


@pytest.mark.parametrize("choice", [None, SPARSE])
def test_the_size_of_prefill_chunks_changes_nothing(backend: Make, choice: AttentionChoice | None) -> None:
    asked = request(text(150, 2), (text(90, 1), text(40, 3)), choice=choice)
    answers = [ask(backend(prefill_chunk=size), asked)[0] for size in (64, 100, 512)]
    assert answers[0] == answers[1] == answers[2]


def test_a_segment_is_read_once_and_shared_whatever_its_place(backend: Make) -> None:
    one = backend()
    a, b = text(70, 1), text(80, 2)
    first = ask(one, request(text(5, 3), (a, b)))
    assert read(first[2], "read") == len(PREFIX) + 150
    assert first[1].usage.cached == 0
    second = ask(one, request(text(6, 4), (b, a, b)))
    assert read(second[2], "read") == 0
    assert second[1].usage == first[1].usage.__class__(prompt=9 + 230 + 6, cached=9 + 150, completion=len(second[0]))
    assert second[0] == ask(backend(), request(text(6, 4), (b, a, b)))[0]


def test_what_another_request_read_meanwhile_is_not_read_again(backend: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one, asked = backend(), request(text(5, 3), (text(70, 1),))
    expected, _, _ = ask(backend(), asked)
    waits, reads = one.run(asked), one.run(request(text(6, 4), (text(70, 1),), max_tokens=1))
    assert isinstance(next(waits), Progress)
    with monkeypatch.context() as patched:
        # It is the turn of answers under way.
        patched.setattr(one._serving._runner, "chunk", lambda: 0)
        assert next(waits) is None
    assert isinstance(list(reads)[-1], Finished)
    events = [event for event in waits if event is not None]
    assert [id for event in events if isinstance(event, Token) for id in event.ids] == expected


def test_another_prefix_shares_nothing(backend: Make) -> None:
    one = backend()
    ask(one, request(text(5, 3), (text(70, 1),)))
    _, last, events = ask(one, request(text(5, 3), (text(70, 1),), prefix=text(8, 9)))
    assert read(events, "read") == 78
    assert last.usage.cached == 0


def test_the_next_turn_prefills_only_what_is_new_and_answers_the_same(backend: Make) -> None:
    one, segments, turn = backend(kv_dtype="float32"), (text(60, 1),), text(20, 2)
    answer, _, _ = ask(one, request(turn, segments))
    following = turn + answer + text(7, 3)
    again, last, events = ask(one, request(following, segments))
    assert read(events, "question") == 7 + 1
    assert last.usage.cached == len(PREFIX) + 60 + len(following) - 8
    assert again == ask(backend(kv_dtype="float32"), request(following, segments))[0]


def test_past_the_window_attention_is_sparse_and_says_so(backend: Make) -> None:
    _, last, _ = ask(backend(), request(text(30, 2), (text(200, 1), text(200, 3))))
    assert last.attention is not None
    assert (last.attention.kind, last.attention.context) == ("sparse", 9 + 430 + 11)
    assert 0.0 < last.attention.coverage < 1.0
    assert last.attention.attended < 300
    _, last, _ = ask(backend(), request(text(30, 2), (text(100, 1),)))
    assert last.attention is not None
    assert (last.attention.kind, last.attention.coverage) == ("dense", 1.0)


def test_an_answer_may_grow_out_of_the_window(backend: Make) -> None:
    ids, last, _ = ask(backend(), request(text(20, 2), (text(280, 1),), max_tokens=40))
    assert len(ids) == 40
    assert last.attention is not None
    assert last.attention.kind == "sparse"


def test_a_segment_longer_than_the_window_is_read_sparsely(backend: Make) -> None:
    ids, last, events = ask(backend(), request(text(20, 2), (text(400, 1),)))
    assert read(events, "read") == 409
    assert len(ids) == last.usage.completion == 12


def test_stored_segments_come_back_from_the_disk_with_the_same_answer(backend: Make, tmp_path: Path) -> None:
    asked = request(text(10, 2), (text(70, 1), text(90, 3)))
    first, _, _ = ask(backend(store_dir=tmp_path), asked)
    second, last, events = ask(backend(store_dir=tmp_path), asked)
    assert second == first
    assert read(events, "restore") == last.usage.cached == 9 + 160
    assert read(events, "read") == 0


def test_a_damaged_file_is_read_again_and_noted(backend: Make, tmp_path: Path) -> None:
    asked = request(text(10, 2), (text(70, 1),))
    first, _, _ = ask(backend(store_dir=tmp_path), asked)
    largest = max(tmp_path.glob("*.kv"), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])
    second, last, events = ask(backend(store_dir=tmp_path), asked)
    assert second == first
    assert read(events, "read") == 70
    assert any("read again" in note for note in last.notes)
    assert ask(backend(store_dir=tmp_path), asked)[1].notes == ()


def test_what_cannot_be_stored_is_said_once_an_answer_and_the_answer_goes_on(backend: Make, tmp_path: Path) -> None:
    one = backend(store_dir=tmp_path, store_bytes=1000)
    ids, last, _ = ask(one, request(text(10, 2), (text(70, 1), text(71, 3))))
    assert len(ids) == 12
    assert len(last.notes) == 1
    assert len(ask(one, request(text(10, 2), (text(72, 1),)))[1].notes) == 1
    assert ask(one, request(text(10, 2), (text(72, 1),)))[1].notes == ()


def steps(of: Iterator[Event | None], count: int) -> None:
    for _ in range(count):
        next(of)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 6, 8, 10])
def test_closing_anywhere_leaves_everything_usable(backend: Make, tmp_path: Path, after: int) -> None:
    asked = request(text(100, 2), (text(130, 1), text(40, 3)))
    wanted, _, _ = ask(backend(), asked)
    one = backend(store_dir=tmp_path)
    free = one._cache.pool.free_tokens
    run = one.run(asked)
    steps(run, after)
    run.close()  # type: ignore[attr-defined]
    assert ask(one, asked)[0] == wanted
    assert ask(backend(store_dir=tmp_path), asked)[0] == wanted
    assert one._cache.pool.free_tokens + one._cache.evictable_tokens() == free


def test_two_requests_may_take_turns(backend: Make) -> None:
    asked = [request(text(30, 2), (text(130, 1), text(60, 4))), request(text(31, 3), (text(130, 1), text(60, 5)))]
    wanted = [ask(backend(), one)[0] for one in asked]
    shared = backend()
    runs = [shared.run(one) for one in asked]
    got: list[list[int]] = [[], []]
    open_ = {0, 1}
    while open_:
        for i in sorted(open_):
            event = next(runs[i])
            if isinstance(event, Token):
                got[i] += event.ids
            elif isinstance(event, Finished):
                open_.discard(i)
    assert got == wanted


def test_a_context_that_cannot_fit_is_refused_with_the_numbers_before_any_work(backend: Make) -> None:
    one = backend(kv_bytes=256 * 300)
    with pytest.raises(ContextTooLong, match=r"419 tokens.*are 256"):
        next(one.run(request(text(10, 2), (text(400, 1),))))
    assert one._cache.pool.free_tokens == one.ready().max_context == 256


def test_old_segments_make_room_for_new_ones(backend: Make) -> None:
    one = backend(kv_bytes=256 * 512)
    for seed in range(6):
        _, last, events = ask(one, request(text(10, 2), (text(200, seed),)))
        assert last.usage.completion > 0
        assert read(events, "read") == 200 + 9 * (seed == 0)


def test_an_answer_ends_where_the_memory_ends_and_says_so(backend: Make) -> None:
    one = backend(kv_bytes=256 * 384)
    _, last, _ = ask(one, request(text(100, 2), (text(20, 3),), max_tokens=400))
    assert last.reason == "length"
    assert any("memory is full" in note for note in last.notes)
    assert one._cache.pool.free_tokens == 0


def test_a_seed_gives_the_same_answer_again(backend: Make) -> None:
    def drawn(seed: int) -> list[int]:
        return ask(backend(), request(text(20, 2), temperature=2.0, seed=seed, max_tokens=30))[0]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_a_stop_string_ends_the_answer_even_across_tokens(backend: Make) -> None:
    asked = request(text(20, 2), temperature=2.0, seed=4, max_tokens=60)
    whole = "".join(event.text for event in backend().run(asked) if isinstance(event, Token))
    stop = next(whole[at : at + 3] for at in range(6, len(whole)) if "\ufffd" not in whole[at : at + 3])
    stopped = request(text(20, 2), temperature=2.0, seed=4, max_tokens=60, stop=(stop,))
    events = list(backend().run(stopped))
    assert "".join(event.text for event in events if isinstance(event, Token)) == whole[: whole.index(stop)]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stop"


def test_tokens_carry_where_attention_looked(backend: Make) -> None:
    for segments in ((text(64, 1), text(64, 3)), (text(200, 1), text(200, 3))):
        tokens = [one for one in ask(backend(), request(text(10, 2), segments))[2] if isinstance(one, Token)]
        end = 9 + sum(map(len, segments))
        for token in tokens[1:]:
            places, shares = zip(*token.attended, strict=True)
            assert all(9 <= place < end for place in places)
            assert list(shares) == sorted(shares, reverse=True)
            assert 0.0 < sum(shares) <= 1.001
    asked = request(text(10, 2), (text(64, 1),))
    import msgspec

    silent = msgspec.structs.replace(asked, attribution=False)
    assert all(event.attended == () for event in ask(backend(), silent)[2] if isinstance(event, Token))


@pytest.mark.parametrize(
    ("harm", "named"),
    [({"prompt": b""}, "empty"), ({"prompt": pack_ids([259])}, "259"), ({"prefix": pack_ids([-1])}, "-1")],
)
def test_impossible_requests_are_refused(backend: Make, harm: dict[str, bytes], named: str) -> None:
    import msgspec

    with pytest.raises(BadRequest, match=named):
        list(backend().run(msgspec.structs.replace(request(text(3, 1)), **harm)))


def test_prefill_alone_stores_and_finishes(backend: Make, tmp_path: Path) -> None:
    asked = Prefill(id="p", prefix=pack_ids(PREFIX), segments=(Segment(pack_ids(text(70, 1))),))
    _, last, _ = ask(backend(store_dir=tmp_path), asked)
    assert (last.reason, last.usage.prompt, last.attention) == ("stop", 79, None)
    assert len(list(tmp_path.glob("*.kv"))) == 2


def test_a_cancelled_answer_still_reports_what_it_attended_to(backend: Make) -> None:
    running = backend().run(request(text(20, 2), (text(100, 3),)))
    assert isinstance(running, Generator)
    while not isinstance(next(running), Token):
        pass
    end = running.throw(Cancelled("enough"))
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    assert end.attention is not None
    assert end.usage.completion >= 1
