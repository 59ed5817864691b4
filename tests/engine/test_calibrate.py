"""Calibration of the index: the algebra of its bases, and what is stored with a model."""

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from tests.engine.tiny import rotary
from torch import Tensor

from unabridged.engine.attention.calibrate import BLOCKS, STEPS, Moments, basis
from unabridged.engine.attention.index_basis import Basis, Calibration, load, store, width_of
from unabridged.models.errors import ModelDamaged, ModelUnsupported

HEADS, KV_HEADS, DISTANCE = 6, 2, 65


def correlated(tokens: int, heads: int, dim: int, seed: int) -> Tensor:
    """Random vectors `[T, heads, D]` with a mean and with directions of very different lengths."""
    random = torch.Generator().manual_seed(seed)
    mix = torch.randn(dim, dim, generator=random) * torch.logspace(0, -2, dim)
    return torch.randn(tokens, heads, dim, generator=random) @ mix + torch.randn(dim, generator=random)


def moments(dim: int, tokens: int = 600) -> tuple[Moments, Tensor, Tensor]:
    """Sums over random queries and keys in two portions, the queries as they score, `[G, T * g, D]`, and the keys."""
    q, k = correlated(tokens, HEADS, dim, seed=1), correlated(tokens, KV_HEADS, dim, seed=2)
    seen = Moments(KV_HEADS, dim, rotary(dim), DISTANCE)
    seen.add(q[:100], k[:100])
    seen.add(q[100:], k[100:])
    turned = rotary(dim).rotate(q, torch.full((tokens, 1), DISTANCE)) * dim**-0.5
    return seen, turned.unflatten(1, (KV_HEADS, -1)).transpose(0, 1).flatten(1, 2), k.transpose(0, 1)


@pytest.mark.parametrize("dim", [64, 96, 128, 256])
def test_query_numbers_are_the_inverse_of_key_numbers(dim: int) -> None:
    made = basis(moments(dim)[0], width_of(dim))
    both = made.key.double().mT @ made.query.double()
    torch.testing.assert_close(both, torch.eye(4 * width_of(dim)).double().expand_as(both), atol=2e-4, rtol=0)


def test_keys_and_queries_look_alike_and_fit_their_steps() -> None:
    seen, q, k = moments(64)
    width = width_of(64)
    made = basis(seen, width)
    y = (k - made.mean[:, None]) @ made.key
    asked = q @ made.query
    # A number's step is in the key's unit and in the query's coefficient: alike but for its square.
    steps = made.weights.sqrt() / made.weights.sqrt().amax(-1, keepdim=True)
    of_keys, of_queries = y.square().mean(1) * steps**2, asked.square().mean(1) / steps**2
    ratio = of_keys / of_queries
    assert torch.allclose(ratio, ratio.mean(-1, keepdim=True), rtol=0.1)
    for at, (bits, count) in zip((0, width, 2 * width), BLOCKS, strict=True):
        spread = y[..., at : at + count * width].square().mean((1, 2)).sqrt()
        torch.testing.assert_close(spread, torch.full((KV_HEADS,), 1 / STEPS[bits]), rtol=0.02, atol=0)
    lengths = (made.weights[:, None] * y.square()).sum(-1)
    torch.testing.assert_close(lengths.mean(1), torch.ones(KV_HEADS), rtol=0.01, atol=0)


def test_every_dimension_kept_gives_the_score_itself() -> None:
    seen, q, k = moments(64)
    made = basis(seen, 16)
    guess = (q @ made.query) @ ((k - made.mean[:, None]) @ made.key).mT + q @ made.mean[:, :, None]
    exact = q @ k.mT
    assert (guess - exact).norm() / exact.norm() < 1e-3


def test_the_kept_half_holds_nearly_all_of_the_scores() -> None:
    seen, q, k = moments(64)
    made = basis(seen, width_of(64))
    guess = (q @ made.query) @ ((k - made.mean[:, None]) @ made.key).mT
    exact = q @ (k - made.mean[:, None]).mT
    assert (guess - exact).norm() / exact.norm() < 0.05


def calibration() -> Calibration:
    """Of two layers."""
    made = basis(moments(64)[0], 8)
    return Calibration((made, replace(made, mean=made.mean + 1)), "weights-1", 1024, 600)


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    path, made = tmp_path / "index.calibration", calibration()
    store(path, made)
    found = load(path, "weights-1")
    assert (found.stream, found.tokens, len(found.layers)) == (1024, 600, 2)
    for one, other in zip(made.layers, found.layers, strict=True):
        assert all(torch.equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Basis))


def test_a_file_for_other_weights_or_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.calibration"
    with pytest.raises(FileNotFoundError):
        load(path, "weights-1")
    store(path, calibration())
    with pytest.raises(ModelUnsupported, match="made for weights weights-1, not weights-2"):
        load(path, "weights-2")
    monkeypatch.setattr("unabridged.engine.attention.index_basis.VERSION", 99)
    with pytest.raises(ModelUnsupported, match="version"):
        load(path, "weights-1")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path, made = tmp_path / "index.calibration", calibration()
    store(path, made)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ModelDamaged, match=r"index\.calibration"):
        load(path, "weights-1")
    bad = replace(made.layers[0], mean=made.layers[0].mean * math.inf)
    store(path, replace(made, layers=(bad,)))
    with pytest.raises(ModelDamaged, match="not finite"):
        load(path, "weights-1")
