"""Loads whose first dimensions are a warp's lanes, so that what they read lies where a tensor-core product wants it.

In a product of 16-bit numbers (m16n8k16) lane 4r + c of a warp holds rows r and r + 8 of the left operand, column r of
the right one, and of both the summed places 2c, 2c + 1, 2c + 8, 2c + 9. Loads have five dimensions: [4 (c), 8 (r),
warps, registers, contiguous].
"""

import triton
import triton.language as tl

# Threads go to a load's dimensions, after the contiguous one, from the first on until Triton 3.6, from the last since.
_FROM_LAST = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7))


@triton.jit
def _ordered(x):
    """x with its dimensions, but the contiguous one, in the order that puts lanes first: its own or the reverse."""
    return tl.permute(x, [3, 2, 1, 0, 4]) if _FROM_LAST else x


@triton.jit
def read(pointers, mask):
    """What `pointers` point to, 0 where not `mask` (None: everywhere)."""
    pointers = _ordered(pointers)
    x = tl.load(pointers) if mask is None else tl.load(pointers, mask=_ordered(mask), other=0)
    return _ordered(x)


@triton.jit
def add_warps(y, W: tl.constexpr, X: tl.constexpr):
    """`[W, X]`, a row a warp's, to its sum over warps `[X]`. Half and half: it goes through shared memory once, where
    tl.sum would go twice and wait for its banks."""
    y = tl.permute(y, [1, 0])
    for i in tl.static_range(5):
        if W >> i > 1:
            first, second = tl.split(tl.reshape(y, [X, W >> (i + 1), 2]))
            y = first + second
    return tl.reshape(y, [X])
