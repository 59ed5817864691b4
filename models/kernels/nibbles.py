"""Nibbles as floating-point numbers for the price of a mask: four bits at the foot of a float16 are the number q 2^-24.

Such numbers are subnormal; tensor cores and float16 arithmetic take them as they are. In the bits above lies the next
nibble, as 16 q 2^-24: a nibble of odd number is taken there, in units of 2^-20, and spares a shift.
"""

import triton
import triton.language as tl


@triton.jit
def number(words, NIBBLE: tl.constexpr):
    """A nibble of int16 words: float32, in units of 2^-24 (nibbles 0 and 2) or 2^-20 (1 and 3)."""
    if NIBBLE >= 2:
        words = words >> 8
    return (words & (0xF0 if NIBBLE % 2 else 0xF)).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _halves(words, TAKE: tl.constexpr):
    """The int16 halves, low and high, of what PTX makes of int32 words: it takes $2 and leaves t."""
    CODE: tl.constexpr = "{ .reg .b32 t; " + TAKE + " mov.b32 {$0, $1}, t; }"
    return tl.inline_asm_elementwise(CODE, "=h,=h,r", [words], (tl.int16, tl.int16), is_pure=True, pack=1)


@triton.jit
def pairs(words, NIBBLE: tl.constexpr, PTX: tl.constexpr):
    """Of int32 words, which are two int16 words each, `[..., 2]` float16: nibbles 1 and 3 in units of 2^-20; nibbles 0
    and 2 in units of 2^-24 with what lies above them, nibbles 1 and 3, still there."""
    if PTX:
        # Both at a time: Triton itself would mask each for itself.
        if NIBBLE == 0:
            low, high = _halves(words, "and.b32 t, $2, 0x00FF00FF;")
        elif NIBBLE == 1:
            low, high = _halves(words, "and.b32 t, $2, 0x00F000F0;")
        elif NIBBLE == 2:
            low, high = _halves(words, "prmt.b32 t, $2, 0, 0x4341;")
        else:
            low, high = _halves(words, "prmt.b32 t, $2, 0, 0x4341; and.b32 t, t, 0x00F000F0;")
    else:
        MASK: tl.constexpr = 0xF0 if NIBBLE % 2 else 0xFF
        if NIBBLE >= 2:
            words = words >> 8
        low, high = (words & MASK).to(tl.int16), ((words >> 16) & MASK).to(tl.int16)
    return tl.join(low, high).to(tl.float16, bitcast=True)
