"""Which checkpoint tensors make which matrix or vector of ours, for one configuration. Torch-free: names and shapes.

Places are "embedding", "norm" and "head", and for each layer number N "N.qkv", "N.output", "N.gate_up", "N.down",
"N.attention_norm", "N.mlp_norm" and, in the families that have them, "N.attention_post_norm", "N.mlp_post_norm",
"N.q_norm", "N.k_norm".
"""

from collections.abc import Iterator
from dataclasses import dataclass

from unabridged.models.config import ModelConfig
from unabridged.models.families import Names, family_named


@dataclass(frozen=True, slots=True)
class Piece:
    """A projection of the checkpoint: `name` without the ".weight", ".bias" or ".qweight" behind it; its output
    rows."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of ours: the pieces one below the other, `columns` inputs each. `bias`: every piece has one."""

    place: str
    pieces: tuple[Piece, ...]
    columns: int
    bias: bool = False

    @property
    def rows(self) -> int:
        """Of all pieces."""
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Vector:
    """The weight of a norm: `name` without ".weight". `offset` is to be added to what the checkpoint holds."""

    place: str
    name: str
    length: int
    offset: float = 0.0


def matrices(config: ModelConfig) -> Iterator[Matrix]:
    """Every matrix of the model; without "head" when it is tied to the embedding."""
    names = family_named(config.architecture).names
    yield Matrix("embedding", (Piece(names.embedding, config.vocab_size),), config.hidden)
    if not config.tied:
        yield Matrix("head", (Piece(names.head, config.vocab_size),), config.hidden)
    for index in range(config.layers):
        yield from _layer_matrices(config, names, index)


def _layer_matrices(config: ModelConfig, names: Names, index: int) -> Iterator[Matrix]:
    queries, shared = config.heads * config.head_dim, config.kv_heads * config.head_dim
    qkv = ((names.q, queries), (names.k, shared), (names.v, shared))
    gate_up = ((names.gate, config.intermediate), (names.up, config.intermediate))
    parts = (
        ("qkv", qkv, config.hidden),
        ("output", ((names.output, config.hidden),), queries),
        ("gate_up", gate_up, config.hidden),
        ("down", ((names.down, config.hidden),), config.intermediate),
    )
    before = names.layer.format(index)
    for place, pieces, columns in parts:
        named = tuple(Piece(before + name, rows) for name, rows in pieces)
        yield Matrix(f"{index}.{place}", named, columns, place in config.bias)


def vectors(config: ModelConfig) -> Iterator[Vector]:
    """The weight of every norm of the model."""
    names = family_named(config.architecture).names
    yield Vector("norm", names.norm, config.hidden, config.norm_offset)
    for index in range(config.layers):
        before = names.layer.format(index)
        for place, name, length in _layer_vectors(config, names):
            yield Vector(f"{index}.{place}", before + name, length, config.norm_offset)


def _layer_vectors(config: ModelConfig, names: Names) -> Iterator[tuple[str, str, int]]:
    yield "attention_norm", names.attention_norm, config.hidden
    yield "mlp_norm", names.mlp_norm, config.hidden
    if names.attention_post_norm:
        yield "attention_post_norm", names.attention_post_norm, config.hidden
        yield "mlp_post_norm", names.mlp_post_norm, config.hidden
    if names.q_norm:
        yield "q_norm", names.q_norm, config.head_dim
        yield "k_norm", names.k_norm, config.head_dim
