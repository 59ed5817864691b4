"""What 4 bits cost: perplexity of a model, of the same rounded to the nearest, and of its AWQ int4, on text held out.

    nice -n 19 python -m benchmarks.quantise --model DIR --text pepys_diary.txt.xz [--texts 32] [--tokens 512]
        [--quantised DIR ...] [--work DIR]

DIR is a checkpoint folder or .gguf file; a GGUF's blocks are dequantised, and those weights count as exact. Without
--quantised the AWQ model is made first, in the folder --work, as `unabridged models quantize` makes it; with it, the
named folders are measured. Calibration text is the command's own, Python's manual; the measured texts come from evenly
spread places of the file. Each text is read alone, dense, in float32 on the CPU.

Perplexity is over all tokens of all texts but their first. Intervals are 95 %, by bootstrap over texts. "ratio" is the
perplexity over that of the exact weights on the same texts: their difference is far better known than either. KL is
from the exact model's distribution, "agrees" the share of tokens with the same best next token.
Writes benchmarks/results/<name>.json.
"""

import argparse
import lzma
import math
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.report import machine, save
from torch import Tensor
from torch.nn import functional

from unabridged.app.quantising import Teller, quantise
from unabridged.app.sample_text import manual, pieces
from unabridged.models.layers import GeluGated, SiluGated
from unabridged.models.linear import Dense, Linear
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.quantise.block import Causal
from unabridged.models.quantise.rounding import group_for, to_nearest
from unabridged.models.quantise.source import Source
from unabridged.models.tokenizer import Tokenizer

DRAWS = 10_000


class Measured:
    """What one model said of each text: mean negative log-likelihood, divergence, agreement; `[texts]` each."""

    def __init__(self) -> None:
        self.nll: list[float] = []
        self.kl: list[float] = []
        self.agrees: list[float] = []

    def add(self, scores: Tensor, exact: Tensor, ids: Tensor) -> None:
        """`scores` and `exact` `[T, vocab]` log-probabilities of what follows each token of `ids` `[T]`."""
        self.nll.append(float(functional.nll_loss(scores[:-1], ids[1:])))
        self.kl.append(float((exact.exp() * (exact - scores)).sum(-1).mean()))
        self.agrees.append(float((scores.argmax(-1) == exact.argmax(-1)).float().mean()))

    def result(self, exact: "Measured") -> dict[str, Any]:
        """Means over texts with their intervals."""
        own, reference = torch.tensor(self.nll), torch.tensor(exact.nll)
        return {
            "perplexity": _with_interval(own, math.exp),
            "ratio": _with_interval(own - reference, math.exp),
            "kl": _with_interval(torch.tensor(self.kl), float),
            "agrees": _with_interval(torch.tensor(self.agrees), float),
            "nll_of_each_text": [round(one, 5) for one in self.nll],
        }


def _with_interval(values: Tensor, shown: Callable[[float], float]) -> list[float]:
    """`shown` of the mean, of the 2.5th and of the 97.5th percentile of means of resampled texts."""
    random = torch.Generator().manual_seed(0)
    drawn = values[torch.randint(len(values), (DRAWS, len(values)), generator=random)].mean(1)
    low, high = drawn.quantile(torch.tensor([0.025, 0.975])).tolist()
    return [shown(float(values.mean())), shown(low), shown(high)]


def rounded_to_nearest(path: Path, group: int) -> Llama:
    """The model with each projection rounded to 4 bits as it is."""
    model = load_model(path)
    for layer in model.layers:
        assert isinstance(layer.gated, SiluGated | GeluGated)
        for linear in (layer.qkv, layer.output, layer.gated.gate_up, layer.down):
            _round(linear, group)
    return model


def _round(linear: Linear, group: int) -> None:
    assert isinstance(linear, Dense)
    linear.weight.copy_(to_nearest(linear.weight, group))


@torch.inference_mode()
def log_probabilities(model: Llama, ids: Tensor) -> Tensor:
    """`[T, vocab]`."""
    return model.step(ids, Causal(model.config, len(ids), ids.device)).log_softmax(-1)


def measure(models: dict[str, Llama], texts: list[Tensor]) -> dict[str, Measured]:
    """The first model is the exact one."""
    found = {name: Measured() for name in models}
    for number, ids in enumerate(texts):
        exact: Tensor | None = None
        for name, model in models.items():
            scores = log_probabilities(model, ids)
            exact = scores if exact is None else exact
            found[name].add(scores, exact, ids)
        print(f"text {number + 1} of {len(texts)}", flush=True)
    return found


def made(model: Path, work: Path) -> dict[str, Any]:
    """Make the AWQ model; what it took."""
    began, used = time.monotonic(), time.process_time()
    quantise(model, work / "awq", manual(), "cpu", Teller(print, lambda progress: print(progress, flush=True)))
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": time.process_time() - used,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "bytes": sum(path.stat().st_size for path in (work / "awq").glob("*.safetensors")),
    }


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--quantised", type=Path, nargs="+")
    parser.add_argument("--work", type=Path, default=Path("quantised"))
    parser.add_argument("--name", default="quantise")
    options = parser.parse_args()

    took = None if options.quantised else made(options.model, options.work)
    folders = options.quantised or [options.work / "awq"]
    source, tokenizer = Source(options.model), Tokenizer.load(options.model)
    group = group_for({matrix.columns for matrix in source.layer_matrices()})
    opened = lzma.open if options.text.suffix == ".xz" else open
    with opened(options.text, "rt", encoding="utf-8") as file:
        text = file.read()
    begin = [] if source.config.bos_id is None else [source.config.bos_id]
    found = pieces(tokenizer, text, options.tokens - len(begin), options.texts)
    models = {"exact": load_model(options.model), "nearest": rounded_to_nearest(options.model, group)}
    models |= {folder.name: load_model(folder) for folder in folders}
    measured = measure(models, [torch.tensor(begin + ids) for ids in found])
    results = {name: one.result(measured["exact"]) for name, one in measured.items()}
    print(f"{'':14} {'perplexity':>24} {'ratio':>24} {'KL':>24} {'agrees':>24}")
    for name, one in results.items():
        cells = ("{:.3f} ({:.3f}-{:.3f})".format(*one[key]) for key in ("perplexity", "ratio", "kl", "agrees"))
        print(f"{name:14} " + " ".join(f"{cell:>24}" for cell in cells))
    about = {"model": options.model.name, "group": group, "texts": len(found), "tokens": options.tokens}
    print(save(options.name, {"machine": machine(), **about, "quantising": took, "results": results}))


if __name__ == "__main__":
    main()
