"""How far one model's next tokens are from another's on a text: perplexities, divergence, agreement.

    python -m benchmarks.divergence REFERENCE OTHER --text TEXT [--tokens 16384] [--window 1024] [--head-bits 16]
        [--name divergence] [--device cpu]

REFERENCE and OTHER are model folders or .gguf files with the same tokenizer. TEXT is any long plain text, as it is or
in .xz; it is read in windows, each from position 0, with dense attention. `--head-bits 8` loads OTHER with embedding
and LM head in int8; REFERENCE and OTHER may then be the same. Prints the figures, with 95 % intervals over windows,
and writes benchmarks/results/NAME.json.
"""

import argparse
import lzma
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from benchmarks.report import machine, save
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from unabridged.models.config import ModelConfig
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer

Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Mean:
    """Of windows, with the half width of its 95 % interval."""

    value: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        """Of one value a window."""
        spread = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return cls(statistics.fmean(values), spread)


@dataclass(frozen=True)
class Divergence:
    """Of OTHER from REFERENCE. `loss`: nats a token of the reference; `more`: what the other loses beyond that; `kl`:
    nats a token, of the other's distribution seen from the reference's; `agreement`: how often the likeliest token is
    the same."""

    tokens: int
    loss: Mean
    more: Mean
    kl: Mean
    agreement: Mean

    def lines(self) -> list[str]:
        """As text."""
        before, after = math.exp(self.loss.value), math.exp(self.loss.value + self.more.value)
        return [
            f"{self.tokens} tokens",
            f"perplexity {before:.4f} -> {after:.4f} ({math.expm1(self.more.value):+.3%} ± {self.more.spread:.3%})",
            f"KL {self.kl.value:.2e} ± {self.kl.spread:.1e} nats a token",
            f"same likeliest token {self.agreement.value:.3%} ± {self.agreement.spread:.3%}",
        ]


class Causal:
    """Dense attention over one window from position 0. See models.attention.Attend."""

    def __init__(self, config: ModelConfig, tokens: int, device: torch.device) -> None:
        assert config.attention_cap is None, "capped attention is the engine's only"
        angles = torch.arange(tokens)[:, None] * inv_freq(config)
        self._cos, self._sin = angles.cos()[:, None].to(device), angles.sin()[:, None].to(device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1)[None] for x in (self._turned(q), self._turned(k), v))
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1)

    def _turned(self, x: Tensor) -> Tensor:
        low, high = x.float().chunk(2, -1)
        cos, sin = self._cos[: len(x)], self._sin[: len(x)]
        return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(x.dtype)


def divergence(reference: Llama, other: Llama, windows: Sequence[Tensor]) -> Divergence:
    """`windows`: token ids `[T]` of one length, on the models' device."""
    attend = Causal(reference.config, len(windows[0]), reference.device)

    def logits(model: Llama, ids: Tensor) -> Tensor:
        return model.logits(model.forward(ids[:-1], attend))

    return compared(windows, partial(logits, reference), partial(logits, other))


def compared(windows: Sequence[Tensor], reference: Logits, other: Logits) -> Divergence:
    """The same of whatever gives the logits `[T - 1, vocab]` of a window's tokens but the last."""
    columns = zip(*(_of_window(ids, reference(ids), other(ids)) for ids in windows), strict=True)
    return Divergence(sum(len(ids) - 1 for ids in windows), *map(Mean.of, columns))


def _of_window(ids: Tensor, before: Tensor, after: Tensor) -> tuple[float, float, float, float]:
    """Loss, further loss, KL and agreement, means of a window's tokens."""
    before, after = before.float(), after.float()
    same = (before.argmax(-1) == after.argmax(-1)).float().mean()
    before, after = before.log_softmax(-1), after.log_softmax(-1)
    kl = torch.nn.functional.kl_div(after, before, log_target=True, reduction="batchmean")
    true = (-scores.gather(1, ids[1:, None]).mean() for scores in (before, after))
    loss, later = (float(mean) for mean in true)
    return loss, later - loss, float(kl), float(same)


def main() -> None:
    """Measure, print and save."""
    arguments = _arguments()
    reference = load_model(arguments.reference, device=arguments.device)
    other = load_model(arguments.other, device=arguments.device, head_bits=arguments.head_bits)
    windows = list(_windows(arguments, reference.device))
    result = divergence(reference, other, windows)
    print("\n".join(result.lines()))
    options = {key: getattr(value, "name", value) for key, value in vars(arguments).items()}
    print(f"written to {save(arguments.name, {'machine': machine(), 'options': options, **asdict(result)})}")


def _windows(arguments: argparse.Namespace, device: torch.device) -> Iterator[Tensor]:
    opened = lzma.open if arguments.text.suffix == ".xz" else open
    with opened(arguments.text, "rt", encoding="utf-8") as file:
        text = file.read(8 * arguments.tokens)
    ids = torch.tensor(Tokenizer.load(arguments.reference).encode(text)[: arguments.tokens], device=device)
    yield from ids.split(arguments.window)[: len(ids) // arguments.window]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.divergence", description=__doc__.splitlines()[0])
    parser.add_argument("reference", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--window", type=int, default=1024)
    parser.add_argument("--head-bits", type=int, choices=(8, 16), default=16)
    parser.add_argument("--name", default="divergence")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
