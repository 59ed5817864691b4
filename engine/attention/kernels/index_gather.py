"""A sequence's codes, copied in order: every block of a prompt's piece reads them, and so they are read faster."""

import torch
import triton
import triton.language as tl

from unabridged.engine.attention.kernels.index import Codes, Index
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.models.kernels.launch import Argument, Launch, runs

# Pages that a program copies.
_PAGES = 32


def room(index: Index) -> Codes:
    """Room for the codes of any sequence; undefined yet."""
    shape = index.codes.shape[0], index.pages, PAGE, index.width
    codes = torch.empty(shape, dtype=torch.uint8, device=index.codes.device)
    return Codes(codes, torch.empty(shape[:3], dtype=torch.uint8, device=codes.device), index.basis)


def plan_gather(index: Index, sequence: int, end: int, out: Codes) -> Launch:
    """Copy the pages of a sequence's positions [0, end), or as many as its table has, to the beginning of `out` (see
    `room`). Pages that are not there become another's."""
    heads, pages = index.codes.shape[:2]
    count = min(triton.cdiv(end, PAGE), index.pages)
    arguments: dict[str, Argument] = {
        # As words of four bytes.
        "codes": index.codes.view(torch.int32),
        "scales": index.scales.view(torch.int32),
        "table": index.table[sequence],
        "out_codes": out.codes.view(torch.int32),
        "out_scales": out.scales.view(torch.int32),
        "pages": pages,
        "out_pages": out.pages,
        "count": count,
    }
    constants = {"CODES": PAGE * index.width // 4, "SCALES": PAGE // 4, "PAGES": _PAGES}
    return Launch(_gather, (triton.cdiv(count, _PAGES), heads), arguments, constants)


gather = runs(plan_gather)


def gather_plain(index: Index, sequence: int, end: int, out: Codes) -> None:
    """The same in plain PyTorch."""
    count = min(triton.cdiv(end, PAGE), index.pages)
    pages = index.table[sequence, :count].clamp(min=0).long()
    out.codes[:, :count], out.scales[:, :count] = index.codes[:, pages], index.scales[:, pages]


@triton.jit
def _gather(
    codes, scales, table, out_codes, out_scales, pages, out_pages, count,
    CODES: tl.constexpr, SCALES: tl.constexpr, PAGES: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    page = tl.program_id(0) * PAGES + tl.arange(0, PAGES)
    there = page < count
    source = (head * pages + tl.maximum(tl.load(table + page, there, other=0), 0))[:, None]
    target = (head * out_pages + page)[:, None]
    word = tl.arange(0, CODES)
    tl.store(out_codes + target * CODES + word, tl.load(codes + source * CODES + word, there[:, None]), there[:, None])
    word = tl.arange(0, SCALES)
    scale = tl.load(scales + source * SCALES + word, there[:, None])
    tl.store(out_scales + target * SCALES + word, scale, there[:, None])
