"""4-bit projections as checkpoints store them, to plain integers, scales and zero points, and on to a W4.

N rows (outputs), K columns (inputs), groups of G columns. A weight is (value - zero) * scale, in float16 and rounded
once. Both layouts hold eight values an int32 word, nibble 0 the lowest.

AutoAWQ "gemm": `qweight` `[K, N/8]`, `qzeros` `[K/G, N/8]`, `scales` `[K/G, N]`; nibble `_ORDER[j]` of a word is column
j of its eight. compressed-tensors "pack-quantized": `weight_packed` `[N, K/8]`, nibbles in order; `weight_scale`
`[N, K/G]`; `weight_zero_point` `[N/8, K/G]`, packed along N, absent when every zero point is 8; `weight_shape` holds
N, K.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.kernels.w4 import W4, pack
from unabridged.models.quantisation import Quantisation

_WORDS = ("qweight", "qzeros", "weight_packed", "weight_zero_point")
_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)


@dataclass(frozen=True, slots=True)
class Int4:
    """`values` uint8 `[N, K]` and `zeros` uint8 `[N, K/G]`, 0 to 15; `scales` float16 `[N, K/G]`."""

    values: Tensor
    scales: Tensor
    zeros: Tensor

    @classmethod
    def empty(cls, rows: int, columns: int, group: int, device: torch.device) -> "Int4":
        """Of that shape, to be filled."""
        shape = (rows, columns // group)
        return cls(
            torch.empty(rows, columns, dtype=torch.uint8, device=device),
            torch.empty(shape, dtype=torch.float16, device=device),
            torch.empty(shape, dtype=torch.uint8, device=device),
        )

    def part(self, rows: slice) -> "Int4":
        """A view of some rows."""
        return Int4(self.values[rows], self.scales[rows], self.zeros[rows])

    def fill(self, rows: slice, part: "Int4") -> None:
        """Write `part` to `rows`."""
        self.values[rows], self.scales[rows], self.zeros[rows] = part.values, part.scales, part.zeros

    def packed(self) -> W4:
        """As the kernels read it."""
        return pack(self.values, self.scales, self.zeros)

    def dequantised(self, dtype: torch.dtype) -> Tensor:
        """The weights `[N, K]`: what AutoAWQ's own dequantisation gives, converted to `dtype`."""
        groups = self.scales.shape[1]
        steps: Tensor = self.values.unflatten(1, (groups, -1)).half() - self.zeros.half()[..., None]
        weights: Tensor = steps * self.scales[..., None]
        return weights.flatten(1).to(dtype)


class Projection:
    """The tensors of one 4-bit projection, in any order, until all are there."""

    def __init__(self, name: str, rows: int, columns: int, form: Quantisation) -> None:
        """`name`: of its module in the checkpoint."""
        self._name, self._rows, self._columns, self._form = name, rows, columns, form
        self._tensors: dict[str, Tensor] = {}
        self._shapes = form.shapes(rows, columns)

    def put(self, kind: str, tensor: Tensor) -> Int4 | None:
        """Take `<name>.<kind>`; the projection once it is complete, on the device of its tensors.

        Raises ModelDamaged or ModelUnsupported naming the tensor.
        """
        self._check(kind, tensor)
        self._tensors[kind] = tensor
        if self.missing():
            return None
        whole = self._gemm() if self._form.layout == "awq" else self._pack_quantized()
        self._tensors.clear()
        return whole

    def missing(self) -> list[str]:
        """Names of the tensors that have not come; all of them behind the last one."""
        return [f"{self._name}.{kind}" for kind in self._shapes if kind not in self._tensors]

    def _check(self, kind: str, tensor: Tensor) -> None:
        key, wanted = f"{self._name}.{kind}", list(self._shapes[kind])
        if self._columns % self._form.group:
            raise ModelUnsupported(f"{key}: {self._columns} columns do not divide into groups of {self._form.group}")
        if list(tensor.shape) != wanted:
            raise ModelDamaged(f"{key} has shape {list(tensor.shape)}, its configuration says {wanted}")
        scales = kind in ("scales", "weight_scale")
        if tensor.is_floating_point() != scales or (tensor.dtype != torch.int32 and kind in _WORDS):
            raise ModelDamaged(f"{key} is {tensor.dtype}, which {self._form.layout} does not store there")
        if scales and not tensor.to(torch.float16).isfinite().all():
            raise ModelDamaged(f"{key} holds numbers that are not finite in float16", "download or copy it again")
        if kind == "weight_shape" and tensor.tolist() != [self._rows, self._columns]:
            raise ModelDamaged(f"{key} is {tensor.tolist()}, its configuration says {[self._rows, self._columns]}")

    def _gemm(self) -> Int4:
        words = (self._tensors["qweight"], self._tensors["qzeros"])
        values, zeros = (_in_order(one)[:, : self._rows].t().contiguous() for one in words)
        return Int4(values, self._tensors["scales"].t().to(torch.float16).contiguous(), zeros)

    def _pack_quantized(self) -> Int4:
        values, scales = _nibbles(self._tensors["weight_packed"]), self._tensors["weight_scale"].to(torch.float16)
        if not self._form.zeros:
            return Int4(values, scales, torch.full_like(scales, 8, dtype=torch.uint8))
        zeros = _nibbles(self._tensors["weight_zero_point"].t())[:, : self._rows]
        return Int4(values, scales, zeros.t().contiguous())


def _nibbles(words: Tensor) -> Tensor:
    """int32 `[..., n]` to uint8 `[..., 8 n]`, the lowest four bits of a word first."""
    octets = words.contiguous().view(torch.uint8)
    return torch.stack((octets & 0xF, octets >> 4), -1).flatten(-2)


def _in_order(words: Tensor) -> Tensor:
    eights: Tensor = _nibbles(words).unflatten(-1, (-1, 8))
    return eights[..., _ORDER].flatten(-2)
