"""The whole attention on the device beside the plain implementation: prompts, steps, phases, coverage, masses."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from tests.kernels import made
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unabridged.engine.attention.config import AttentionConfig, Join, LayerAttention, Stage
from unabridged.engine.attention.device import DecodeAttention
from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.kernels.bank_write import write_plain
from unabridged.engine.attention.kernels.index import Index, encode, encoded
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.attention.refresh import Graphs, Phase, Schedule
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.sparse import SparseAttention
from unabridged.engine.attention.stages import LayerCache, Stages, Workspace
from unabridged.engine.attention.witness import Seen, Witness
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context

# In the interpreter numpy remarks on log 0, and on the keys behind a prompt's end that its repeated queries see.
pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore:divide by zero", "ignore:All-NaN")]

SHAPE = made.Shape(4, 2, 64)
LAYERS, ROOM = 2, 512
FREQUENCIES = 10000.0 ** (-torch.arange(0, SHAPE.dim, 2).double() / SHAPE.dim)
EXACT = (Stage(64, 16, 96, "exact", 1), Stage(64, 16, 32, "exact", 1))
INDEX = (Stage(64, 16, 512, "index", 1), Stage(64, 16, 32, "exact", 1))
PAPER = (Stage(64, 32, 128), Stage(64, 16, 64), Stage(64, 8, 32))


def settings(stages: tuple[Stage, ...] = EXACT, refresh: tuple[int, ...] = (3, 3, 2)) -> AttentionConfig:
    layer = LayerAttention(stages, "relative")
    return AttentionConfig("tiny", (layer,), 16, 64, 8192, 0, "kv", refresh=refresh)


class Both:
    """The same random tokens for the device and for the plain implementation; the bank holds one sequence."""

    def __init__(self, config: AttentionConfig, device: str, filled: int, indexed: bool = False) -> None:
        self.device, self.random = device, torch.Generator().manual_seed(3)
        self.pool = KvPool(LAYERS, SHAPE.kv_heads, SHAPE.dim, 64 << 20, torch.float32)
        self.context = Context(self.pool, [], self.pool.allocate(ROOM))
        plain = replace(config, layers=tuple(_without_index(layer) for layer in config.layers))
        self.plain = SparseAttention(self.context, plain, Rotary(FREQUENCIES))
        self.caches = [_cache(device, layer, indexed) for layer in range(LAYERS)]
        self.rope = RopeTables.of(FREQUENCIES, ROOM + 64, device)
        self.length, self.seen = filled, list[Seen]()
        self.one = torch.zeros(1, dtype=torch.int32, device=device)
        for layer in range(LAYERS):
            _, k, v = self.tokens(filled)
            self.context.write(layer, 0, k.transpose(0, 1), v.transpose(0, 1))
            write_plain(k[None].to(device), v[None].to(device), self.caches[layer].bank, self.one, self.one)

    def tokens(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """q `[count, H, D]`, k and v `[count, G, D]`."""
        heads = (SHAPE.heads, SHAPE.kv_heads, SHAPE.kv_heads)
        q, k, v = (torch.randn(count, n, SHAPE.dim, generator=self.random) for n in heads)
        return q, 2 * k, v

    def prefill(self, attention: PrefillAttention, count: int) -> None:
        """A piece through all layers."""
        for layer in range(LAYERS):
            q, k, v = self.tokens(count)
            self.context.write(layer, self.length, k.transpose(0, 1), v.transpose(0, 1))
            expected = self.plain.attend(layer, q.transpose(0, 1), self.length).transpose(0, 1)
            out = torch.full_like(q, torch.nan, device=self.device)
            q, k, v = (x.to(self.device) for x in (q, k, v))
            attention.attend(layer, q, k, v, out, 0, self.length)
            assert_close(out, expected)
        self.length += count

    def step(self, attention: DecodeAttention, phase: Phase) -> None:
        """A token through all layers."""
        attention.begin(phase)
        for layer in range(LAYERS):
            q, k, v = self.tokens(1)
            self.context.write(layer, self.length, k.transpose(0, 1), v.transpose(0, 1))
            expected, seen = self.plain.decode(layer, q[0], k[0], v[0], self.length)
            self.seen.append(seen)
            out = torch.full_like(q[None], torch.nan, device=self.device)
            q, k, v = (x[None].to(self.device) for x in (q, k, v))
            attention.step(layer, q, k, v, out, phase)
            assert_close(out[0, 0], expected)
        self.length += 1


def _without_index(layer: LayerAttention) -> LayerAttention:
    stages = (replace(one, scorer="exact") if one.scorer == "index" else one for one in layer.stages)
    return replace(layer, stages=tuple(stages))


def _cache(device: str, seed: int, indexed: bool) -> LayerCache:
    bank = made.bank([ROOM], SHAPE, torch.float32, device, seed)
    bank.k.fill_(torch.nan), bank.v.fill_(torch.nan)
    if not indexed:
        return LayerCache(bank)
    random = torch.Generator().manual_seed(seed)
    turned = torch.linalg.qr(torch.randn(SHAPE.kv_heads, SHAPE.dim, SHAPE.dim, generator=random)).Q[:, :, :32]
    parts = torch.zeros(SHAPE.kv_heads, SHAPE.dim), 2 * turned, turned / 2, torch.full((SHAPE.kv_heads, 32), 1 / 512)
    basis = Basis(*(part.contiguous().to(device) for part in parts))
    return LayerCache(bank, Index.empty(ROOM // 16, torch.arange(ROOM // 16, device=device).int()[None], basis))


def assert_close(found: Tensor, expected: Tensor) -> None:
    bound = 1e-2 if found.is_cuda else 1e-4
    assert (found.cpu() - expected).norm() <= bound * expected.norm()


def codes_of(both: Both, at: slice) -> tuple[Tensor, Tensor]:
    """Codes of the first layer's keys at these positions: found, and as the plain encoder makes them."""
    index = both.caches[0].index
    assert index is not None
    k, _ = both.context.read(0, at.start, at.stop)
    return index.read(0, at.start, at.stop)[0], encoded(k.to(both.device), index.basis)[0]


@pytest.mark.parametrize(
    ("stages", "join", "prompt"),
    [
        pytest.param(EXACT, "kv", 70, id="exact"),
        pytest.param(PAPER, "joint", 6, id="paper", marks=pytest.mark.thorough),
    ],
)
def test_a_prompt_and_the_answer_after_it(stages: tuple[Stage, ...], join: Join, prompt: int, device: str) -> None:
    config = replace(settings(stages), join=join)
    both = Both(config, device, filled=192)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope)
    both.prefill(prefill, prompt)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length, prefill.taken())
    steps = Schedule.of(config, LAYERS).steps[:2]
    # Every stage, none, the last alone: in one layer or the other.
    last = len(stages) - 1
    assert {due for phase in steps for due in phase.due} == {0, last, last + 1}
    for phase in steps:
        both.step(decode, phase)


def test_an_index_that_keeps_everything_changes_nothing(device: str) -> None:
    config = settings(INDEX)
    both = Both(config, device, filled=320, indexed=True)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length)
    both.step(decode, Schedule.of(config, LAYERS).all)
    # The limit came from 0: what lies further behind it than a renewal moves it is the prompt's to encode.
    assert torch.equal(*codes_of(both, slice(0, 64)))


def test_a_prompt_behind_an_answer_finds_all_of_it_in_the_index(device: str) -> None:
    config = settings(INDEX)
    both = Both(config, device, filled=0, indexed=True)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope, {"exact": 1, "index": 1})
    both.prefill(prefill, 70)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length, prefill.taken())
    both.step(decode, Schedule.of(config, LAYERS).phase(1))
    both.prefill(prefill, 20)
    assert torch.equal(*codes_of(both, slice(0, both.length)))


def test_masks_are_of_the_last_piece(device: str) -> None:
    config = replace(settings(), dense_below=128)
    both = Both(config, device, filled=128)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope, {"exact": 1})
    both.prefill(prefill, 5)
    assert len(prefill.taken()) == LAYERS
    q, k, v = (x.to(device) for x in both.tokens(3))
    for layer in range(LAYERS):
        prefill.attend(layer, q, k, v, torch.empty_like(q), 0, 0)
    assert not prefill.taken()
    assert prefill.coverage().tolist() == [1.0] * LAYERS


def test_a_prompt_that_prunes_nothing_leaves_empty_lists(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(settings(PAPER, (4, 2, 2)), join="joint", sink=64)
    both = Both(config, device, filled=64)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope)
    # What memory held before could be taken for chunks.
    monkeypatch.setattr(torch, "empty", torch.zeros)
    both.prefill(prefill, 74)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length, prefill.taken())
    phase = Schedule.of(config, LAYERS).phase(1)
    assert phase.due == (3, 1)
    both.step(decode, phase)


def test_dynamic_extend_takes_a_piece_as_long_as_it_is(device: str) -> None:
    # The first block ends at 256 tokens, the padded one at 320, the piece at 272: the divisor changes after all three.
    config = replace(settings(), attention_rope="dynamic-extend", window=200)
    both = Both(config, device, filled=192)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope, {"exact": 1}, scores=1)
    both.prefill(prefill, 80)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length, prefill.taken())
    both.step(decode, Schedule.of(config, LAYERS).phase(0))


def test_streams_begin_at_a_page(device: str) -> None:
    with pytest.raises(ValueError, match="stream = 72"):
        Stages(replace(settings(), stream=72), 0, RopeTables.of(FREQUENCIES, 8, device))
    with pytest.raises(ValueError, match="sink = 8 with an index"):
        Stages(replace(settings(INDEX), sink=8), 0, RopeTables.of(FREQUENCIES, 8, device))
    with pytest.raises(ValueError, match="means of"):
        Stages(settings(), 0, RopeTables.of(FREQUENCIES, 8, device), (128, 1))


def test_coverage_and_masses_of_a_step(device: str) -> None:
    config = settings()
    both = Both(config, device, filled=300)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope, mass="sparse")
    decode.take(0, both.length)
    assert decode.coverage().tolist() == [[1.0], [1.0]]
    both.step(decode, Schedule.of(config, LAYERS).all)
    assert decode.coverage().mean().item() == pytest.approx(both.plain.coverage, abs=1e-3)
    assert both.plain.coverage < 0.9
    seen = Witness(0, ROOM)
    for one in both.seen:
        seen.see(one)
    mass = decode.attended(0).cpu()
    assert mass.sum().item() == pytest.approx(LAYERS * SHAPE.heads, rel=1e-3)
    for position, share in seen.shares():
        assert mass[position // 16].item() / mass.sum().item() == pytest.approx(share, abs=1e-3)


def test_a_context_inside_the_window_is_attended_whole_and_indexed(device: str) -> None:
    config = replace(settings(INDEX), dense_below=512)
    both = Both(replace(config, dense_below=0, sink=512), device, filled=150, indexed=True)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
    decode.take(0, both.length)
    both.step(decode, Schedule.of(config, LAYERS).dense)
    assert torch.equal(*codes_of(both, slice(150, 151)))


def test_a_prompt_across_the_window_is_attended_whole_up_to_it(device: str) -> None:
    config = replace(settings(), dense_below=128)
    both = Both(config, device, filled=100)
    prefill = PrefillAttention(config, SHAPE.heads, both.caches, both.rope, {"exact": 1})
    layer, (q, k, v) = 0, both.tokens(50)
    both.context.write(layer, 100, k.transpose(0, 1), v.transpose(0, 1))
    sparse = both.plain.attend(layer, q.transpose(0, 1)[:, 28:], 128).transpose(0, 1)
    whole = SparseAttention(both.context, replace(config, sink=512), Rotary(FREQUENCIES))
    dense = whole.attend(layer, q.transpose(0, 1)[:, :28], 100).transpose(0, 1)
    out = torch.full_like(q, torch.nan, device=device)
    q, k, v = (x.to(device) for x in (q, k, v))
    prefill.attend(layer, q, k, v, out, 0, 100)
    assert_close(out, torch.cat([dense, sparse]))


@pytest.mark.gpu
def test_recorded_steps_are_those_that_run_one_by_one(device: str) -> None:
    config = settings(INDEX, (4, 4, 2))
    schedule = Schedule.of(config, LAYERS)
    found = []
    for recorded in (False, True):
        both = Both(config, device, filled=300, indexed=True)
        decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope)
        inputs = [tuple(x[None].to(device) for x in both.tokens(1)) for _ in range(LAYERS)]
        outs = torch.full((LAYERS, 1, 1, SHAPE.heads, SHAPE.dim), torch.nan, device=device)

        def step(
            phase: Phase,
            decode: DecodeAttention = decode,
            inputs: list[tuple[Tensor, ...]] = inputs,
            outs: Tensor = outs,
        ) -> None:
            decode.begin(phase)
            for layer, (q, k, v) in enumerate(inputs):
                decode.step(layer, q, k, v, outs[layer], phase)

        # Recording writes to the bank behind the context's end.
        decode.take(0, both.length)
        graphs = Graphs()
        if recorded:
            # Without its first masks a stream would be longer than a step has room for.
            step(schedule.all)
            graphs.capture(schedule.distinct[:-1], step)
            decode.take(0, both.length)
        for number in range(9):
            for own in inputs:
                for x in own:
                    x.mul_(-1.1)
            (graphs.replay if recorded else step)(schedule.phase(number) if number else schedule.all)
            found.append(outs.clone())
    assert not torch.stack(found).isnan().any()
    assert all(torch.equal(one, other) for one, other in zip(found[:9], found[9:], strict=True))


def test_a_step_makes_no_tensor_even_in_a_phase_that_never_ran(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings()
    decode = DecodeAttention(
        config, SHAPE.heads, [_cache(device, 0, False)] * LAYERS, RopeTables.of(FREQUENCIES, 8, device)
    )
    monkeypatch.setattr(torch, "tensor", None)
    for phase in Schedule.of(config, LAYERS).distinct:
        decode.begin(phase)


def test_every_step_of_a_period_renews_as_many_layers() -> None:
    config = replace(settings(), refresh=(16, 8, 4))
    steps = Schedule.of(config, 32).steps
    assert len(steps) == 16
    assert {(step.due.count(0), step.due.count(1)) for step in steps} == {(2, 6)}
    paper = Schedule.of(settings(PAPER, (16, 8, 4)), 32).steps
    assert {tuple(step.due.count(stage) for stage in range(3)) for step in paper} == {(2, 2, 4)}


def test_a_layer_renews_as_the_mask_cache_would() -> None:
    schedule = Schedule.of(replace(settings(), refresh=(6, 4, 4)), 3)
    assert [phase.due for phase in schedule.steps[:3]] == [(0, 2, 2), (2, 2, 2), (2, 2, 1)]
    assert len(schedule.steps) == 12
    assert schedule.distinct[-2:] == (schedule.all, schedule.dense)


def test_short_contexts_have_a_dense_step_of_their_own() -> None:
    schedule = Schedule.of(replace(settings(), dense_below=16384), 2)
    assert [schedule.whole(tokens).reach for tokens in (1, 8192, 8193, 16384)] == [8192, 8192, 0, 0]
    assert schedule.whole(8192) in schedule.distinct
    assert Schedule.of(replace(settings(), dense_below=8192), 2).whole(8000).reach == 0


def test_the_index_keeps_the_key_that_a_query_asks_for(device: str) -> None:
    config = settings((Stage(64, 16, 16, "index"),))
    both = Both(config, device, filled=320, indexed=True)
    cache = both.caches[0]
    assert cache.index is not None
    q = both.tokens(1)[0]
    # Each head of keys holds, at 137, what the first query of its group is when it is rotated for selection.
    asked = 2 * Rotary(FREQUENCIES).rotate(q[:, ::2], torch.tensor(config.stream + 1))
    at = torch.tensor([137], dtype=torch.int32, device=device)
    write_plain(asked[None].to(device), asked[None].to(device), cache.bank, both.one, at)
    encode(cache.bank, cache.index, both.one, both.one + 320, 320)
    stages = Stages(config, 0, both.rope)
    span = stages.span(256)
    room = Workspace.of([stages], cache, 1, SHAPE.heads, SHAPE.kv_heads, span)
    kept = stages.room(1, SHAPE.kv_heads, torch.device(device))
    stages.run(q[None].to(device), made.rows([0], [320], [256], device), cache, kept, span, room, 0)
    assert kept[0].starts[0].tolist() == [[128], [128]]


def test_sequences_of_a_step_do_not_mix(device: str) -> None:
    config = settings()
    lengths = [200, 131]
    bank = made.bank([256, 256], SHAPE, torch.float32, device)
    rope = RopeTables.of(FREQUENCIES, 320, device)
    random = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 1, n, SHAPE.dim, generator=random).to(device) for n in (4, 2, 2))

    def answers(chosen: list[int]) -> Tensor:
        table = bank.k_table[chosen].contiguous()
        cache = LayerCache(replace(bank, k_table=table, v_table=table))
        decode = DecodeAttention(config, SHAPE.heads, [cache], rope)
        for row, sequence in enumerate(chosen):
            decode.take(row, lengths[sequence])
        phase = Schedule.of(config, 1).all
        decode.begin(phase)
        out = torch.full_like(q[chosen], torch.nan)
        decode.step(0, q[chosen], k[chosen], v[chosen], out, phase)
        return out

    together = answers([0, 1])
    assert_close(together, torch.cat([answers([0]), answers([1])]).cpu())
    assert (together[0] - together[1]).abs().max() > 0.01


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that is made inside."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.bytes = max(self.bytes, made.nbytes)
        return made


def test_masses_of_a_step_that_attends_to_everything(device: str) -> None:
    config = replace(settings(), dense_below=256)
    both = Both(replace(config, dense_below=0, sink=256), device, filled=150)
    decode = DecodeAttention(config, SHAPE.heads, both.caches, both.rope, mass="dense")
    decode.take(0, both.length)
    both.step(decode, Schedule.of(config, LAYERS).dense)
    seen = Witness(0, ROOM)
    for one in both.seen:
        seen.see(one)
    largest = cast(Any, Largest)()
    with largest:
        mass = decode.attended(0).cpu()
    assert decode.mass is not None
    assert largest.bytes <= decode.mass.nbytes
    assert mass.shape == both.caches[0].bank.k_table.shape[2:]
    assert mass.sum().item() == pytest.approx(LAYERS * SHAPE.heads, rel=1e-3)
    for position, share in seen.shares():
        assert mass[position // 16].item() / mass.sum().item() == pytest.approx(share, abs=1e-3)
