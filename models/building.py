"""From finished weights to the parts of a model, and from the parts to the model.

With `kernels` 4-bit matrices stay 4-bit, and residual stream and int8 head are the kernels' too. Their modules import
Triton, so they are imported here only then.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.embedding import Embedding, Int8Table, Table
from unabridged.models.int8 import Int8Linear, quantised
from unabridged.models.kernels.w4 import W4
from unabridged.models.layers import Gated, GeluGated, Layer, Norm, SiluGated
from unabridged.models.linear import Dense, Linear, Packed, packable
from unabridged.models.llama import Llama
from unabridged.models.places import Weights
from unabridged.models.residual import Plain, Residual
from unabridged.models.wide import Wide


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model runs. `packed`: floating matrices in FBGEMM's float16; `kernels`: with ours, where there is one;
    `head_bits`: of embedding and LM head, 16 or 8."""

    packed: bool = False
    kernels: bool = False
    head_bits: int = 16


class Building:
    """A model in the making: every place of `models.tensors` once, then the model."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype, manner: Manner) -> None:
        self._config, self._dtype, self._manner = config, dtype, manner
        self._vectors: dict[str, Tensor] = {}
        self._linears: dict[str, Linear] = {}
        self._gates: dict[str, Gated] = {}
        self._embedding: Embedding | None = None

    def add(self, place: str, weights: Weights) -> None:
        """Take what a place holds. Matrices that are stored otherwise here are not needed any longer."""
        matrix = weights.matrix
        kind = place.rpartition(".")[2]
        if kind == "embedding":
            assert isinstance(matrix, Tensor)
            self._add_embedding(matrix)
        elif kind == "gate_up":
            self._gates[place] = self._gated(weights)
        elif kind == "head" and isinstance(matrix, Tensor):
            self._linears[place] = self._head(matrix)
        elif isinstance(matrix, W4) or matrix.dim() == 2:
            self._linears[place] = self._linear(weights)
        else:
            self._vectors[place] = matrix

    def model(self) -> Llama:
        """When every place was added."""
        assert self._embedding is not None
        layers = tuple(self._layer(index) for index in range(self._config.layers))
        norm, head = self._norm("norm"), self._linears["head"]
        assert norm is not None
        return Llama(self._config, self._embedding, layers, norm, head, self._residual())

    def _add_embedding(self, matrix: Tensor) -> None:
        rows = quantised(matrix) if self._manner.head_bits == 8 else None
        self._embedding = Table(matrix) if rows is None else Int8Table(rows, self._dtype)
        if self._config.tied:
            self._linears["head"] = self._head(matrix) if rows is None else Int8Linear(rows)

    def _head(self, matrix: Tensor) -> Linear:
        if self._manner.head_bits == 8:
            return Int8Linear(quantised(matrix))
        return Wide(matrix) if self._manner.kernels else self._linear(Weights(matrix))

    def _linear(self, weights: Weights) -> Linear:
        matrix, bias = weights.matrix, weights.bias
        if isinstance(matrix, W4):
            from unabridged.models.quantised import Quantised

            return Quantised(matrix, bias)
        return Packed(matrix, bias) if self._manner.packed and packable(matrix) else Dense(matrix, bias)

    def _gated(self, weights: Weights) -> Gated:
        if isinstance(weights.matrix, W4) and weights.bias is None:
            from unabridged.models.quantised import QuantisedGated

            return QuantisedGated(weights.matrix, self._config.activation)
        linear = self._linear(weights)
        return SiluGated(linear) if self._config.activation == "silu" else GeluGated(linear)

    def _norm(self, place: str) -> Norm | None:
        weight = self._vectors.get(place)
        return None if weight is None else Norm(weight, self._config.norm_eps)

    def _layer(self, index: int) -> Layer:
        attention_norm, mlp_norm = self._norm(f"{index}.attention_norm"), self._norm(f"{index}.mlp_norm")
        assert attention_norm is not None
        assert mlp_norm is not None
        return Layer(
            attention_norm=attention_norm,
            qkv=self._linears[f"{index}.qkv"],
            output=self._linears[f"{index}.output"],
            mlp_norm=mlp_norm,
            gated=self._gates[f"{index}.gate_up"],
            down=self._linears[f"{index}.down"],
            q_norm=self._norm(f"{index}.q_norm"),
            k_norm=self._norm(f"{index}.k_norm"),
            attention_post_norm=self._norm(f"{index}.attention_post_norm"),
            mlp_post_norm=self._norm(f"{index}.mlp_post_norm"),
        )

    def _residual(self) -> Callable[[Tensor], Residual]:
        if not self._manner.kernels:
            return Plain
        from unabridged.models.fused import FusedResidual

        return FusedResidual
