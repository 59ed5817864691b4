"""The choice of a token: every setting does what its name says, alone and reproducibly."""

import pytest
import torch

from unabridged.engine.errors import BadRequest
from unabridged.engine.events import Sampling
from unabridged.engine.sampling import Sampler, check

LOGITS = torch.tensor([0.0, 3.0, 2.0, 1.0, -5.0, 2.5])


def drawn(sampling: Sampling, times: int = 200, seen: tuple[int, ...] = ()) -> set[int]:
    sampler = Sampler(sampling, seen)
    return {sampler(LOGITS) for _ in range(times)}


def test_temperature_0_takes_the_likeliest() -> None:
    assert drawn(Sampling()) == {1}


def test_a_high_temperature_reaches_every_token() -> None:
    assert drawn(Sampling(temperature=10.0, seed=1)) == set(range(6))


@pytest.mark.parametrize(("top_k", "wanted"), [(1, {1}), (2, {1, 5}), (3, {1, 2, 5}), (99, set(range(6)))])
def test_top_k_keeps_the_k_likeliest(top_k: int, wanted: set[int]) -> None:
    assert drawn(Sampling(temperature=10.0, top_k=top_k, seed=1)) == wanted


@pytest.mark.parametrize(("top_p", "wanted"), [(0.01, {1}), (0.4, {1}), (0.5, {1, 5}), (1.0, set(range(6)))])
def test_top_p_keeps_the_smallest_set_with_that_mass(top_p: float, wanted: set[int]) -> None:
    # At temperature 1 token 1 has 0.44 of the mass, token 5 0.27.
    found = drawn(Sampling(temperature=1.0, top_p=top_p, seed=1), times=3000)
    assert found == wanted if top_p < 1 else found >= wanted - {4}


def test_min_p_keeps_what_is_near_the_likeliest() -> None:
    # Relative to token 1: token 5 has e^-0.5 = 0.61, token 2 e^-1 = 0.37.
    assert drawn(Sampling(temperature=1.0, min_p=0.5, seed=1)) == {1, 5}


def test_the_repetition_penalty_counts_prompt_and_answer() -> None:
    sampler = Sampler(Sampling(repetition_penalty=2.0), seen=[1])
    assert [sampler(LOGITS) for _ in range(2)] == [5, 2]


def test_a_seed_repeats_and_another_differs() -> None:
    flat = torch.zeros(1000)

    def run(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler(flat) for _ in range(8)]

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_a_seed_does_not_touch_the_random_numbers_of_others() -> None:
    torch.manual_seed(3)
    before = torch.rand(1)
    torch.manual_seed(3)
    Sampler(Sampling(temperature=1.0, seed=5))(LOGITS)
    assert torch.equal(torch.rand(1), before)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_k", -1),
        ("min_p", 2.0),
        ("repetition_penalty", 0.0),
        ("max_tokens", 0),
        ("seed", 2**65),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(BadRequest, match=field):
        check(Sampling(**{field: value}))  # type: ignore[arg-type]
