"""The index of a real model's first layers: what its codes guess of scores that calibration never saw."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unabridged.engine.attention.calibrate import basis, observe
from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.index import encoded, levels, scale_values
from unabridged.engine.attention.rope import Rotary
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer

pytestmark = pytest.mark.thorough

LAYERS, STREAM, TOKENS = 2, 512, 256
Real = tuple[list[Basis], list[tuple[Tensor, Tensor]], Rotary]


class Seen:
    """Notes queries and keys, and attends to nothing but the token itself."""

    def __init__(self) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.layers.append((q, k))
        return v.repeat_interleave(q.shape[1] // v.shape[1], 1)


@pytest.fixture(scope="module")
def installed(models_dir: Path, request: pytest.FixtureRequest) -> Path:
    """The model. Where kernels are tested on a GPU nobody may have installed it: skips there."""
    if torch.cuda.is_available() and not (models_dir / "smollm2-135m").is_dir():
        pytest.skip(f"the default model is not installed in {models_dir}: run `make model`")
    folder: Path = request.getfixturevalue("smollm2")
    return folder


@pytest.fixture(scope="module")
def real(installed: Path) -> Real:
    """Bases from four pieces of a manual; queries `[T, H, D]` and keys `[T, G, D]` of a fifth."""
    model = load_model(installed)
    shallow = Llama(
        replace(model.config, layers=LAYERS), model.embedding, model.layers[:LAYERS], model.norm, model.head
    )
    text = (files("pydoc_data") / "topics.py").read_text("utf-8")
    tokenizer = Tokenizer.load(installed)
    pieces = [tokenizer.encode(text[at * 100_000 :][: 8 * TOKENS])[:TOKENS] for at in range(5)]
    made = [basis(one, width_of(64)) for one in observe(shallow, pieces[:4], [1], STREAM)]
    seen = Seen()
    shallow.forward(torch.tensor(pieces[4]), seen)
    return made, seen.layers, Rotary(inv_freq(model.config))


def test_guesses_follow_the_scores_of_unseen_keys(real: Real) -> None:
    bases, layers, rotary = real
    for made, (q, k) in zip(bases, layers, strict=True):
        keys = k.transpose(0, 1)
        turned = rotary.rotate(q, torch.full((len(q), 1), STREAM + 1)) * q.shape[-1] ** -0.5
        asked = turned.unflatten(1, (keys.shape[0], -1)).transpose(0, 1).flatten(1, 2)
        codes, scales = encoded(keys, made)
        rounded = levels(codes) * scale_values(scales)[..., None]
        guess = (asked @ made.query) @ rounded.mT
        exact = asked @ (keys - made.mean[:, None]).mT
        for head in range(len(keys)):
            together = torch.stack((guess[head].flatten(), exact[head].flatten()))
            assert together.corrcoef()[0, 1] > 0.9


def test_a_key_that_is_like_no_other_keeps_its_length(
    real: Real,
) -> None:
    made, (_, k) = real[0][0], real[1][0]
    keys = k.transpose(0, 1)
    far = made.mean[:, None] + 8 * (keys - made.mean[:, None])
    codes, scales = encoded(far, made)
    near_codes, near_scales = encoded(keys, made)
    # All of the length is in the scale, whose steps are a thirty-second.
    assert (codes != near_codes).float().mean() < 1e-3
    ratio = scale_values(scales) / scale_values(near_scales)
    torch.testing.assert_close(ratio, torch.full_like(ratio, 8), rtol=0.04, atol=0)
    y = (keys - made.mean[:, None]) @ made.key
    own = (made.weights[:, None] * y * y).sum(-1)
    kept = (made.weights[:, None] * y * levels(near_codes)).sum(-1) * scale_values(near_scales)
    torch.testing.assert_close(kept, own, rtol=0.02, atol=0)
