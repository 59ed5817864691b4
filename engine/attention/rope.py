"""Rotary positions: the rotation itself and the position rules of the RoPE styles. Knows nothing of caches.

D head dimension, F = D/2 frequencies. Keys are cached un-rotated; each use gives them the positions of its style.
The half-split convention (component i pairs with i + D/2), as in Hugging Face checkpoints.
"""

import torch
from torch import Tensor

# Matrices kept: a step's layers stand at a few different places.
_MATRICES = 64


class Rotary:
    """Rotates queries and keys by positions. Positions are integers >= 0; a table of angles grows on demand."""

    def __init__(self, inv_freq: Tensor) -> None:
        """inv_freq `[F]`: the model's inverse frequencies, its own scaling applied."""
        self._inv_freq = inv_freq.double()
        self._table = torch.zeros(0, 2, inv_freq.numel())
        self._matrices: dict[int, Tensor] = {}

    def table(self, length: int) -> Tensor:
        """Cosines and sines of positions 0..length-1, `[length, 2, F]` float32."""
        if len(self._table) < length:
            grown = max(length, 2 * len(self._table), 1024)
            angles = torch.outer(torch.arange(grown, dtype=torch.float64), self._inv_freq)
            self._table = torch.stack((angles.cos(), angles.sin()), dim=1).float()
        return self._table[:length]

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x `[..., D]` turned by `positions`, which broadcasts over x's leading dimensions."""
        angles = self.table(int(positions.max()) + 1 if positions.numel() else 0)[positions]
        return turn(x, angles)

    def rotate_range(self, x: Tensor, start: int, out: Tensor | None = None) -> Tensor:
        """x `[..., T, D]` turned by positions start..start+T-1."""
        return turn(x, self.table(start + x.shape[-2])[start:], out)

    def matrix(self, position: int) -> Tensor:
        """`[D, D]`: `x @ matrix` turns x `[..., D]` by `position`. One product costs a decode step less than the eight
        small operations of `turn`, and its layers share the matrix."""
        found = self._matrices.get(position)
        if found is None:
            if len(self._matrices) >= _MATRICES:
                self._matrices.clear()
            cos, sin = self.table(position + 1)[position]
            rows = torch.cat((cos.diag(), sin.diag()), 1), torch.cat((-sin.diag(), cos.diag()), 1)
            found = self._matrices[position] = torch.cat(rows)
        return found


def turn(x: Tensor, angles: Tensor, out: Tensor | None = None) -> Tensor:
    """x `[..., D]` turned by angles `[..., 2, F]` (cosines, sines)."""
    half = x.shape[-1] // 2
    cos, sin = angles[..., 0, :], angles[..., 1, :]
    low, high = x[..., :half], x[..., half:]
    if out is None:
        out = torch.empty((*_broadcast(x.shape[:-1], cos.shape[:-1]), x.shape[-1]), dtype=x.dtype)
    torch.mul(low, cos, out=out[..., :half])
    torch.addcmul(out[..., :half], high, sin, value=-1, out=out[..., :half])
    torch.mul(high, cos, out=out[..., half:])
    torch.addcmul(out[..., half:], low, sin, out=out[..., half:])
    return out


def _broadcast(one: torch.Size, other: torch.Size) -> list[int]:
    # torch.broadcast_shapes took a tenth of a decode step.
    ranks = max(len(one), len(other))
    padded = ((1,) * (ranks - len(shape)) + tuple(shape) for shape in (one, other))
    return [b if a == 1 else a for a, b in zip(*padded, strict=True)]


def grouped(positions: Tensor, scale: int) -> Tensor:
    """SelfExtend's floor division: `scale` neighbouring positions share one."""
    return positions.div(scale, rounding_mode="floor")


def extend_scale(length: int, window: int, near: int) -> int:
    """The smallest divisor that brings `length` tokens, the newest `near` of them exact, into the trained window."""
    far, room = max(0, length - near), max(1, window - near)
    return max(1, -(-far // room))
