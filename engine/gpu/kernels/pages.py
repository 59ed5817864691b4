"""Pages of keys and values from one memory to another: between the pool, the banks of decode steps and the buffers that
a prompt's past is staged in, wherever the device reaches them.

    copy_pages     whole pages of a row, of some layers: few programs, so that it can run beside what computes
    store_newest   every row's newest token, of all layers: one launch at the end of a decode step

A kernel reads and writes host memory several times as fast as a recorded copy where rows are short. Tables say where
pages lie; what has no slot on either side is left out.

L layers, B rows, G key/value heads, D head dimension, P pages of a table.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.gpu.kernels.pages_kernel import copy, newest
from unabridged.models.kernels.launch import Argument, Launch, runs
from unabridged.models.kernels.overlap import overlaps

# Bytes that a program of copy_pages asks for before it waits.
_TILE_BYTES = 16384
# Programs of copy_pages: beside matrix products so many still fill the bus of an H200 (51 GB/s; alone, 8 do), and more
# only slow the products down.
PROGRAMS = 16
# Tokens that a program of store_newest moves.
_TOKENS = 8


@dataclass(frozen=True)
class Paged:
    """Keys and values of several layers, in pages as a Bank has them.

    k, v `[L, slots, PAGE, D]`, each with slots of its own. k_table, v_table `[L, B, G, P]` int32, or `[1, B, G, P]`
    where one serves all layers: the slot of positions 16p..16p+15, -1 for none.
    """

    k: Tensor
    v: Tensor
    k_table: Tensor
    v_table: Tensor


def words(x: Tensor) -> Tensor:
    """The same memory as words of four bytes, a page's side by side: `[..., slots, n]`."""
    return x.flatten(-2).view(torch.int32)


def _step(table: Tensor) -> int:
    """From a layer's table to the next one's."""
    return 0 if table.shape[0] == 1 else table.stride(0)


def _halves(source: Paged, target: Paged) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]:
    """Of keys, then of values: memory and table of the source, and of the target."""
    return (
        (source.k, source.k_table, target.k, target.k_table),
        (source.v, source.v_table, target.v, target.v_table),
    )


def _check(source: Paged, target: Paged) -> None:
    if source.k.dtype != target.k.dtype or source.k.shape[2:] != target.k.shape[2:]:
        raise ValueError(f"pages of {source.k.shape[2:]} {source.k.dtype} to {target.k.shape[2:]} {target.k.dtype}")
    if source.k_table.shape[2] != target.k_table.shape[2]:
        raise ValueError(f"tables of {source.k_table.shape[2]} heads to tables of {target.k_table.shape[2]}")


def plan_copy_pages(
    source: Paged,
    target: Paged,
    source_row: int,
    target_row: int,
    first: int,
    count: int,
    layers: range,
    target_layer: int | None = None,
    programs: int = PROGRAMS,
) -> tuple[Launch, ...]:
    """Copy pages first..first+count-1 (of positions) of a row of `source` to the same positions of a row of `target`.

    layers: numbers in the source, one after the other; they become target_layer and following, or keep their numbers.
    What has no slot on either side, or lies past a table, is left out. Keys first, then values, by `programs` programs
    each. ValueError where types, page sizes or heads differ.
    """
    _check(source, target)
    if count < 1 or not layers:
        return ()
    page_words = PAGE * source.k.shape[3] * source.k.dtype.itemsize // 4
    tile = max(1, _TILE_BYTES // (4 * triton.next_power_of_2(page_words)))
    heads, tiles = source.k_table.shape[2], triton.cdiv(len(layers) * count * source.k_table.shape[2], tile)
    numbers: dict[str, Argument] = {
        "source_layer": layers.start,
        "target_layer": layers.start if target_layer is None else target_layer,
        "layers": len(layers),
        "first": first,
        "count": count,
    }
    constants = {"G": heads, "WORDS": page_words, "WIDTH": triton.next_power_of_2(page_words), "TILE": tile}
    return tuple(
        Launch(
            copy,
            (min(programs, tiles),),
            {
                "source": words(of),
                "target": words(to),
                "source_table": of_table[:, source_row],
                "target_table": to_table[:, target_row],
                "source_pages": of_table.shape[3],
                "target_pages": to_table.shape[3],
                "source_step": _step(of_table),
                "target_step": _step(to_table),
                "source_slots": of.shape[1],
                "target_slots": to.shape[1],
                **numbers,
            },
            constants,
            warps=8,
        )
        for of, of_table, to, to_table in _halves(source, target)
    )


copy_pages = runs(plan_copy_pages)


def copy_pages_plain(
    source: Paged,
    target: Paged,
    source_row: int,
    target_row: int,
    first: int,
    count: int,
    layers: range,
    target_layer: int | None = None,
) -> None:
    """`copy_pages` in plain PyTorch."""
    _check(source, target)
    for place, layer in enumerate(layers):
        to_layer = layer if target_layer is None else target_layer + place
        for of, of_table, to, to_table in _halves(source, target):
            width = min(of_table.shape[3], to_table.shape[3], first + count)
            of_slots = of_table[layer if len(of_table) > 1 else 0, source_row, :, first:width]
            to_slots = to_table[to_layer if len(to_table) > 1 else 0, target_row, :, first:width]
            there = (of_slots >= 0) & (to_slots >= 0)
            to[to_layer, to_slots[there].long()] = of[layer, of_slots[there].long()].to(to.device)


def plan_store_newest(source: Paged, target: Paged, first: Tensor) -> Launch:
    """Copy the token at position first[b] (`[B]` int32) of each row and layer from `source` to `target`; both have B
    rows and L layers. What has no slot on either side, or no position, is left out. ValueError where types, page sizes
    or heads differ."""
    _check(source, target)
    layers, heads, dim = source.k.shape[0], source.k_table.shape[2], source.k.shape[3]
    overlap = overlaps(first.device)
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[source.k.dtype.itemsize]
    return Launch(
        newest,
        (triton.cdiv(layers * heads, _TOKENS), len(first), 2),
        {
            "source_k": source.k.view(kind),
            "source_v": source.v.view(kind),
            "target_k": target.k.view(kind),
            "target_v": target.v.view(kind),
            "source_k_table": source.k_table,
            "source_v_table": source.v_table,
            "target_k_table": target.k_table,
            "target_v_table": target.v_table,
            "source_k_slots": source.k.shape[1],
            "source_v_slots": source.v.shape[1],
            "target_k_slots": target.k.shape[1],
            "target_v_slots": target.v.shape[1],
            "source_pages": source.k_table.shape[3],
            "target_pages": target.k_table.shape[3],
            "source_step": _step(source.k_table),
            "target_step": _step(target.k_table),
            "first": first,
            "layers": layers,
        },
        {
            "G": heads,
            "D": dim,
            "WIDTH": triton.next_power_of_2(dim),
            "TILE": _TOKENS,
            "OVERLAP": overlap,
        },
        warps=2,
        overlap=overlap,
    )


store_newest = runs(plan_store_newest)


def store_newest_plain(source: Paged, target: Paged, first: Tensor) -> None:
    """`store_newest` in plain PyTorch."""
    _check(source, target)
    for row, position in enumerate(first.tolist()):
        page, inside = divmod(position, PAGE)
        if not 0 <= page < min(source.k_table.shape[3], target.k_table.shape[3]):
            continue
        for of, of_table, to, to_table in _halves(source, target):
            for layer in range(len(of)):
                of_slots = of_table[layer if len(of_table) > 1 else 0, row, :, page]
                to_slots = to_table[layer if len(to_table) > 1 else 0, row, :, page]
                there = (of_slots >= 0) & (to_slots >= 0)
                values = of[layer, of_slots[there].long(), inside]
                to[layer, to_slots[there].long(), inside] = values.to(to.device)
