"""One layer on calibration rows: its output, what each projection reads, and how far changed weights lead it astray.

It runs the model's own forward pass, of one layer whose "embedding" is the rows that enter it, so that every family is
served. Pieces of text are read one at a time, dense, each from position 0.

P pieces of T tokens: rows are `[P, T, hidden]`. Weights are float32, by the places of `models.tensors` without the
layer's number; a bias is "qkv.bias".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from unabridged.models.config import ModelConfig
from unabridged.models.embedding import Table
from unabridged.models.layers import GeluGated, Layer, Norm, SiluGated
from unabridged.models.linear import Dense, Linear
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq

Weights = Mapping[str, Tensor]

PROJECTIONS = ("qkv", "output", "gate_up", "down")
_OPTIONAL_NORMS = ("q_norm", "k_norm", "attention_post_norm", "mlp_post_norm")


class Block:
    """One layer and the rows that enter it."""

    def __init__(self, config: ModelConfig, weights: Weights, rows: Tensor) -> None:
        self._config = replace(config, embedding_scale=1.0)
        self._weights, self._rows = weights, rows
        self._attend = Causal(config, rows.shape[1], rows.device)
        self._attended: list[Tensor] = []
        self._fed: list[Tensor] = []

    def observe(self) -> tuple[Tensor, dict[str, Tensor]]:
        """The rows that leave the layer, and for each projection the rows `[P T, in]` that it reads."""
        seen = {place: _Recorder(self._linear(place, {})) for place in PROJECTIONS}
        out = torch.stack(list(self._run(self._layer(seen.__getitem__))))
        return out, {place: torch.cat(recorder.seen) for place, recorder in seen.items()}

    def attention_error(self, qkv: Tensor) -> Tensor:
        """Squared error of what attention leaves on the residual stream when `qkv` stands for the layer's own."""
        if not self._attended:
            self._attended = list(self._run(self._without_mlp({})))
        found = self._run(self._without_mlp({"qkv": qkv}))
        return _squared(zip(found, self._attended, strict=True))

    def mlp_error(self, gate_up: Tensor, x: Tensor) -> Tensor:
        """Squared error of the MLP's output for its inputs `x` `[P T, hidden]` with this `gate_up`."""
        pieces = x.split(self._rows.shape[1])
        if not self._fed:
            self._fed = list(self._mlp({}, pieces))
        return _squared(zip(self._mlp({"gate_up": gate_up}, pieces), self._fed, strict=True))

    def _mlp(self, changed: Weights, pieces: tuple[Tensor, ...]) -> Iterator[Tensor]:
        layer = self._layer(lambda place: self._linear(place, changed))
        return (layer.down(layer.gated(piece)) for piece in pieces)

    def _run(self, layer: Layer) -> Iterator[Tensor]:
        for rows in self._rows:
            model = Llama(self._config, Table(rows), (layer,), layer.mlp_norm, _Nothing())
            yield model.forward(torch.arange(len(rows), device=rows.device), self._attend)

    def _without_mlp(self, changed: Weights) -> Layer:
        layer = self._layer(lambda place: self._linear(place, changed))
        return replace(layer, gated=_Nothing(), down=_Nothing())

    def _linear(self, place: str, changed: Weights) -> Linear:
        return Dense(changed.get(place, self._weights[place]), self._weights.get(place + ".bias"))

    def _layer(self, linear: Callable[[str], Linear]) -> Layer:
        gated = SiluGated if self._config.activation == "silu" else GeluGated
        return Layer(
            attention_norm=self._norm("attention_norm"),
            qkv=linear("qkv"),
            output=linear("output"),
            mlp_norm=self._norm("mlp_norm"),
            gated=gated(linear("gate_up")),
            down=linear("down"),
            **{name: self._norm(name) for name in _OPTIONAL_NORMS if name in self._weights},
        )

    def _norm(self, name: str) -> Norm:
        return Norm(self._weights[name], self._config.norm_eps)


class _Recorder:
    """A Linear that keeps what it reads."""

    def __init__(self, linear: Linear) -> None:
        self._linear = linear
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return self._linear(x)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        self.seen.append(x)
        return self._linear.add_to(residual, x)


class _Nothing:
    """A Linear, or a Gated, that adds nothing."""

    def __call__(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual


class Causal:
    """Dense attention over the piece alone. See models.attention.Attend."""

    def __init__(self, config: ModelConfig, tokens: int, device: torch.device) -> None:
        angles = torch.arange(tokens)[:, None] * inv_freq(config)
        self._cos, self._sin = angles.cos()[:, None].to(device), angles.sin()[:, None].to(device)
        self._cap = config.attention_cap

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(0, 1) for x in (self._rotated(q), self._rotated(k), v))
        out = self._capped(q, k, v, self._cap) if self._cap is not None else self._plain(q, k, v)
        return out.transpose(0, 1)

    @staticmethod
    def _plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        grouped = q.shape[0] != k.shape[0]
        return functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=grouped)[0]

    @staticmethod
    def _capped(q: Tensor, k: Tensor, v: Tensor, cap: float) -> Tensor:
        k, v = (x.repeat_interleave(len(q) // len(k), 0) for x in (k, v))
        scores = torch.tanh(q @ k.mT * (q.shape[-1] ** -0.5 / cap)) * cap
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return scores.masked_fill_(later, -torch.inf).softmax(-1) @ v

    def _rotated(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * self._cos - right * self._sin, right * self._cos + left * self._sin), -1)


def _squared(pairs: Iterator[tuple[Tensor, Tensor]]) -> Tensor:
    # In float64: of a sum over millions of numbers small differences decide.
    return torch.stack([(found - wanted).square().sum(dtype=torch.float64) for found, wanted in pairs]).sum()
