"""int4 weights of a linear layer as the kernels read them: packing, its inverse, and what the weights are.

    w[n, k] = (q[n, k] - zero[n, k // group]) * scale[n, k // group]        q, zero in 0..15

A tensor-core product (m16n8k16) wants of its left operand, in lane 4r + c of a warp, rows r and r + 8 and columns 2c,
2c + 1, 2c + 8 and 2c + 9. So weights lie as the lanes take them: 16 bytes are what a lane holds for four products, one
for each nibble of its eight words, and a warp's 512 bytes are one run. Which column is which does not matter to a sum:
a lane's columns are eight neighbours for every two products, so that it reads x in 16 bytes too.

The nibbles of a word are of four rows: tile t has rows 32t .. 32t + 31 of the matrix's first half (nibbles 0 and 1, 16
rows each) and the same of its second half (nibbles 2 and 3), so that gate and up of one neuron meet in one thread.

Indices, outermost first: t tile, s step of 16 columns, r, c, h (columns + 8), u (rows + 8), p (neighbouring columns).
Torch only: checkpoints are packed where there is no GPU too.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

GROUPS = (32, 64, 128)
HALF_ROWS = 32  # of a tile in each half of a matrix
PLANES = 4  # nibbles of a word


@dataclass(frozen=True)
class W4:
    """The weights `[rows, columns]` in groups of `group` neighbouring columns.

    words: int16 `[tiles, columns / 16, 8 (r), 4 (c), 8 (h, u, p)]`.
    scales: float16 `[tiles, columns / group, 8 (r), 2 (u), 4 (nibble)]`; 0 for rows that only fill up a tile.
    zeros: int16 `[tiles, columns / group, 8 (r), 2 (u)]`, a nibble a row as in `words`.
    """

    words: Tensor
    scales: Tensor
    zeros: Tensor
    rows: int
    columns: int
    group: int

    @property
    def tiles(self) -> int:
        """Of 2 * HALF_ROWS rows."""
        return self.words.shape[0]

    @property
    def nbytes(self) -> int:
        """What a product with all of it reads."""
        return self.words.nbytes + self.scales.nbytes + self.zeros.nbytes


def pack(values: Tensor, scales: Tensor, zeros: Tensor) -> W4:
    """The weights of `values` `[N, K]` and `zeros` `[N, K / group]`, both uint8 of 0..15, and `scales` `[N, K / group]`
    float16, on their device. Nothing is lost.

    Raises ValueError for shapes that it cannot lay out: a group that is none of GROUPS, an odd number of rows.
    """
    (rows, columns), groups = values.shape, scales.shape[1]
    if groups * (group := columns // max(groups, 1)) != columns or group not in GROUPS:
        raise ValueError(f"{columns} columns in {groups} groups: groups are of {GROUPS} columns")
    if rows % 2 or not scales.shape == zeros.shape == (rows, groups):
        raise ValueError(f"{rows} rows, scales {tuple(scales.shape)}, zeros {tuple(zeros.shape)}: rows are even")
    return W4(
        words=_join(_lanes(values)),
        scales=_rows(scales).permute(1, 5, 4, 3, 0, 2).flatten(4).contiguous(),
        zeros=_join(_rows(zeros).permute(0, 2, 1, 5, 4, 3).flatten(0, 1)),
        rows=rows,
        columns=columns,
        group=group,
    )


def unpack(w: W4) -> tuple[Tensor, Tensor, Tensor]:
    """What `pack` was given."""
    tiles, groups = w.scales.shape[:2]
    values = _split(w.words).view(2, 2, tiles, w.columns // 32, 2, 8, 4, 2, 2, 2).permute(0, 2, 1, 8, 5, 3, 6, 4, 7, 9)
    scales = w.scales.view(tiles, groups, 8, 2, 2, 2).permute(4, 0, 5, 3, 2, 1)
    zeros = _split(w.zeros).view(2, 2, tiles, groups, 8, 2).permute(0, 2, 1, 5, 4, 3)
    kept = w.rows // 2
    return (
        values.reshape(2, -1, w.columns)[:, :kept].reshape(w.rows, w.columns),
        scales.reshape(2, -1, groups)[:, :kept].reshape(w.rows, groups),
        zeros.reshape(2, -1, groups)[:, :kept].reshape(w.rows, groups),
    )


def dequantise_plain(w: W4, dtype: torch.dtype = torch.float16) -> Tensor:
    """The weights `[rows, columns]`, rounded once to float16, as AutoAWQ does, then to `dtype`."""
    values, scales, zeros = unpack(w)
    centred = values.view(w.rows, -1, w.group).to(torch.int8) - zeros.to(torch.int8)[:, :, None]
    return (centred.half() * scales[:, :, None]).view(w.rows, w.columns).to(dtype)


def _rows(x: Tensor) -> Tensor:
    """`[N, X]` to `[2 (half), tiles, 2 (nibble of a half), 2 (u), 8 (r), X]`, with rows of 0 at the ends of halves."""
    halves = x.view(2, -1, x.shape[1])
    halves = functional.pad(halves, (0, 0, 0, -halves.shape[1] % HALF_ROWS))
    return halves.view(2, -1, 2, 2, 8, x.shape[1])


def _lanes(values: Tensor) -> Tensor:
    """`[N, K]` to the four rows of a word, `[4, tiles, K / 16, 8 (r), 4 (c), 8 (h, u, p)]`."""
    # Columns are, outermost first: two steps together, c, one of the two, h, p.
    x = _rows(values).view(2, -1, 2, 2, 8, values.shape[1] // 32, 4, 2, 2, 2).permute(0, 2, 1, 5, 7, 4, 6, 8, 3, 9)
    return x.flatten(7).flatten(3, 4).flatten(0, 1)


def _join(planes: Tensor) -> Tensor:
    """Four numbers of 4 bits `[4, ...]` in an int16 each."""
    words = torch.zeros_like(planes[0], dtype=torch.int16, memory_format=torch.contiguous_format)
    for nibble in range(PLANES):
        words.bitwise_or_(planes[nibble].to(torch.int16) << (4 * nibble))
    return words


def _split(words: Tensor) -> Tensor:
    """The inverse of `_join`: uint8."""
    return torch.stack([(words >> (4 * nibble) & 15).to(torch.uint8) for nibble in range(PLANES)])
