"""The attention pipeline against dense attention and against plain transcriptions of the paper's algorithms."""

import math
from typing import Any

import pytest
import torch
from tests.engine.tiny import config, context_attention, dense, feed, feed_chunks, random_qkv, rotary
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import (
    AttentionConfig,
    LayerAttention,
    Scalar,
    SelectionRope,
    Stage,
    choose,
    for_window,
)
from unabridged.engine.attention.keys import TensorKeys
from unabridged.engine.attention.masks import MaskCache
from unabridged.engine.attention.positions import Rules
from unabridged.engine.attention.reference import attended_index, limits_of, sparse_attention
from unabridged.engine.attention.select import Block, Selection, Selector, Span, keep_best, select
from unabridged.engine.errors import BadRequest
from unabridged.engine.events import AttentionChoice
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context

SELECTION_ROPES: tuple[SelectionRope, ...] = ("chunk-indexed", "relative", "dynamic-extend", "infllm", "true")
SMALL: dict[str, Any] = {"sink": 16, "stream": 128, "k": 2048}


def difference(settings: AttentionConfig, tokens: int, decode: int = 0, heads: int = 4, kv_heads: int = 2) -> float:
    """The largest difference to dense attention, prefilled in uneven chunks, the last `decode` tokens one by one."""
    qkv = random_qkv(tokens, heads, kv_heads)
    sizes = [150] * ((tokens - decode) // 150) + [(tokens - decode) % 150] + [1] * decode
    out = feed(context_attention(settings, tokens, qkv), qkv, [size for size in sizes if size])
    return float((out - dense(qkv)).abs().max())


@pytest.mark.usefixtures("nan_empty")
@pytest.mark.parametrize("rope", SELECTION_ROPES)
@pytest.mark.parametrize("scorer", ["exact", "selectrep"])
@pytest.mark.parametrize("preset", ["3k", "8k"])
def test_selecting_everything_is_dense_attention(rope: str, scorer: str, preset: str) -> None:
    settings = config(preset, selection_rope=rope, scorer=scorer, **SMALL)
    assert difference(settings, 420, decode=20) < 1e-5


@pytest.mark.parametrize("rope", ["true", "streaming"])
@pytest.mark.parametrize("extension", [True, False])
def test_attention_ropes_that_keep_true_distances_equal_dense(rope: str, extension: bool) -> None:
    assert difference(config(attention_rope=rope, extension=extension, **SMALL), 500, decode=20) < 1e-5


@pytest.mark.parametrize("rope", ["infllm", "dynamic-extend"])
def test_the_stream_keeps_exact_distances_under_every_attention_rope(rope: str) -> None:
    # Everything fits into sink and stream: the styles only differ for what lies before the stream.
    assert difference(config(attention_rope=rope, **SMALL), 120, decode=10) < 1e-5


def test_compressed_positions_stay_inside_the_window() -> None:
    settings = config(attention_rope="dynamic-extend", window=512, sink=16, stream=64, k=128)
    qkv = random_qkv(2000)
    attention = context_attention(settings, 2000, qkv)
    attention_rotary = attention._rotary
    feed(attention, qkv, [1900, *[1] * 100])
    assert len(attention_rotary._table) <= 1024


@pytest.mark.usefixtures("nan_empty")
@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 127, 129, 200])
@pytest.mark.parametrize("decode", [0, 1])
def test_odd_lengths_and_contexts_shorter_than_sink_and_stream(tokens: int, decode: int) -> None:
    assert difference(config(sink=48, stream=64, k=512), tokens, decode) < 1e-5


@pytest.mark.parametrize("group", range(1, 9))
def test_head_groups_of_any_size(group: int) -> None:
    settings = config(join="joint" if group % 2 else "kv", sink=16, stream=64, k=512)
    assert difference(settings, 300, decode=20, heads=2 * group, kv_heads=2) < 1e-5


@pytest.mark.parametrize("preset", ["3k", "8k"])
@pytest.mark.parametrize("join", ["kv", "joint"])
def test_chunked_prefill_equals_one_shot(preset: str, join: str) -> None:
    settings = config(preset, join=join, sink=16, stream=64, k=64)
    qkv = random_qkv(900)
    whole = feed_chunks(context_attention(settings, 900, qkv), qkv, 900)
    pieces = feed_chunks(context_attention(settings, 900, qkv), qkv, 150)
    assert torch.allclose(whole, pieces, atol=1e-5)
    assert not torch.allclose(whole, dense(qkv), atol=1e-2), "the budget was meant to leave something out"


def test_dense_below_its_border_and_sparse_past_it() -> None:
    settings = config(dense_below=320, sink=16, stream=64, k=64)
    qkv = random_qkv(600)
    out = feed(context_attention(settings, 600, qkv), qkv, [600])
    same = (out - dense(qkv)).abs().amax((1, 2)) < 1e-5
    assert bool(same[:320].all())
    assert not bool(same[320:].all())


def brute_force_rep(q: Tensor, keys: Tensor, members: list[int], stream: int) -> int:
    """Algorithm 3 with relative positions, one chunk and one head, as the paper writes it (1-based)."""
    turn = rotary(q.shape[-1])
    first, last = 1, len(members)
    for _ in range(math.ceil(math.log2(len(members)))):
        if first == last:
            break
        middle = (first + last + 1) // 2
        score = []
        for branch, start in enumerate((first, middle)):
            key = turn.rotate(keys[members[start - 1]], torch.tensor(branch))
            score.append(float((turn.rotate(q, torch.tensor([stream + 1])) @ key).max()))
        first, last = (middle, last) if score[1] > score[0] else (first, middle - 1)
    return members[first - 1]


@pytest.mark.parametrize("chunk", [2, 8, 32])
def test_selectrep_equals_its_transcription(chunk: int) -> None:
    q, k, v = random_qkv(203, heads=4, kv_heads=2)
    rules = Rules(64, 64, 8192, 203)
    selector = Selector(rotary(), "relative", "kv", rules)
    tokens = torch.arange(5, 5 + 3 * chunk + max(1, chunk // 2))
    chunks = torch.nn.functional.pad(tokens, (0, 4 * chunk - len(tokens)), value=-1).view(1, 1, 4, chunk)
    block = Block(q[:7].transpose(0, 1)[None], torch.arange(7)[None], torch.tensor([203]))
    rep, score = selector.select_rep(
        selector.queries(block, torch.tensor([4])), chunks, TensorKeys(k.transpose(0, 1), v.transpose(0, 1))
    )
    for head in range(4):
        for number in range(4):
            members = [token for token in chunks[0, 0, number].tolist() if token >= 0]
            wanted = brute_force_rep(q[:7, head], k[:, head // 2], members, stream=64)
            assert rep[0, head, number] == wanted
    assert bool(score.isfinite().all())


def test_a_stage_keeps_the_chunks_with_the_best_key() -> None:
    q, k, v = random_qkv(400)
    stage = Stage(64, 16, 64, "exact")
    selector = Selector(rotary(), "relative", "kv", Rules(64, 64, 8192, 400))
    block = Block(q[320:384].transpose(0, 1)[None], torch.arange(320, 384)[None], torch.tensor([256]))
    keys = TensorKeys(k.transpose(0, 1), v.transpose(0, 1))
    kept = selector.prune(block, Span(16, block.limits), keys, stage)
    turned = rotary().rotate(q[320:384], torch.tensor(65))
    for head in range(2):
        logits = torch.einsum("thd,nd->thn", turned[:, 2 * head : 2 * head + 2], k[16:256, head])
        best = logits.amax((0, 1)).view(-1, 16).amax(1).topk(4).indices.sort().values
        wanted = (best[:, None] * 16 + torch.arange(16)).flatten() + 16
        assert torch.equal(kept.index[0, head], wanted)


@pytest.mark.parametrize("rope", SELECTION_ROPES)
def test_scoring_a_span_in_place_equals_scoring_a_list(rope: SelectionRope) -> None:
    q, k, v = random_qkv(500)
    block = Block(q[384:512].unflatten(0, (1, -1)).transpose(1, 2), torch.arange(384, 500)[None], torch.tensor([331]))
    selector = Selector(rotary(), rope, "kv", Rules(64, 64, 256, 500))
    keys, stage = TensorKeys(k.transpose(0, 1), v.transpose(0, 1)), Stage(64, 16, 96, "exact")
    span = Span(3, block.limits)
    in_place, listed = selector.prune(block, span, keys, stage), selector.prune(block, span.index(), keys, stage)
    assert torch.equal(in_place.index, listed.index)
    assert torch.allclose(in_place.scores, listed.scores, atol=1e-4)


def test_joint_selection_is_one_list_and_own_selection_one_for_each_head() -> None:
    q, k, v = random_qkv(400)
    block = Block(q[320:384].transpose(0, 1)[None], torch.arange(320, 384)[None], torch.tensor([256]))
    keys, stages = TensorKeys(k.transpose(0, 1), v.transpose(0, 1)), (Stage(64, 16, 64, "exact"),)
    rules = Rules(64, 64, 8192, 400)
    lists = [
        select(Selector(rotary(), "relative", join, rules), block, keys, stages, 16)[1][0] for join in ("kv", "joint")
    ]
    assert [one.index.shape[1] for one in lists] == [2, 1]
    assert torch.allclose(lists[0].scores.amax(1, keepdim=True), lists[1].scores)


def test_later_stages_may_use_smaller_query_blocks() -> None:
    stages = (Stage(64, 32, 256, "exact"), Stage(16, 8, 64, "exact"))
    q, k, v = random_qkv(512)
    positions = torch.arange(384, 512).view(2, 64)
    block = Block(q[384:].unflatten(0, (2, 64)).transpose(1, 2), positions, limits_of(positions[:, 0], 64, 64))
    selector = Selector(rotary(), "relative", "kv", Rules(64, 64, 8192, 512))
    keys = TensorKeys(k.transpose(0, 1), v.transpose(0, 1))
    smaller, kept = select(selector, block, keys, stages, 16)
    assert smaller.q.shape == (8, 4, 16, 16)
    assert kept[-1].index.shape == (8, 2, 64)
    index = attended_index(kept[-1].index, smaller.limits, 16, smaller.positions[:, -1] + 1)
    out = sparse_attention(smaller, index, keys, rotary(), "streaming", Rules(64, 64, 8192, 512)).out
    assert bool(out.isfinite().all())


def test_layers_have_their_own_settings_and_the_last_serves_the_rest() -> None:
    settings = choose(AttentionChoice(preset="3k"), 131072)
    assert [settings.layer(i).stages[-1].keep for i in (0, 2, 3, 31)] == [4096, 4096, 2048, 2048]
    assert [settings.layer(i).selection_rope for i in (2, 3)] == ["chunk-indexed", "relative"]
    assert {layer.stages[-1].keep for layer in choose(AttentionChoice(preset="5k"), 131072).layers} == {4096}
    assert for_window(8192).name == "8k"
    assert for_window(131072).name == "3k"


def some_selection() -> Selection:
    index = torch.arange(16).view(1, 1, 16)
    return keep_best(index, torch.zeros(1, 1, 2), Stage(64, 8, 8))


@pytest.mark.parametrize(
    ("refresh", "runs"),
    [
        ("paper", {0: [0, 16, 32], 1: [0, 8, 16, 24, 32], 2: [0, 4, 8, 12, 16, 20, 24, 28, 32]}),
        ("fast", {0: [0, 32], 1: [0, 16, 32], 2: [0, 8, 16, 24, 32]}),
        ("flash", {0: [0], 1: [0, 24], 2: [0, 8, 16, 24, 32]}),
    ],
)
def test_stages_run_at_their_intervals(refresh: str, runs: dict[int, list[int]]) -> None:
    settings = config("3k", refresh)
    masks = MaskCache(settings.intervals(3))
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for step in range(33):
        due = masks.due()
        if due is not None:
            masks.renew(due, [some_selection()] * (3 - due))
            for stage in range(due, 3):
                seen[stage].append(step)
        assert len(masks.outputs) == 3
        masks.advance()
    assert seen == runs
    assert masks.ages[2] < settings.intervals(3)[2] + 1


def test_layers_renew_their_masks_in_different_steps() -> None:
    first = []
    for layer in range(16):
        masks = MaskCache((16, 4), layer)
        masks.renew(0, [some_selection()] * 2)
        steps = 0
        masks.advance()
        while masks.due() != 0:
            masks.advance()
            steps += 1
        first.append(steps)
    assert len(set(first)) == 16


def test_cached_masks_follow_the_stream_without_a_gap() -> None:
    # Between renewals no token may fall out of both the stream and the middle: everything selected stays dense.
    settings = config(refresh="flash", sink=16, stream=64, k=2048)
    assert difference(settings, 500, decode=200) < 1e-5


def test_a_pipeline_of_two_stages_takes_the_first_and_last_interval() -> None:
    assert config("8k", "paper").intervals(2) == (16, 4)
    assert config("8k", "flash").intervals(1) == (8,)


def test_coverage_falls_when_less_is_kept() -> None:
    qkv = random_qkv(1200)
    reports = []
    for keep in (64, 512, 2048):
        attention = context_attention(config(sink=16, stream=64, k=keep), 1200, qkv)
        feed(attention, qkv, [1190, *[1] * 10])
        reports.append(attention.report())
    assert reports[0].coverage < reports[1].coverage < reports[2].coverage == 1.0
    assert reports[0].attended < reports[1].attended < reports[2].attended <= 1200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 100),
        ("k", 100_000),
        ("sink", 0),
        ("stream", 10),
        ("chunk", 24),
        ("join", "some"),
        ("scorer", 3),
        ("extension", 1),
        ("selection_rope", "streaming"),
        ("dense_below", 9000),
        ("nonsense", 1),
    ],
)
def test_settings_out_of_range_are_refused_by_name(field: str, value: Scalar) -> None:
    with pytest.raises(BadRequest, match=field if field != "chunk" else "chunk"):
        choose(AttentionChoice(overrides={field: value}), 8192)


def test_only_an_engine_with_an_index_takes_presets_that_need_one() -> None:
    assert choose(AttentionChoice(), 131072).name == "3k"
    assert choose(AttentionChoice(), 131072, indexed=True).name == "3k-index"
    assert choose(AttentionChoice(), 8192, indexed=True).name == "8k-index"
    for choice in (AttentionChoice(preset="3k-index"), AttentionChoice(overrides={"scorer": "index"})):
        with pytest.raises(BadRequest, match="index"):
            choose(choice, 131072)
    with pytest.raises(BadRequest, match="later stage"):
        choose(AttentionChoice(preset="3k", overrides={"scorer": "index"}), 131072, indexed=True)
    for override in ({"selection_rope": "true"}, {"extension": False}):
        with pytest.raises(BadRequest, match="un-rotated"):
            choose(AttentionChoice(preset="3k-index", overrides=override), 131072, indexed=True)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match=r"sink = 40.*16"):
        choose(AttentionChoice(overrides={"sink": 40}), 8192, indexed=True)
    for chunk in (1, 1024):
        with pytest.raises(BadRequest, match=rf"chunk = {chunk} with an index.*4 to 512"):
            choose(AttentionChoice(overrides={"chunk": chunk}), 8192, indexed=True)
    assert choose(AttentionChoice(), 600, indexed=True).sink == 32


def test_an_unknown_preset_is_refused_with_those_known() -> None:
    with pytest.raises(BadRequest, match=r'"9k" is unknown.*3k, 5k, 8k'):
        choose(AttentionChoice(preset="9k"), 8192)


def test_a_layer_setting_is_frozen() -> None:
    layer = LayerAttention((Stage(64, 16, 64),), "true")
    with pytest.raises(AttributeError):
        layer.stages = ()  # type: ignore[misc]


def test_a_trailing_chunk_is_kept_with_the_chunk_before_it() -> None:
    index = torch.arange(64)[None, None]
    scores = torch.tensor([[[0.0, 9.0, -1.0, 1.0, 2.0, 0.5, 3.0, 0.1]]])
    assert keep_best(index, scores, Stage(64, 8, 16, "exact")).kept.tolist() == [[[1, 6]]]
    assert keep_best(index, scores, Stage(64, 8, 16, "exact", trail=1)).kept.tolist() == [[[1, 2]]]
    assert keep_best(index, scores, Stage(64, 8, 24, "exact", trail=2)).kept.tolist() == [[[1, 2, 3]]]


def test_nothing_trails_over_a_gap_or_into_padding() -> None:
    index = torch.cat([torch.arange(8), torch.arange(16, 24), torch.full((8,), -1)])[None, None]
    scores = torch.tensor([[[9.0, 1.0, -torch.inf]]])
    kept = keep_best(index, scores, Stage(64, 8, 16, "exact", trail=1))
    assert kept.kept.tolist() == [[[0, 1]]]
    assert kept.scores.equal(scores)


def test_decoding_starts_from_the_prompts_masks_and_each_layer_renews_in_its_turn() -> None:
    settings = config(refresh="flash", sink=16, stream=64, k=2048)
    qkv = random_qkv(500)
    pool = KvPool(2, 2, 16, 64 << 20, torch.float32)
    attention = ContextAttention(Context(pool, [], pool.allocate(500)), settings, Shape(2, 4, 2, 16), rotary())
    out: list[Tensor] = []
    given: list[tuple[Selection, ...]] = []
    while (at := attention.context.length) < 500:
        step = attention.fits(470 - at) if at < 470 else 1
        attention.begin(step)
        out.append([attention(layer, *(x[at : at + step] for x in qkv)) for layer in range(2)][1])
        attention.end()
        if at + step == 470:
            assert attention._sparse is not None
            given = [attention._sparse._states[layer].masks.outputs for layer in range(2)]
        if at == 470:
            assert attention._sparse is not None
            kept = [attention._sparse._states[layer].masks.outputs for layer in range(2)]
            assert [one[0] is other[0] for one, other in zip(given, kept, strict=True)] == [False, True]
    assert torch.allclose(torch.cat(out), dense(qkv), atol=1e-5)


def test_intervals_of_ones_own() -> None:
    config = choose(AttentionChoice(overrides={"refresh": "64/16"}), 131072)
    assert [config.intervals(stages) for stages in (1, 2, 3)] == [(16,), (64, 16), (64, 16, 16)]
    assert choose(AttentionChoice(overrides={"refresh": "4"}), 8192).intervals(3) == (4, 4, 4)
    for wrong in ("16/5", "0", "8/16", "4/2/1/1", "fast", "9999", 16.5, ""):
        with pytest.raises(BadRequest, match="refresh"):
            choose(AttentionChoice(overrides={"refresh": wrong}), 8192)
