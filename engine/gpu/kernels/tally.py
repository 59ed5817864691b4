"""How many decode steps fetched something over the bus: one small launch at the end of a step, so that nobody on the
host has to look at what each step counted."""

import triton
import triton.language as tl
from torch import Tensor

from unabridged.models.kernels.launch import Argument, Launch, runs

# Counts that a program adds up at a time.
_BLOCK = 1024


def plan_tally(counts: Tensor, before: Tensor, steps: Tensor) -> Launch:
    """counts `[2, 2, L, B, G]` int64: pages that were found and pages that were fetched so far (second index), of keys
    and of values, each layer and head. before `[B]` int64: what rows had fetched when it was last looked, which
    follows; steps `[B]` int64 grows by one for each row that has fetched since."""
    _, _, layers, rows, heads = counts.shape
    arguments: dict[str, Argument] = {"counts": counts, "before": before, "steps": steps, "rows": rows}
    return Launch(_tally, (rows,), arguments, {"N": layers * heads, "G": heads, "BLOCK": _BLOCK})


tally = runs(plan_tally)


def tally_plain(counts: Tensor, before: Tensor, steps: Tensor) -> None:
    """The same in plain PyTorch."""
    now = counts[:, 1].sum((0, 1, 3))
    steps += now != before
    before.copy_(now)


@triton.jit
def _tally(counts, before, steps, rows, N: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int64)
    for at in range(0, 2 * N, BLOCK):
        i = at + tl.arange(0, BLOCK)
        # Half i // N, of it what was fetched; layer and head of the rest.
        place = ((2 * (i // N) + 1) * (N // G) + i % N // G) * rows + row
        total += tl.load(counts + place.to(tl.int64) * G + i % G, mask=i < 2 * N, other=0)
    now = tl.sum(total, 0)
    grown = now != tl.load(before + row)
    tl.store(steps + row, tl.load(steps + row) + grown.to(tl.int64))
    tl.store(before + row, now)
