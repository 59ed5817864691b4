"""What the kernels of score_index share: where codes lie, and their planes.

A program takes tiles of keys by turns, those below every limit without masks and pipelined, then those that a limit
cuts, and writes -inf to the rest. Keys of a tile become int8 planes in registers (index.PLANES), are multiplied with
all columns, and shrink to the best of each chunk. Spans begin at a page. The table of pages is read a tile ahead: what
waits for it would keep codes waiting. Without a table pages lie in order.
"""

import triton
import triton.language as tl


@triton.jit
def page_numbers(table, tile, keys, there, KEYS: tl.constexpr, PAGE: tl.constexpr):
    """Pages of a tile's keys; 0 where a key is not there."""
    return tl.load(table + tile * (KEYS // PAGE) + keys // PAGE, there, other=0)


@triton.jit
def places(page, keys, PAGE: tl.constexpr):
    """Where keys lie in a head's memory; of a page that is not there, in the first."""
    return tl.maximum(page, 0) * PAGE + keys % PAGE


@triton.jit
def planes(codes, PLAIN: tl.constexpr):
    """int8 codes of any shape as the four int8 planes of index.PLANES."""
    if PLAIN:
        y4, y2, y1, y0 = codes & -16 | 8, (codes << 4) & -64 | 32, (codes << 6) & -128 | 64, (codes << 7) & -128 | 64
    else:
        # Four codes of a word at a time; bits that cross a byte's border fall to the masks. 0xEA: a & b | c.
        y4, y2, y1, y0 = tl.inline_asm_elementwise(
            """{
            .reg .b32 a, b, c;
            shl.b32 a, $4, 4;
            shl.b32 b, $4, 6;
            shl.b32 c, $4, 7;
            lop3.b32 $0, $4, 0xF0F0F0F0, 0x08080808, 0xEA;
            lop3.b32 $1, a, 0xC0C0C0C0, 0x20202020, 0xEA;
            lop3.b32 $2, b, 0x80808080, 0x40404040, 0xEA;
            lop3.b32 $3, c, 0x80808080, 0x40404040, 0xEA;
            }""",
            "=r,=r,=r,=r,r",
            [codes],
            dtype=(tl.int8, tl.int8, tl.int8, tl.int8),
            is_pure=True,
            pack=4,
        )
    return y4, y2, y1, y0
