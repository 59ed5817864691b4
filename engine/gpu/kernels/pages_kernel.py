"""The kernels of pages.py: whole pages of a row, and every row's newest token."""

import triton
import triton.language as tl

from unabridged.models.kernels.overlap import let_next_begin, wait


@triton.jit
def _slots(table, step, layer, head, page, pages, there):
    at = layer.to(tl.int64) * step + head * pages + page
    return tl.load(table + at, mask=there & (page >= 0) & (page < pages), other=-1).to(tl.int64)


# Copies of any size are one compiled kernel.
@triton.jit(
    do_not_specialize=[
        "source_pages", "target_pages", "source_step", "target_step", "source_slots", "target_slots", "source_layer",
        "target_layer", "layers", "first", "count",
    ],
    do_not_specialize_on_alignment=["source_table", "target_table"],
)  # fmt: skip
def copy(
    source, target, source_table, target_table, source_pages, target_pages, source_step, target_step, source_slots,
    target_slots, source_layer, target_layer, layers, first, count,
    G: tl.constexpr, WORDS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    word = tl.arange(0, WIDTH)[None, :]
    total = layers * count * G
    for begin in range(tl.program_id(0) * TILE, total, tl.num_programs(0) * TILE):
        # Heads side by side: they are neighbours in the pool.
        i = begin + tl.arange(0, TILE)
        head, page, layer = i % G, first + i // G % count, i // (G * count)
        of, to = source_layer + layer, target_layer + layer
        source_slot = _slots(source_table, source_step, of, head, page, source_pages, i < total)
        target_slot = _slots(target_table, target_step, to, head, page, target_pages, i < total)
        there = ((source_slot >= 0) & (target_slot >= 0))[:, None] & (word < WORDS)
        source_at = (of.to(tl.int64) * source_slots + source_slot)[:, None] * WORDS + word
        target_at = (to.to(tl.int64) * target_slots + target_slot)[:, None] * WORDS + word
        tl.store(target + target_at, tl.load(source + source_at, mask=there), mask=there)


@triton.jit
def _token(
    source, target, source_table, target_table, source_pages, target_pages, source_step, target_step, source_slots,
    target_slots, row, position, i, there,
    G: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    layer, head, f = i // G, i % G, tl.arange(0, WIDTH)[None, :]
    # Before the row's first token there is none: -1 // 16 would be page 0.
    there = there & (position >= 0)
    page = position // 16
    source_table += row.to(tl.int64) * G * source_pages
    target_table += row.to(tl.int64) * G * target_pages
    source_slot = _slots(source_table, source_step, layer, head, page, source_pages, there)
    target_slot = _slots(target_table, target_step, layer, head, page, target_pages, there)
    there = ((source_slot >= 0) & (target_slot >= 0))[:, None] & (f < D)
    inside = position % 16 * D + f
    source_at = (layer.to(tl.int64) * source_slots + source_slot)[:, None] * (16 * D) + inside
    target_at = (layer.to(tl.int64) * target_slots + target_slot)[:, None] * (16 * D) + inside
    tl.store(target + target_at, tl.load(source + source_at, mask=there), mask=there)


@triton.jit
def newest(
    source_k, source_v, target_k, target_v, source_k_table, source_v_table, target_k_table, target_v_table,
    source_k_slots, source_v_slots, target_k_slots, target_v_slots, source_pages, target_pages, source_step,
    target_step, first, layers,
    G: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    if OVERLAP:
        let_next_begin()
        wait()
    row = tl.program_id(1)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    position, there = tl.load(first + row), i < layers * G
    if tl.program_id(2) == 0:
        _token(
            source_k, target_k, source_k_table, target_k_table, source_pages, target_pages, source_step, target_step,
            source_k_slots, target_k_slots, row, position, i, there, G, D, WIDTH,
        )  # fmt: skip
    else:
        _token(
            source_v, target_v, source_v_table, target_v_table, source_pages, target_pages, source_step, target_step,
            source_v_slots, target_v_slots, row, position, i, there, G, D, WIDTH,
        )  # fmt: skip
