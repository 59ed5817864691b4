"""Sampling on the GPU: the tokens of the plain version, the distribution of the CPU's sampler, whatever the rows."""

from collections.abc import Callable

import msgspec
import pytest
import torch
from torch import Tensor

from unabridged.engine.errors import BadRequest
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.kernels.sample import SampleState, sample
from unabridged.engine.gpu.kernels.sample_plain import kept, sample_plain, uniform
from unabridged.engine.sampling import Sampler

Run = Callable[[Tensor, SampleState, Tensor], None]
SETTINGS = {
    "greedy": Sampling(),
    "penalty": Sampling(repetition_penalty=1.5),
    "temperature": Sampling(temperature=1.0, seed=3),
    "top-p": Sampling(temperature=0.7, top_p=0.9, seed=-4),
    "top-k": Sampling(temperature=1.3, top_k=20, seed=2**63 + 5),
    "top-k, top-p": Sampling(temperature=1.0, top_k=12, top_p=0.8, seed=6),
    "min-p": Sampling(temperature=1.0, min_p=0.05, seed=7),
    "all": Sampling(temperature=0.9, top_k=40, top_p=0.9, min_p=0.1, repetition_penalty=1.3, seed=9),
}


def _states(settings: list[Sampling], vocabulary: int, device: str) -> tuple[SampleState, SampleState]:
    """Two alike, with nothing usable in what launches hand on."""
    states = SampleState(len(settings), vocabulary, device), SampleState(len(settings), vocabulary, device)
    for state in states:
        for tensor in state.scratch.values():
            tensor.fill_(torch.nan if tensor.is_floating_point() else -77)
        for row, sampling in enumerate(settings):
            state.set_row(row, sampling, range(0, vocabulary, 3))
    return states


def _logits(kind: str, rows: int, vocabulary: int, seed: int) -> Tensor:
    normal = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))
    if kind == "peaked":
        return normal * 5
    if kind == "flat":
        return normal / 10
    if kind == "ties":
        return (normal * 2).round()
    holes = normal * 2
    holes[:, ::2], holes[:, 1::6] = -torch.inf, torch.nan
    return holes


def _check(logits: Tensor, settings: list[Sampling], steps: int, device: str) -> None:
    fast, plain = _states(settings, logits.shape[1], device)
    for step in range(steps):
        # Other logits for every row in every step.
        now = logits.roll((step, 37 * step), (0, 1)).contiguous().to(device)
        tokens, wanted = (torch.full((len(logits),), -1, device=device) for _ in range(2))
        sample(now, fast, tokens)
        sample_plain(now, plain, wanted)
        assert tokens.tolist() == wanted.tolist()
    assert torch.equal(fast.seen, plain.seen)
    assert fast.step.tolist() == [steps] * len(logits)


@pytest.mark.parametrize(("kind", "dtype"), [("ties", torch.float16), ("holes", torch.float32)])
def test_takes_the_plain_versions_tokens(kind: str, dtype: torch.dtype, device: str) -> None:
    _check(_logits(kind, len(SETTINGS), 1003, 1).to(dtype), list(SETTINGS.values()), 1, device)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["peaked", "flat", "ties", "holes"])
@pytest.mark.parametrize(("vocabulary", "dtype"), [(8, torch.float32), (4097, torch.bfloat16), (1003, torch.float16)])
def test_takes_them_step_by_step(kind: str, vocabulary: int, dtype: torch.dtype, device: str) -> None:
    _check(_logits(kind, len(SETTINGS), vocabulary, 2).to(dtype), list(SETTINGS.values()), 3, device)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["peaked", "flat", "ties"])
def test_a_large_vocabulary(kind: str, device: str) -> None:
    # Three rows: the interpreter takes seconds for each.
    settings = [SETTINGS[name] for name in ("temperature", "top-p", "all")]
    _check(_logits(kind, len(settings), 128256, 3).half(), settings, 1, device)


@pytest.mark.parametrize("name", ["temperature", "all"])
def test_a_row_draws_the_same_whatever_the_others_do(name: str, device: str) -> None:
    logits = _logits("peaked", 3, 5003, 4).to(device)
    found = []
    for settings, row in (([SETTINGS[name]], 0), ([SETTINGS["greedy"], SETTINGS["min-p"], SETTINGS[name]], 2)):
        state = _states(settings, 5003, device)[0]
        out = torch.full((len(settings),), -1, device=device)
        own = logits.clone()
        own[row] = logits[0]
        sample(own[: len(settings)], state, out)
        found.append(int(out[row]))
    assert found[0] == found[1]


def test_a_row_goes_on_in_another_batch_and_is_cleared(device: str) -> None:
    sampling, logits = SETTINGS["temperature"], _logits("peaked", 4, 1003, 5).to(device)
    alone, out = SampleState(1, 1003, device), torch.full((1,), -1, device=device)
    alone.set_row(0, sampling)
    tokens = []
    for step in range(4):
        sample(logits[step : step + 1], alone, out)
        tokens.append(int(out))
    other, both = SampleState(2, 1003, device), torch.full((2,), -1, device=device)
    other.set_row(1, sampling, step=2)
    for step in range(2, 4):
        sample(logits[step : step + 1].repeat(2, 1), other, both)
        assert int(both[1]) == tokens[step]
    other.clear_row(1)
    sample(logits[:2], other, both)
    assert both.tolist() == logits[:2].argmax(1).tolist()


def _chances(logits: Tensor, sampling: Sampling) -> Tensor:
    values = logits / sampling.temperature
    stays = kept(values, sampling.top_k, sampling.top_p, sampling.min_p)
    chances = values.softmax(0) * stays
    return chances / chances.sum()


def _follow(tokens: Tensor, chances: Tensor) -> None:
    """Chi-square of the tokens' counts, rare ones together."""
    counts, expected = tokens.bincount(minlength=len(chances)), chances * len(tokens)
    assert counts[chances == 0].sum() == 0
    rare = expected < 5
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    found = torch.cat([counts[~rare], counts[rare].sum()[None]])
    square, degrees = ((found - expected) ** 2 / expected.clamp_min(1)).sum(), int((~rare).sum())
    # Five standard deviations above its mean.
    assert square < degrees + 5 * (2 * degrees) ** 0.5, counts


def _draws(run: Run, rows: int, sampling: Sampling, logits: Tensor, device: str) -> Tensor:
    """Tokens of rows that differ by their seeds only; every third token was seen."""
    state = SampleState(rows, len(logits), device)
    state.set_row(0, sampling, range(0, len(logits), 3))
    for field in ("temperature", "top_p", "min_p", "top_k", "penalty", "seen"):
        tensor = getattr(state, field)
        tensor.copy_(tensor[:1].clone().expand_as(tensor))
    state.seed.copy_(torch.arange(rows))
    out = torch.full((rows,), -1, device=device)
    run(logits.to(device).expand(rows, -1).contiguous(), state, out)
    return out.cpu()


@pytest.mark.thorough
# The interpreter is too slow for as many draws as frequencies need; that the kernels draw what the plain version does
# is tested above.
@pytest.mark.parametrize("run", [sample_plain, pytest.param(sample, marks=pytest.mark.gpu)])
@pytest.mark.parametrize("name", list(SETTINGS)[2:])
def test_draws_as_the_cpus_sampler_does(name: str, run: Run, device: str) -> None:
    logits, sampling, rows = _logits("peaked", 1, 23, 6)[0] / 2, SETTINGS[name], 800
    tokens = _draws(run, rows, sampling, logits, device)
    # What the repetition penalty leaves; the CPU's sampler would add what it draws to what was seen.
    penalty, marked = sampling.repetition_penalty, torch.arange(23) % 3 == 0
    logits = torch.where(marked, torch.where(logits > 0, logits / penalty, logits * penalty), logits)
    sampler = Sampler(msgspec.structs.replace(sampling, repetition_penalty=1.0, seed=1))
    for drawn in (tokens, torch.tensor([sampler(logits) for _ in range(rows)])):
        _follow(drawn, _chances(logits, sampling))


def test_the_uniforms_are_philoxs() -> None:
    # Random123's known answers for philox4x32-10.
    assert uniform(0, 0) == (0x6627E8D5 >> 8) / 2**24
    numbers = torch.tensor([uniform(seed, step) for seed in range(40) for step in range(50)])
    assert abs(numbers.mean() - 0.5) < 0.03
    assert len(numbers.unique()) > 1990


def test_settings_are_checked_in_one_place(device: str) -> None:
    with pytest.raises(BadRequest, match="top_p"):
        SampleState(1, 8, device).set_row(0, Sampling(top_p=2.0))


def test_without_a_seed_rows_differ(device: str) -> None:
    state = SampleState(2, 8, device)
    for row in range(2):
        state.set_row(row, Sampling(temperature=1.0))
    assert state.seed[0] != state.seed[1]
