"""Which pages of a layer's keys or values lie in a small bank: those that decode steps attend to, and the ones used
last. All on the device, the same launches each time, so that recorded steps hold it.

    update   a stage has chosen anew: pages that are there are marked as used, the others take the slots of those that
             were not used for the longest time
    fetch    what was missing, from the pool into its slots

The bank's part of a row and head: slots of the sink pages, a ring of slots for the stream (page p lies in slot p % ring
of it), and A slots for what was chosen. A page that is not among these has its ring slot in the table, so an entry
below the last part means that the page must be fetched before it is attended to. What is listed is never evicted.

One program a row and head: no atomics, and the same inputs give the same slots.
"""

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Kept
from unabridged.engine.attention.limits import CHOSEN
from unabridged.engine.gpu.kernels import lru_kernel
from unabridged.engine.gpu.kernels.pages import words
from unabridged.models.kernels.launch import Launch, runs
from unabridged.models.kernels.overlap import overlaps

# Bytes that a program of fetch asks for before it waits, and programs of a fetch.
_TILE_BYTES = 8192
_PROGRAMS = 256


@dataclass(frozen=True)
class Lru:
    """Of one layer, of keys or of values. B rows, G key/value heads, A slots, P pages of a table, N misses at most.

    table `[B, G, P]` int32: the bank's slot of a page, -1 for pages that the row does not have. owner `[B, G, A]`
    int32: the page in each of the A slots, -1 for a free one; stamp `[B, G, A]` int32: the update that used it last;
    clock `[B, G]` int32: updates so far. pages, slots `[B, G, N]` int32: what the last update found missing, and where
    it belongs; missing `[B, G]` int32: how many. hits, misses `[B, G]` int64: pages of all lists so far that were
    there, and that were not. sink, ring: slots before the A, which begin at
    (b * G + g) * (sink + ring + A) + sink + ring.
    """

    table: Tensor
    owner: Tensor
    stamp: Tensor
    clock: Tensor
    pages: Tensor
    slots: Tensor
    missing: Tensor
    hits: Tensor
    misses: Tensor
    sink: int
    ring: int


def _list_pages(kept: Kept, chunk: int) -> int:
    """Pages of a list at most."""
    return kept.starts.shape[2] * max(1, chunk // PAGE)


def _check(kept: Kept, chunk: int, lru: Lru) -> None:
    listed, slots, room = _list_pages(kept, chunk), lru.owner.shape[2], lru.pages.shape[2]
    if listed > min(slots, room) or slots > CHOSEN:
        raise ValueError(f"lists of {listed} pages in a bank of {slots} slots (of at most {CHOSEN}), {room} misses")


def plan_update(kept: Kept, chunk: int, limits: Tensor, lru: Lru) -> Launch:
    """Make room for the pages of new lists: fills pages, slots and missing, changes table, owner, stamp, and counts.

    kept: row r of it is row r of the bank; J = G or 1. chunk: tokens of an entry, a power of two; starts are multiples
    of it or of 16, whichever is smaller. limits `[B]` int32: what lies at or past them is left out, and so are pages
    without an entry in the table. Slots that this list does not use go by age, then by number; free ones first.
    ValueError where a list has more pages than the bank has slots, or the bank more than CHOSEN.
    """
    _check(kept, chunk, lru)
    rows, heads, slots = lru.owner.shape
    listed = triton.next_power_of_2(_list_pages(kept, chunk))
    slots_block = triton.next_power_of_2(slots)
    overlap = overlaps(lru.table.device)
    return Launch(
        lru_kernel.update,
        (heads, rows),
        {
            "starts": kept.starts,
            "count": kept.count,
            "limits": limits,
            "table": lru.table,
            "owner": lru.owner,
            "stamp": lru.stamp,
            "clock": lru.clock,
            "out_pages": lru.pages,
            "out_slots": lru.slots,
            "missing": lru.missing,
            "hits": lru.hits,
            "misses": lru.misses,
            "chunks": kept.starts.shape[2],
            "pages": lru.table.shape[2],
        },
        {
            "G": heads,
            "A": slots,
            "N": lru.pages.shape[2],
            "SINK": lru.sink,
            "RING": lru.ring,
            "CHUNK": chunk,
            "JOINED": kept.starts.shape[1] == 1,
            "LIST": listed,
            "SLOTS": slots_block,
            "OVERLAP": overlap,
        },
        warps=max(1, min(16, slots_block // 256)),
        overlap=overlap,
    )


update = runs(plan_update)


def update_plain(kept: Kept, chunk: int, limits: Tensor, lru: Lru) -> None:
    """`update` in plain PyTorch."""
    _check(kept, chunk, lru)
    rows, heads, slots = lru.owner.shape
    for row in range(rows):
        for head in range(heads):
            begin = (row * heads + head) * (lru.sink + lru.ring + slots) + lru.sink + lru.ring
            table, owner, stamp = (x[row, head] for x in (lru.table, lru.owner, lru.stamp))
            list_number = head if kept.starts.shape[1] > 1 else 0
            starts = kept.starts[row, list_number, : int(kept.count[row, list_number])].long()
            page = (starts[:, None] // PAGE + torch.arange(max(1, chunk // PAGE), device=starts.device)).flatten()
            page = page[(page * PAGE < limits[row]) & (page < len(table))].unique_consecutive()
            page = page[table[page] >= 0]
            lru.clock[row, head] += 1
            used = table[page] >= begin
            stamp[(table[page[used]] - begin).long()] = lru.clock[row, head]
            new = page[~used]
            age = torch.where(owner >= 0, lru.clock[row, head] - stamp, torch.iinfo(torch.int32).max)
            oldest = age.sort(descending=True, stable=True).indices[: len(new)].sort().values
            left = owner[oldest][owner[oldest] >= 0]
            table[left.long()] = begin - lru.ring + left % lru.ring
            table[new] = (begin + oldest).int()
            owner[oldest], stamp[oldest] = new.int(), lru.clock[row, head]
            lru.pages[row, head, : len(new)], lru.slots[row, head, : len(new)] = new.int(), (begin + oldest).int()
            lru.missing[row, head] = len(new)
            lru.hits[row, head] += int(used.sum())
            lru.misses[row, head] += len(new)


def plan_fetch(lru: Lru, source: Tensor, source_table: Tensor, target: Tensor) -> Launch:
    """Copy the pages that the last update found missing into their slots of `target` `[slots, PAGE, D]`, from where
    source_table `[B, G, P]` has them in `source` `[slots, PAGE, D]`; those it has not are left out. ValueError where
    types or page sizes differ."""
    if source.dtype != target.dtype or source.shape[1:] != target.shape[1:]:
        raise ValueError(f"pages of {source.shape[1:]} {source.dtype} to {target.shape[1:]} {target.dtype}")
    lists, room = lru.missing.numel(), lru.pages.shape[2]
    page_words = words(source).shape[1]
    width = triton.next_power_of_2(page_words)
    tile = max(1, _TILE_BYTES // (4 * width))
    overlap = overlaps(lru.table.device)
    return Launch(
        lru_kernel.fetch,
        (min(triton.cdiv(room, tile), max(4, _PROGRAMS // lists)), lists),
        {
            "source": words(source),
            "target": words(target),
            "source_table": source_table,
            "pages": lru.pages,
            "slots": lru.slots,
            "missing": lru.missing,
            "table_pages": source_table.shape[2],
        },
        {"N": room, "WORDS": page_words, "WIDTH": width, "TILE": tile, "OVERLAP": overlap},
        overlap=overlap,
    )


fetch = runs(plan_fetch)


def fetch_plain(lru: Lru, source: Tensor, source_table: Tensor, target: Tensor) -> None:
    """`fetch` in plain PyTorch."""
    for row, head in torch.cartesian_prod(*map(torch.arange, lru.missing.shape)).tolist():
        number = int(lru.missing[row, head])
        of = source_table[row, head][lru.pages[row, head, :number].long()].long()
        to = lru.slots[row, head, :number].long()
        target[to[of >= 0]] = source[of[of >= 0].to(source.device)].to(target.device)
