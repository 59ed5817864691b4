"""Where a checkpoint's tensors go: a place takes what belongs to one matrix or vector, in any order, and checks it.

A matrix whose pieces are all 4-bit can stay 4-bit: they are packed into one when the last has come. Where a matrix
mixes 4-bit and floating pieces, or 4 bits are not to be kept, it is in floating point. Errors name the tensor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unabridged.models.awq import Int4, Projection
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.kernels.w4 import W4
from unabridged.models.quantisation import Quantisation
from unabridged.models.tensors import Matrix, Vector


@dataclass(frozen=True, slots=True)
class Storage:
    """How weights are kept. `keep`: 4-bit ones as they are."""

    dtype: torch.dtype
    device: torch.device
    keep: bool


@dataclass(frozen=True, slots=True)
class Weights:
    """A finished matrix `[rows, columns]`, or vector, and its bias `[rows]`."""

    matrix: Tensor | W4
    bias: Tensor | None = None


class Place(Protocol):
    """A matrix or vector that fills."""

    def keys(self) -> Iterator[str]:
        """Every tensor name that it takes; some exclude each other."""
        ...

    def put(self, key: str, tensor: Tensor) -> None:
        """Take a tensor, which is copied. Raises ModelDamaged or ModelUnsupported naming it."""
        ...

    def missing(self) -> list[str]:
        """Names of tensors without which it is not complete."""
        ...

    def weights(self) -> Weights:
        """Once, when nothing is missing."""
        ...


class VectorPlace:
    """The weight of a norm. See Place."""

    def __init__(self, vector: Vector, storage: Storage) -> None:
        self._key, self._vector = vector.name + ".weight", vector
        self._tensor = torch.empty(vector.length, dtype=storage.dtype, device=storage.device)
        self._open = True

    def keys(self) -> Iterator[str]:
        yield self._key

    def put(self, key: str, tensor: Tensor) -> None:
        _check(key, tensor, (self._vector.length,))
        _fill(self._tensor, key, tensor)
        self._tensor += self._vector.offset
        self._open = False

    def missing(self) -> list[str]:
        return [self._key] if self._open else []

    def weights(self) -> Weights:
        return Weights(self._tensor)


class MatrixPlace:
    """Pieces of a matrix, one below the other. See Place."""

    def __init__(self, matrix: Matrix, form: Quantisation | None, storage: Storage) -> None:
        """`form`: how its pieces are stored where they are 4-bit; None where they cannot be."""
        self._matrix, self._form, self._storage = matrix, form, storage
        self._floating: Tensor | None = None
        self._bias: Tensor | None = None
        self._int4: Int4 | None = None
        self._in_int4: set[str] = set()
        self._rows: dict[str, slice] = {}
        self._packed: dict[str, Projection] = {}
        start = 0
        for piece in matrix.pieces:
            self._rows[piece.name] = slice(start, start + piece.rows)
            start += piece.rows
            if form is not None:
                self._packed[piece.name] = Projection(piece.name, piece.rows, matrix.columns, form)
        self._open = {piece.name + ".weight" for piece in matrix.pieces}
        if matrix.bias:
            self._open |= {piece.name + ".bias" for piece in matrix.pieces}

    def keys(self) -> Iterator[str]:
        yield from sorted(self._open)
        for projection in self._packed.values():
            yield from projection.missing()

    def put(self, key: str, tensor: Tensor) -> None:
        name, _, kind = key.rpartition(".")
        target = name + ".bias" if kind == "bias" else name + ".weight"
        if target not in self._open:
            raise ModelDamaged(f"{key}: {name} is stored twice", "copy the checkpoint again")
        rows = self._rows[name]
        if kind == "bias":
            _check(key, tensor, (rows.stop - rows.start,))
            self._bias = self._empty(self._bias, self._matrix.rows)
            _fill(self._bias[rows], key, tensor)
        elif kind == "weight":
            # Before room is made: a configuration may ask for any size.
            _check(key, tensor, (rows.stop - rows.start, self._matrix.columns))
            _fill(self._whole()[rows], key, tensor)
        elif not self._put_packed(name, kind, tensor):
            return
        self._open.discard(target)

    def missing(self) -> list[str]:
        return [name for key in sorted(self._open) for name in self._lacking(key)]

    def weights(self) -> Weights:
        whole, self._int4 = self._int4, None
        if whole is None:
            return Weights(self._whole(), self._bias)
        if self._floating is None:
            return Weights(whole.packed(), self._bias)
        for name in self._in_int4:
            self._dequantise(name, whole.part(self._rows[name]))
        return Weights(self._floating, self._bias)

    def _put_packed(self, name: str, kind: str, tensor: Tensor) -> bool:
        """Whether the piece is complete with it."""
        part = self._packed[name].put(kind, tensor.to(self._storage.device))
        if part is None:
            return False
        if self._storage.keep:
            self._keep(name, part)
        else:
            self._dequantise(name, part)
        return True

    def _keep(self, name: str, part: Int4) -> None:
        assert self._form is not None
        if self._int4 is None:
            shape = self._matrix.rows, self._matrix.columns, self._form.group
            self._int4 = Int4.empty(*shape, self._storage.device)
        self._int4.fill(self._rows[name], part)
        self._in_int4.add(name)

    def _dequantise(self, name: str, part: Int4) -> None:
        self._whole()[self._rows[name]] = part.dequantised(self._storage.dtype)

    def _whole(self) -> Tensor:
        self._floating = self._empty(self._floating, self._matrix.rows, self._matrix.columns)
        return self._floating

    def _empty(self, present: Tensor | None, *shape: int) -> Tensor:
        """Made when the first rows arrive."""
        if present is not None:
            return present
        return torch.empty(shape, dtype=self._storage.dtype, device=self._storage.device)

    def _lacking(self, key: str) -> list[str]:
        name, _, kind = key.rpartition(".")
        return self._packed[name].missing() if kind == "weight" and name in self._packed else [key]


def _check(key: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Whether it is floating and of this shape."""
    if not tensor.is_floating_point():
        raise ModelUnsupported(f"{key} is {tensor.dtype}", "use a floating-point checkpoint or 4-bit AWQ")
    if tuple(tensor.shape) != shape:
        raise ModelDamaged(f"{key} has shape {list(tensor.shape)}, its configuration says {list(shape)}")


def _fill(rows: Tensor, key: str, tensor: Tensor) -> None:
    """Copy a tensor that was checked to where it goes."""
    rows.copy_(tensor)
    # One sum instead of a mask of the same size: it is not finite as soon as one weight is not.
    if not rows.sum(dtype=torch.float32).isfinite():
        raise ModelDamaged(
            f"{key} holds numbers that are not finite in {str(rows.dtype).removeprefix('torch.')}",
            "download or copy it again",
        )
