"""Whole requests through the GPU's engine beside the CPU's: padding, conversations, several at once, cancelling."""

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.engine.backend import Backend
from unabridged.engine.errors import BadRequest, EngineUnavailable, OutOfMemory
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
from unabridged.engine.gpu import backend, memory
from unabridged.engine.gpu.backend import GpuBackend
from unabridged.engine.gpu.prefill import Prefill as Reading
from unabridged.engine.gpu.runner import GpuRunner
from unabridged.engine.options import EngineOptions
from unabridged.models.tokenizer import Tokenizer

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

WINDOW = 256
ANSWER = 4
Make = Callable[..., GpuBackend]


def text(length: int, seed: int = 0) -> list[int]:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # One layer of one head: a step takes the interpreter half a second as it is.
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", WINDOW, dim=64, layers=1, heads=2, kv_heads=1)


@pytest.fixture
def gpu(model: Path, device: str) -> Make:
    def make(**options: object) -> GpuBackend:
        fields = {"kv_bytes": 1 << 20, "kv_dtype": "float32", "prefill_chunk": 64, "slots": 3, **options}
        return GpuBackend(model, EngineOptions(**fields), device, torch.float32)  # type: ignore[arg-type]

    return make


@pytest.fixture
def cpu(model: Path) -> TorchBackend:
    return TorchBackend(model, EngineOptions(threads=1, kv_bytes=4 << 20, kv_dtype="float32"))


def request(
    prompt: Sequence[int],
    segments: Sequence[Sequence[int]] = (),
    prefix: Sequence[int] = (),
    id: str = "r",
    choice: AttentionChoice | None = None,
    **sampling: object,
) -> Generate:
    return Generate(
        id=id,
        prefix=pack_ids(prefix),
        segments=tuple(Segment(pack_ids(one)) for one in segments),
        prompt=pack_ids(prompt),
        sampling=Sampling(**{"max_tokens": ANSWER, **sampling}),  # type: ignore[arg-type]
        attention=choice or AttentionChoice(),
    )


def ids_of(events: Sequence[Event]) -> list[int]:
    return [one for event in events if isinstance(event, Token) for one in event.ids]


def ask(of: Backend, asked: Generate | Prefill) -> tuple[list[int], Finished, list[Event]]:
    events = [event for event in of.run(asked) if event is not None]
    last = events[-1]
    assert isinstance(last, Finished)
    return ids_of(events), last, events


def together(of: Backend, asked: Sequence[Generate]) -> dict[str, list[Event]]:
    """All events of requests that take turns."""
    runs = {one.id: of.run(one) for one in asked}
    events: dict[str, list[Event]] = {id: [] for id in runs}
    while runs:
        for id, run in list(runs.items()):
            event = next(run)
            events[id] += [] if event is None else [event]
            if isinstance(event, Finished):
                del runs[id]
    return events


def read(events: Sequence[Event], phase: str) -> int:
    return max((event.done for event in events if isinstance(event, Progress) and event.phase == phase), default=0)


@pytest.fixture(scope="module")
def newline(model: Path) -> int:
    (id,) = Tokenizer.load(model).encode("\n")
    return id


def padded(ids: Sequence[int], newline: int) -> list[int]:
    """Filled up with newlines to whole pages: what the GPU's engine makes of a segment."""
    return [*ids, *[newline] * (-len(ids) % 16)]


def test_an_answer_is_that_of_the_cpu_and_the_next_turn_reads_only_what_is_new(gpu: Make, cpu: TorchBackend) -> None:
    one, turn = gpu(), text(21, 1)
    first, last, _ = ask(one, request(turn))
    assert first == ask(cpu, request(turn))[0]
    assert last.attention is not None
    assert (last.attention.kind, last.attention.context) == ("dense", 21 + ANSWER - 1)
    following = turn + first + text(7, 2)
    again, last, events = ask(one, request(following))
    assert read(events, "question") == 7 + 1
    assert last.usage.cached == len(following) - 8
    assert again == ask(cpu, request(following))[0]


def test_segments_of_odd_lengths_are_padded_inside_and_counted_as_they_are(
    gpu: Make, cpu: TorchBackend, newline: int
) -> None:
    one, prefix, a, b = gpu(), text(9, 1), text(37, 2), text(16, 3)
    found, last, events = ask(one, request(text(5, 4), (a, b, a), prefix))
    expected, _, _ = ask(cpu, request(text(5, 4), [padded(x, newline) for x in (a, b, a)], padded(prefix, newline)))
    assert found == expected
    assert last.usage.prompt == 9 + 37 + 16 + 37 + 5
    assert last.usage.cached == 0
    assert read(events, "read") == 9 + 37 + 16
    assert last.attention is not None
    assert last.attention.context == last.usage.prompt + ANSWER - 1
    looks = [event.attended for event in events if isinstance(event, Token) and event.attended]
    assert looks
    # The pages of the segments in positions of the caller, without the filler.
    starts = {9, 25, 41, 46, 62, 78, 94}
    for look in looks:
        places, shares = zip(*look, strict=True)
        assert set(places) <= starts
        assert list(shares) == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0, abs=1e-3)
    _, last, events = ask(one, request(text(6, 5), (b, a), prefix, max_tokens=1))
    assert read(events, "read") == 0
    assert last.usage.cached == 9 + 16 + 37


@pytest.mark.thorough
def test_answers_together_are_those_alone_and_share_their_documents(gpu: Make) -> None:
    prefix, shared = text(9, 1), text(37, 2)
    kinds: list[dict[str, Any]] = [{"max_tokens": 2}, {"max_tokens": 3, "temperature": 1.5, "seed": 5}]
    asked = [request(text(5 + 6 * n, n), (shared,), prefix, id=str(n), **kind) for n, kind in enumerate(kinds)]
    alone = gpu(slots=2)
    expected = {one.id: ask(alone, one)[0] for one in asked}
    one = gpu(slots=2)
    free = one._cache.pool.free_tokens
    events = together(one, asked)
    assert {id: ids_of(found) for id, found in events.items()} == expected
    assert sum(read(found, "read") for found in events.values()) <= 2 * (9 + 37)
    # Prefix and segment once, and two ends: a block each.
    assert free - one._cache.pool.free_tokens == 64 * (1 + 1 + 2)


def test_cancelling_while_reading_leaves_the_others_running(gpu: Make, cpu: TorchBackend) -> None:
    one, turn = gpu(prefill_chunk=16), text(21, 1)
    answering, reading = one.run(request(turn, max_tokens=2)), one.run(request(text(5, 2), (text(100, 3),)))
    assert isinstance(next(reading), Progress)
    assert isinstance(next(reading), Progress)
    events: list[Event | None] = [next(answering) for _ in range(2)]
    reading.close()  # type: ignore[attr-defined]
    events += answering
    assert ids_of([event for event in events if event]) == ask(cpu, request(turn, max_tokens=2))[0]
    assert one._cache.pool.free_tokens + one._cache.evictable_tokens() == one.ready().max_context


def test_a_context_that_does_not_fit_beside_another_waits(gpu: Make) -> None:
    one = gpu(kv_bytes=64 * 1024)
    assert one.ready().max_context == 128
    asked = [request(text(5, n), (text(40, n),), id=str(n), max_tokens=1) for n in range(2)]
    events = together(one, asked)
    assert [len(ids_of(found)) for found in events.values()] == [1, 1]


def test_stored_segments_come_back_from_the_disk(gpu: Make, tmp_path: Path) -> None:
    asked = request(text(10, 2), (text(70, 1), text(90, 3)), text(9), max_tokens=1)
    before = gpu(store_dir=tmp_path)
    first, _, _ = ask(before, asked)
    before.close()
    one = gpu(store_dir=tmp_path)
    second, last, events = ask(one, asked)
    assert second == first
    assert read(events, "restore") == last.usage.cached == 9 + 160
    assert read(events, "read") == 0
    assert one.ready().fingerprint == gpu().ready().fingerprint
    assert one.ready().fingerprint != gpu(kv_dtype="bfloat16").ready().fingerprint


def test_a_pass_reads_no_more_than_the_kernels_number(gpu: Make) -> None:
    # Their numbers of 32 bits count a token's heads: 349,526 tokens of Llama 3.1 8B were too many.
    assert gpu(prefill_chunk=1 << 20)._serving._runner.chunk() == 32768


def test_a_window_without_extension_is_bounded_by_the_memory(gpu: Make) -> None:
    one = gpu()
    unbounded = AttentionChoice(overrides={"extension": False, "dense_below": 10**9})
    assert one._choose(unbounded).dense_below == one.ready().max_context + 1 > WINDOW
    assert one._choose(AttentionChoice()).dense_below == WINDOW


def test_a_pass_that_others_follow_ends_with_a_block_of_queries(gpu: Make) -> None:
    one = gpu()
    course = one._serving._runner.course([], [], 272, one._choose(AttentionChoice()))
    assert [course.fits(*one) for one in ((64, 200), (64, 64), (200, 64), (512, 2000), (16, 200))] == [
        48,
        64,
        64,
        496,
        16,
    ]


def test_eight_bits_on_a_card_without_them_are_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    with pytest.raises(EngineUnavailable, match=r"8\.9, this GPU has 8\.6"):
        GpuBackend(model, EngineOptions(kv_dtype="float8_e4m3fn"), "cuda:0")


@pytest.mark.parametrize(
    ("overrides", "named"), [({"stream": 72}, "stream = 72"), ({"refresh": "4096/1"}, "refresh = 4096/1 .*128 at most")]
)
def test_what_the_kernels_do_not_do_is_refused_by_name(gpu: Make, overrides: dict[str, int | str], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        ask(gpu(), request(text(5, 1), choice=AttentionChoice(overrides={**overrides})))


def test_memory_of_another_attention_that_nobody_uses_is_given_back(gpu: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one, asked = gpu(slots=1), request(text(5, 1), max_tokens=1)
    expected, _, _ = ask(gpu(slots=1), asked)
    ask(one, request(text(6, 2), choice=AttentionChoice(refresh="fast"), max_tokens=1))
    runner, read = one._serving._runner, Reading.read
    assert isinstance(runner, GpuRunner)
    lanes = runner._lanes

    def tight(self: Reading, *args: Any) -> torch.Tensor:
        if len(lanes) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return read(self, *args)

    _, other = lanes.values()
    batch = weakref.ref(other.decoder.alone)
    del other
    monkeypatch.setattr(Reading, "read", tight)
    assert ask(one, asked)[0] == expected
    assert batch() is None


def test_attention_that_there_is_no_memory_for_is_refused_by_name(gpu: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one, asked = gpu(slots=1), request(text(5, 1), max_tokens=1)
    expected = ask(one, asked)[0]

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(GpuRunner, "_lane", full)
    with pytest.raises(OutOfMemory, match="refresh 32/16/8 needs memory of its own"):
        ask(one, request(text(5, 1), choice=AttentionChoice(refresh="fast"), max_tokens=1))
    assert ask(one, asked)[0] == expected


def test_the_pool_lies_where_the_plan_puts_it(gpu: Make) -> None:
    one, other = gpu(), gpu(place="host")
    asked = request(text(5, 1), max_tokens=2)
    assert ask(other, asked)[0] == ask(one, asked)[0]
    ready = other.ready()
    assert (one.ready().place, one.ready().host_bytes) == ("gpu", 0)
    assert (ready.place, ready.host_bytes, ready.max_context) == ("host", 1 << 20, one.ready().max_context)
    assert {"weights", "bank of keys", "staging"} <= dict(ready.memory).keys()
    # Nobody fetched anything: the answer attended to a copy of all.
    _, last, _ = ask(other, asked)
    assert last.attention is not None
    assert last.attention.bus is None


def test_what_a_pool_in_the_host_does_not_serve_is_refused_by_name(gpu: Make) -> None:
    asked = request(text(5, 1), choice=AttentionChoice(overrides={"sink": 17}))
    with pytest.raises(BadRequest, match=r"sink = 17 .*multiple of 16"):
        ask(gpu(place="host"), asked)


def test_the_attention_of_the_settings_is_the_engines_own(gpu: Make) -> None:
    fast = AttentionChoice(refresh="fast")
    for choice, place in ((fast, "gpu"), (fast, "host"), (AttentionChoice(overrides={"extension": False}), "gpu")):
        one = gpu(attention=choice, place=place)
        runner = one._serving._runner
        assert isinstance(runner, GpuRunner)
        assert [*runner._lanes] == [one._choose(choice)]
    # What no GPU does is refused when it is asked for, and does not keep the engine from starting.
    runner = gpu(attention=AttentionChoice(overrides={"stream": 72}))._serving._runner
    assert isinstance(runner, GpuRunner)
    assert [own.stream for own in runner._lanes] == [64]


def test_a_limit_that_does_not_do_is_told_before_the_model_is_loaded(
    gpu: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "load", None)
    with pytest.raises(OutOfMemory, match=r"of GPU memory, 512 MiB|of GPU memory, 0.5 GiB"):
        gpu(vram_bytes=512 << 20)


@pytest.mark.gpu
def test_passes_find_their_memory_in_one_piece(gpu: Make, device: str) -> None:
    one = gpu()
    torch.cuda.empty_cache()
    memory.reserve(one._plan, torch.device(device))
    reserved = torch.cuda.memory_reserved(device)
    passing = torch.empty(one._plan.passing, dtype=torch.uint8, device=device)
    assert torch.cuda.memory_reserved(device) == reserved
    assert passing.numel() > 0


@pytest.mark.thorough
def test_past_the_window_a_pool_in_the_host_gives_the_same_answers(gpu: Make) -> None:
    segments, choice = (text(200, 1), text(208, 3)), AttentionChoice(refresh="every")
    asked = [request(text(30, n), segments, id=str(n), choice=choice, max_tokens=5) for n in range(2)]
    expected = together(gpu(slots=2), asked)
    found = together(gpu(slots=2, place="host"), asked)
    assert {id: ids_of(events) for id, events in found.items()} == {id: ids_of(one) for id, one in expected.items()}
    for events in found.values():
        last = events[-1]
        assert isinstance(last, Finished)
        assert last.attention is not None
        bus = last.attention.bus
        assert bus is not None
        assert 0 < bus.fetching <= bus.steps
        assert bus.keys_fetched > 0
        # Float32 pages of 16 keys or values of 64 numbers.
        assert bus.bytes == (bus.keys_fetched + bus.values_fetched) * 16 * 64 * 4


@pytest.mark.thorough
def test_past_the_window_the_answer_is_that_of_the_cpu(gpu: Make, cpu: TorchBackend, newline: int) -> None:
    segments = text(200, 1), text(208, 3)
    found, last, _ = ask(gpu(), request(text(30, 2), segments))
    expected, theirs, _ = ask(cpu, request(text(30, 2), [padded(one, newline) for one in segments]))
    assert found == expected
    assert last.attention is not None
    assert theirs.attention is not None
    assert last.attention.kind == "sparse"
    assert last.attention.context == 200 + 208 + 30 + ANSWER - 1
    assert last.attention.attended == pytest.approx(theirs.attention.attended, rel=0.1)
    assert last.attention.coverage == pytest.approx(theirs.attention.coverage, abs=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("overrides", [{"sink": 17}, {"chunk": 1}], ids=str)
def test_sinks_and_chunks_that_are_no_pages_and_a_prompt_in_pieces_are_as_on_the_cpu(
    gpu: Make, cpu: TorchBackend, overrides: dict[str, int]
) -> None:
    choice = AttentionChoice(overrides={**overrides})
    asked = request(text(200, 2), [text(208, 1), text(64, 3)], choice=choice)
    assert ask(gpu(), asked)[0] == ask(cpu, asked)[0]


@pytest.mark.thorough
def test_an_answer_grows_out_of_the_window_beside_one_that_does_not(gpu: Make) -> None:
    asked = [request(text(252, 1), id="long", max_tokens=7), request(text(20, 2), id="short", max_tokens=6)]
    alone = gpu()
    expected = {one.id: ask(alone, one)[0] for one in asked}
    events = together(gpu(), asked)
    assert {id: ids_of(found) for id, found in events.items()} == expected
    kinds = [found[-1].attention.kind for found in events.values()]  # type: ignore[union-attr]
    assert kinds == ["sparse", "dense"]


@pytest.mark.thorough
def test_an_answer_ends_where_the_memory_ends_and_says_so(gpu: Make) -> None:
    _, last, _ = ask(gpu(kv_bytes=64 * 1024), request(text(100, 2), max_tokens=400))
    assert last.reason == "length"
    assert 0 < last.usage.completion < 28
    assert any("memory is full" in note for note in last.notes)
