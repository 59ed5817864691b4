"""How memory is divided: where keys and values lie, what fits, and what is said where it does not."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.engine.tiny import save_tiny

from unabridged.engine.attention.config import for_window
from unabridged.engine.errors import EngineUnavailable, OutOfMemory
from unabridged.engine.kv import memory
from unabridged.engine.plan.divide import divide
from unabridged.engine.plan.machine import Machine, disk, free_for, usable
from unabridged.engine.plan.plan import Plan, Subject, Wish
from unabridged.engine.plan.speeds import CARDS, speeds
from unabridged.engine.plan.weights import weights_of
from unabridged.engine.plan.words import headline, plan_lines, speed_lines

GIB = 1 << 30
MILLION = 1 << 20
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "quantization_config": {
        "quant_method": "awq",
        "version": "gemm",
        "bits": 4,
        "group_size": 128,
        "zero_point": True,
    },
}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Llama 3.1 8B in 4 bits, of its config.json alone."""
    file = tmp_path_factory.mktemp("8b") / "config.json"
    file.write_text(json.dumps(LLAMA))
    weights = weights_of(file, 16)
    attention = for_window(131072, indexed=True)
    return Subject("llama8b", weights.config, weights.bytes, 2, attention, "float8_e4m3fn", indexed=True)


def on(vram: float, ram: float = 128) -> Machine:
    return Machine(int(vram * GIB), int(ram * GIB), 0)


def refused(subject: Subject, machine: Machine, wish: Wish) -> str:
    with pytest.raises(OutOfMemory) as caught:
        divide(subject, machine, wish)
    return f"{caught.value.message} | {caught.value.hint}"


def offered(text: str) -> int:
    """The tokens that a refusal says would fit."""
    found = re.search(r"([\d,]+) tokens \(engine.context_tokens\)", text)
    assert found is not None
    return int(found[1].replace(",", ""))


def test_weights_by_shapes_are_those_of_the_tensors(llama: Subject) -> None:
    # What loading a made-up checkpoint of these shapes read (docs/log.md, "Loading").
    assert llama.weights == 5_727_854_592


def test_weights_of_files_are_their_size(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "tiny", 256, dim=64, layers=2, heads=2, kv_heads=1)
    files = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    whole, rounded = weights_of(folder, 16), weights_of(folder, 8)
    assert whole.bytes == files
    config = whole.config
    tables = (1 if config.tied else 2) * config.vocab_size * config.hidden
    assert whole.bytes - rounded.bytes == tables * (whole.itemsize - 1)


def test_a_million_tokens_fit_into_24_gib_with_their_keys_and_values_in_the_host(llama: Subject) -> None:
    plan = divide(llama, on(24), Wish(context=MILLION, slots=1))
    assert (plan.place, plan.tokens, plan.slots) == ("host", MILLION, 1)
    assert plan.ram == 64 * GIB
    assert plan.vram < 20 * GIB
    assert plan.attention.dense_below == 8192
    assert {"index", "staging", "bank of keys", "bank of values"} <= {part.name for part in plan.parts}
    assert plan.part("staging") == pytest.approx(4 * GIB, rel=0.02)
    assert sum(part.bytes for part in plan.parts) == plan.vram


def test_keys_and_values_lie_on_the_gpu_where_it_holds_the_context(llama: Subject) -> None:
    plan = divide(llama, on(24), Wish(context=100_000))
    # In whole blocks of 64.
    assert (plan.place, plan.tokens, plan.ram) == ("gpu", 100_032, 0)
    assert plan.attention.dense_below == 131072
    assert divide(llama, on(24), Wish(context=100_000, place="host")).place == "host"


def test_where_nothing_is_asked_for_the_window_decides(llama: Subject) -> None:
    plan = divide(llama, on(24), Wish())
    assert plan.place == "gpu"
    assert plan.tokens > 200_000
    more = divide(llama, on(24 + 1), Wish())
    assert more.tokens - plan.tokens == pytest.approx(GIB / (plan.kv.token + plan.kv.codes), rel=0.03)
    # Too small a card for the window: the host, as far as its memory goes.
    plan = divide(llama, on(16, ram=20), Wish())
    assert (plan.place, plan.slots) == ("host", 1)
    assert 20 * GIB - plan.ram < 64 * plan.kv.token
    # Without memory in the host as many as the card holds.
    assert divide(llama, on(12, ram=1), Wish()).place == "gpu"


def test_fewer_answers_at_a_time_leave_room_unless_a_number_was_asked_for(llama: Subject) -> None:
    wish = Wish(context=MILLION)
    plan = divide(llama, on(24), wish)
    assert 1 <= plan.slots < 8
    assert divide(llama, on(80), replace(wish, place="host")).slots == 8
    said = refused(llama, on(24), replace(wish, slots=8))
    assert "engine.slots 1" in said


def test_pieces_are_shorter_where_memory_is_short(llama: Subject) -> None:
    full = divide(llama, on(24), Wish(context=MILLION, slots=1))
    tight = divide(llama, Machine(full.vram - (1 << 28), 128 * GIB, 0), Wish(context=MILLION, slots=1))
    assert tight.longest < full.longest == 32768


def test_three_million_tokens_fit_with_little_staging(llama: Subject) -> None:
    machine, wish = on(24, ram=256), Wish(context=3_000_000, slots=1)
    plan = divide(llama, machine, wish)
    assert (plan.tokens, plan.staged, plan.longest) == (3_000_000, 1 << 17, 8192)
    assert plan.part("staging") == pytest.approx(GIB / 2, rel=0.02)
    assert any("131,072 tokens" in line for line in plan_lines(plan))
    assert "without an index, slower over host memory (engine.preset 3k)" in refused(llama, on(22, ram=256), wish)
    # Attention without an index leaves room for staging.
    unindexed = replace(llama, attention=for_window(131072), indexed=False)
    plan = divide(unindexed, machine, wish)
    assert (plan.staged, plan.part("index")) == (3_000_000, 0)
    assert divide(llama, on(24), Wish(context=MILLION, slots=1)).staged == MILLION
    # What nobody asked for is not had at the price of slow reading.
    assert divide(llama, on(16, ram=256), Wish()).staged == divide(llama, on(16, ram=256), Wish()).tokens


def test_too_little_of_the_hosts_memory_is_told_with_what_would_fit(llama: Subject) -> None:
    machine = on(24, ram=32)
    said = refused(llama, machine, Wish(context=MILLION))
    assert "1,048,576 tokens of llama8b need 64.0 GiB of host memory" in said
    assert "32.0 GiB may be taken" in said
    assert "65.8 GiB of the host's memory free" in said
    tokens = offered(said)
    assert divide(llama, machine, Wish(context=tokens)).tokens == tokens
    refused(llama, machine, Wish(context=tokens + 64))


def test_too_little_of_the_gpus_memory_is_told_with_what_would_fit(llama: Subject) -> None:
    said = refused(llama, on(6), Wish())
    assert "of GPU memory, 6.0 GiB may be taken" in said
    wide = replace(llama, kind="bfloat16")
    said = refused(wide, on(24), Wish(context=200_000, place="gpu"))
    assert "keys and values in 8 bits (engine.kv_dtype float8_e4m3fn)" in said
    assert "keys and values in host memory (engine.place host)" in said
    assert offered(said) < 200_000
    assert "8 bits" not in refused(replace(wide, eight=False), on(24), Wish(context=200_000, place="gpu"))


def test_attention_that_the_host_does_not_serve_keeps_to_the_gpu(llama: Subject) -> None:
    odd = replace(llama, attention=replace(llama.attention, sink=17))
    assert divide(odd, on(24), Wish()).place == "gpu"
    assert "of host memory" not in refused(odd, on(24), Wish(context=MILLION))
    with pytest.raises(EngineUnavailable, match="sink = 17 with the KV in host memory"):
        divide(odd, on(24), Wish(place="host"))


def test_a_limit_of_the_pool_holds_wherever_it_lies(llama: Subject) -> None:
    limit = GIB
    for place in ("gpu", "host"):
        plan = divide(llama, on(24), Wish(place=place, pool=limit))
        each = plan.kv.token + (plan.kv.codes if place == "gpu" else 0)
        assert limit - 64 * each < plan.tokens * each <= limit
    assert "engine.kv_memory_mib allows 1.0 GiB" in refused(llama, on(24), Wish(context=100_000, pool=limit))


def test_what_the_host_may_give_and_what_must_be_free_for_it_are_inverse() -> None:
    for pool in (1, 12_345_678, 64 * GIB):
        assert pool <= usable(free_for(pool)) <= pool + 2
    assert usable(memory.RESERVE_BYTES) == 0


def test_the_disk_gives_no_more_than_its_quota(tmp_path: Path) -> None:
    assert disk(tmp_path / "not" / "there", 1000) == 1000
    assert disk(None, 1000) == 0


def test_speeds_are_those_that_were_measured_where_they_were(llama: Subject) -> None:
    plan = divide(llama, on(139), Wish(context=MILLION))
    (speed,) = speeds(plan, llama, "NVIDIA H200")
    # docs/log.md, "Decode steps" and "The engine over 1M tokens".
    assert speed.decoding == pytest.approx(468, rel=0.02)
    assert speed.reading == pytest.approx(1_048_640 / 35.0, rel=0.01)
    (short,) = speeds(divide(llama, on(139), Wish(context=131072 + 64)), llama, "NVIDIA H200")
    assert short.decoding == pytest.approx(486, rel=0.05)
    assert speed.fetched == 0
    offloaded = divide(llama, on(24), Wish(context=MILLION))
    found = speeds(offloaded, llama, "")
    assert [one.card for one in found] == [card.name for card in CARDS]
    assert all(one.fetched > 1e6 for one in found)
    assert found[0].decoding == pytest.approx(404, rel=0.03)
    assert found[0].reading == pytest.approx(1_048_640 / 41.8, rel=0.01)
    assert "estimates" in speed_lines(found, MILLION)[-1]
    assert "all of it in 35 s" in speed_lines([speed], MILLION)[0]
    # Of a model unlike the measured one nothing is said.
    floating = replace(llama, config=replace(llama.config, quantisation=None))
    assert speeds(plan, floating, "NVIDIA H200") == []
    assert speed_lines([], MILLION) == ["no speeds: none were measured with a model like this one"]


def test_a_plan_in_words_names_all_its_parts(llama: Subject) -> None:
    plan: Plan = divide(llama, on(24), Wish(context=MILLION, slots=1))
    lines = plan_lines(plan)
    assert lines[0] == headline(plan)
    assert "1,048,576 tokens in host memory (float8_e4m3fn), 1 answer at a time" in lines[0]
    assert all(any(part.name in line for line in lines) for part in plan.parts)
