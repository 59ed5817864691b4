"""Joint contexts on the GPU: pages, several parts in a pass, and past the window, beside the CPU's."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from tests.engine.tiny import save_tiny

from unabridged.engine.backend import Backend
from unabridged.engine.events import (
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
from unabridged.engine.gpu.backend import GpuBackend
from unabridged.engine.options import EngineOptions
from unabridged.models.tokenizer import Tokenizer

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

WINDOW = 256
Make = Callable[..., GpuBackend]
Ids = list[int]


def text(length: int, seed: int = 0) -> Ids:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


PREFIX, A, B, C = text(9), text(37, 1), text(16, 2), text(50, 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", WINDOW, dim=64, layers=1, heads=2, kv_heads=1)


@pytest.fixture
def gpu(model: Path, device: str) -> Make:
    def make(**options: object) -> GpuBackend:
        fields = {"kv_bytes": 1 << 20, "kv_dtype": "float32", "prefill_chunk": 64, "slots": 1, **options}
        return GpuBackend(model, EngineOptions(**fields), device, torch.float32)  # type: ignore[arg-type]

    return make


@pytest.fixture
def cpu(model: Path) -> TorchBackend:
    return TorchBackend(model, EngineOptions(threads=1, kv_bytes=4 << 20, kv_dtype="float32"))


@pytest.fixture(scope="module")
def pad(model: Path) -> Callable[[Ids], Ids]:
    (newline,) = Tokenizer.load(model).encode("\n")
    return lambda ids: [*ids, *[newline] * (-len(ids) % 16)]


def request(segments: Sequence[Ids], prefix: Ids = PREFIX, composition: Composition = "joint") -> Generate:
    return Generate(
        id="r",
        prefix=pack_ids(prefix),
        segments=tuple(Segment(pack_ids(one)) for one in segments),
        composition=composition,
        prompt=pack_ids(text(8, 9)),
        sampling=Sampling(max_tokens=3),
    )


def ask(of: Backend, asked: Generate) -> tuple[Ids, int, list[Event]]:
    """Its answer, and how many tokens were read for it."""
    events = [event for event in of.run(asked) if event is not None]
    assert isinstance(events[-1], Finished)
    read = [event.done for event in events if isinstance(event, Progress) and event.phase == "read"]
    return [one for event in events if isinstance(event, Token) for one in event.ids], max(read, default=0), events


def kv(of: GpuBackend, asked: Generate) -> list[torch.Tensor]:
    entries = [of._cache._entries[part.key] for part in of._serving._parts(asked)]
    return [of._cache.pool.read(entry.runs) for entry in entries]


@pytest.mark.thorough
def test_a_joint_context_is_that_of_the_cpu_and_only_what_changed_is_read_again(
    gpu: Make, cpu: TorchBackend, pad: Callable[[Ids], Ids]
) -> None:
    one = gpu()
    found, read, events = ask(one, request((A, B, C)))
    assert read == 9 + 37 + 16 + 50
    assert found == ask(cpu, request([pad(x) for x in (A, B, C)], pad(PREFIX)))[0]
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.usage.prompt == 9 + 37 + 16 + 50 + 8
    found, read, _ = ask(one, request((A, C)))
    assert read == 50
    never = gpu()
    assert found == ask(never, request((A, C)))[0]
    for mine, theirs in zip(kv(one, request((A, C))), kv(never, request((A, C))), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.thorough
@pytest.mark.parametrize("place", ["gpu", "host"])
def test_past_the_window_a_joint_context_is_that_of_the_cpu(
    gpu: Make, cpu: TorchBackend, pad: Callable[[Ids], Ids], place: str
) -> None:
    segments = text(100, 4), text(208, 5), text(41, 6), text(90, 7)
    one = gpu(place=place)
    assert one._cache.pool.offloaded == (place == "host")  # type: ignore[attr-defined]
    found, _, _ = ask(one, request(segments))
    assert found == ask(cpu, request([pad(x) for x in segments], pad(PREFIX)))[0]
    # What follows leaves no trace in what stands before it, in masks neither.
    shorter = gpu(place=place)
    ask(shorter, request(segments[:-1]))
    for mine, theirs in zip(kv(one, request(segments[:-1])), kv(shorter, request(segments[:-1])), strict=True):
        torch.testing.assert_close(mine, theirs)
