"""The needles' benchmark, small: contexts that share their documents, and the same answers from both pools."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import haystack, needle_contexts
from benchmarks.needle_asking import Place, ask, calibrated, engine_for, gap, request
from benchmarks.offload_needles import Needles
from tests.engine.tiny import save_tiny

from unabridged.engine.options import EngineOptions
from unabridged.models.manifest import CALIBRATION
from unabridged.models.tokenizer import Tokenizer

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")

WINDOW, DOCUMENT = 256, 96
TEXT = " ".join(f"The {number}th day: up, and by water to the office." for number in range(30))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny", WINDOW, dim=64, layers=1, heads=2, kv_heads=1)


def made(model: Path, tokens: int, count: int = 2) -> needle_contexts.Contexts:
    needles = haystack.needles(["code"], count, seed=1)
    return needle_contexts.build(Tokenizer.load(model), TEXT, needles, tokens, DOCUMENT, calibration=2)


def test_contexts_differ_in_the_needles_document_alone_and_repeat_none(model: Path) -> None:
    contexts, tokenizer = made(model, 30 * DOCUMENT, 4), Tokenizer.load(model)
    # More than the text has once.
    assert len(contexts.fillers) * DOCUMENT > len(tokenizer.encode(TEXT))
    assert len({*contexts.calibration, *contexts.fillers, *contexts.holders}) == 2 + 29 + 4
    for tokens in (8 * DOCUMENT, 30 * DOCUMENT):
        places = []
        for number, needle in enumerate(contexts.needles):
            segments = contexts.segments(number, tokens)
            assert sum(map(len, segments)) == tokens
            at = segments.index(contexts.holders[number])
            assert segments[:at] + segments[at + 1 :] == list(contexts.fillers[: len(segments) - 1])
            assert needle.sentence in tokenizer.decode(contexts.holders[number])
            places.append(at)
        assert places == sorted(places)
        assert places[0] < len(segments) // 4 < len(segments) * 3 // 4 <= places[-1] + 1
    with pytest.raises(ValueError, match="1 to 30 of them"):
        contexts.segments(0, 31 * DOCUMENT)


def test_a_text_that_is_too_short_even_so_is_refused(model: Path) -> None:
    with pytest.raises(ValueError, match="are needed"):
        made(model, 1000 * DOCUMENT)


@pytest.mark.slow
def test_all_places_say_the_same_and_what_cannot_be_had_is_left_out(model: Path, tmp_path: Path, device: str) -> None:
    contexts = made(model, 6 * DOCUMENT)
    folder = calibrated(model, contexts, tmp_path)
    assert (folder / CALIBRATION).exists()
    assert calibrated(folder, contexts, tmp_path) == folder
    options: dict[str, Any] = {"kv_dtype": "float32", "prefill_chunk": 256, "slots": 1, "kv_bytes": 2 << 20}
    places = [
        Place("host", EngineOptions(place="host", **options), device=device, dtype=torch.float32),
        Place("gpu", EngineOptions(place="gpu", **options), device=device, dtype=torch.float32),
        Place("tight", EngineOptions(place="host", **options), True, device=device, dtype=torch.float32),
    ]
    result: dict[str, Any] = {}
    asking = Needles(folder, contexts, 6, time.monotonic() + 1000, result, None)
    asking.run(places, [6 * DOCUMENT, 100 * DOCUMENT])
    assert len(result["failed"]) == 3
    assert all("for 9,600 tokens: OutOfMemory" in line for line in result["failed"])
    host, gpu, tight = result["rows"]
    assert [row["place"] for row in result["rows"]] == ["host", "gpu", "tight"]
    # Five documents are the same for both questions.
    for row in result["rows"]:
        assert [one["read"] for one in row["answers"]] == [len(contexts.prefix) + 6 * DOCUMENT, DOCUMENT]
    assert (gpu["same"], gpu["compared"], gpu["bus"]) == (2, 2, None)
    assert (tight["same"], tight["compared"]) == (2, 2)
    assert tight["bus"]["bytes"] > host["bus"]["bytes"] > 0


@pytest.mark.slow
def test_the_gap_is_that_of_the_token_that_comes_next(model: Path, device: str) -> None:
    contexts = made(model, DOCUMENT)
    options = EngineOptions(place="gpu", kv_dtype="float32", slots=1, kv_bytes=2 << 20)
    place = Place("gpu", options, device=device, dtype=torch.float32)
    engine = engine_for(place, model, DOCUMENT + contexts.beside, 1)
    question = request(contexts.prefix, contexts.segments(0, DOCUMENT), contexts.questions[0][:20], 1)
    said, found = ask(engine, question), gap(engine, question)
    engine.close()
    assert found["best"][0] == said.ids[0]
    assert found["gap"] >= 0
