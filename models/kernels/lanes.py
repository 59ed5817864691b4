"""Loads whose first dimensions are a warp's lanes, so that what they read lies where a tensor-core product wants it.

In a product of 16-bit numbers (m16n8k16) lane 4r + c of a warp holds rows r and r + 8 of the left operand, column r of
the right one, and of both the summed places 2c, 2c + 1, 2c + 8, 2c + 9. Loads have six dimensions: [4 (c), 8 (r),
warps, two of registers, contiguous].
"""

import triton
import triton.language as tl

# Threads go to a load's dimensions, after the contiguous one, from the first on until Triton 3.6, from the last since.
_FROM_LAST = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7))


@triton.jit
def _ordered(x):
    """x with its dimensions, but the contiguous one, in the order that puts lanes first: its own or the reverse."""
    return tl.permute(x, [4, 3, 2, 1, 0, 5]) if _FROM_LAST else x


@triton.jit
def read(pointers, mask, CACHE: tl.constexpr):
    """What `pointers` point to, 0 where not `mask` (None: everywhere)."""
    pointers = _ordered(pointers)
    if mask is None:
        x = tl.load(pointers, cache_modifier=CACHE)
    else:
        x = tl.load(pointers, mask=_ordered(mask), other=0, cache_modifier=CACHE)
    return _ordered(x)


@triton.jit
def read_some(pointers, mask, CACHE: tl.constexpr):
    """`read`, anything where not `mask`."""
    return _ordered(tl.load(_ordered(pointers), mask=_ordered(mask), cache_modifier=CACHE))
