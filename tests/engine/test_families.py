"""The engine's own attention under models with capped scores and sliding layers, against transformers: logits of every
position, prefilled in chunks and then token by token."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.tiny import config
from tests.models.families import CASES, reference, save
from tests.models.test_llama import theirs
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.events import Generate, Sampling, Token, pack_ids
from unabridged.engine.generate import TorchBackend
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.engine.options import EngineOptions
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.registry import Registry
from unabridged.models.rope import inv_freq

IDS = torch.randint(0, 256, (260,), generator=torch.Generator().manual_seed(1))


def logits(model: Llama, settings: AttentionConfig, sizes: list[int]) -> Tensor:
    """Of all rows of IDS, read in forward passes of these sizes, cut as the attention asks."""
    shape = Shape.of(model.config)
    pool = KvPool(shape.layers, shape.kv_heads, shape.head_dim, 64 << 20, torch.float32)
    context = Context(pool, [], pool.allocate(len(IDS)))
    attention = ContextAttention(context, settings, shape, Rotary(inv_freq(model.config)))
    out = []
    for size in sizes:
        end = context.length + size
        while context.length < end:
            step = attention.fits(end - context.length)
            ids = IDS[context.length : context.length + step]
            attention.begin(step)
            out.append(model.logits(model.forward(ids, attention)))
            attention.end()
    return torch.cat(out)


# Everything is selected past the window, so that only an error could make a difference.
ALL: dict[str, Any] = {"sink": 16, "stream": 64, "k": 2048}


@pytest.mark.parametrize("below", [8192, 100], ids=["inside the window", "past it"])
@pytest.mark.parametrize("name", ["llama-3.1", "mistral-v0.1", "qwen2-sliding", "qwen3", "gemma2"])
def test_logits_agree_with_transformers(tmp_path: Path, name: str, below: int) -> None:
    theirs_ = reference(CASES[name])
    model = load_model(save(theirs_, tmp_path / name))
    found = logits(model, config(dense_below=below, **ALL), [70, 90, 60, *[1] * 40])
    torch.testing.assert_close(found, theirs(theirs_, IDS), atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ["mistral-v0.1", "gemma2"])
def test_an_answer_of_the_engine_is_what_transformers_generates(tmp_path: Path, name: str) -> None:
    theirs_ = reference(CASES[name], vocab_size=259)
    for parameter in theirs_.parameters():
        parameter.data = parameter.half().float()  # as the engine packs them
    folder = save(theirs_, tmp_path / name)
    model = Registry(tmp_path / "models").add(folder)
    prompt = IDS[:130].tolist()
    with torch.inference_mode():
        wanted = theirs_.generate(IDS[None, :130], max_new_tokens=30, do_sample=False, eos_token_id=None)[0, 130:]
    options = EngineOptions(threads=1, kv_bytes=8 << 20, prefill_chunk=48, kv_dtype="float32")
    backend = TorchBackend(model.path, options)
    request = Generate(
        id="r",
        prefix=pack_ids(prompt[:40]),
        segments=(),
        prompt=pack_ids(prompt[40:]),
        sampling=Sampling(max_tokens=30),
        attribution=True,
    )
    events = list(backend.run(request))
    found = [token for event in events if isinstance(event, Token) for token in event.ids]
    assert found == wanted.tolist()[: len(found)]
    assert len(found) >= 10
    backend.close()


def test_a_smaller_selection_leaves_sliding_layers_as_they_are(tmp_path: Path) -> None:
    model = load_model(save(reference(CASES["mistral-v0.1"]), tmp_path / "m"))
    whole, selected = (logits(model, config(sink=16, stream=64, k=k), [200, *[1] * 60]) for k in (2048, 16))
    torch.testing.assert_close(selected, whole, atol=1e-4, rtol=0)
    model = load_model(save(reference(CASES["gemma2"]), tmp_path / "g"))
    whole, selected = (logits(model, config(sink=16, stream=64, k=k), [200, *[1] * 60]) for k in (2048, 16))
    assert not torch.allclose(selected, whole, atol=1e-2), "its other layers were meant to lose something"
