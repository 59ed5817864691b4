"""The next token of each row of a decode step, chosen on the GPU: what `engine.sampling.Sampler` does, from parameters
that lie there too, so that steps can be queued before tokens are known.

Order: the repetition penalty on logits of seen tokens; temperature; of the k largest those that reach min-p times the
likeliest, up to the first with which they hold top-p of the k's mass; of equal ones the lower id first. Temperature 0
takes the largest. The draw depends on the row's logits, seed and step only, whatever other rows there are.

Three launches. `survey` finds each split's largest value and, for rows that draw, counts values in bins; greedy rows
are done but for the comparison of splits, and `collect` leaves them alone. For others it knows the bin where the tokens
that may stay end, and lists those down to it; `settle` searches the cut among them and draws. Lists are short unless a
distribution is flat: 128K tokens are as right as ten and take longer.
"""

import secrets
from collections.abc import Iterable

import torch
import triton
from torch import Tensor

from unabridged.engine.events import Sampling
from unabridged.engine.gpu.kernels.sample_kernel import collect, survey
from unabridged.engine.gpu.kernels.settle_kernel import settle
from unabridged.engine.sampling import check
from unabridged.models.kernels.launch import Argument, Launch, runs

BLOCK = 2048
# Bins of half a unit of log-probability, 32 units down from the likeliest: nothing that matters lies below.
BINS, FINE = 64, 2
# Keys that `settle` looks at together, in short lists and in others.
_SHORT, _TILE = 256, 1024


class SampleState:
    """What the rows of a batch sample with, on their device. The tensors stay where they are; the setters are queued on
    the current stream and wait for nothing.

    temperature (0: greedy), top_p, min_p, penalty float32 `[B]`; top_k int32 `[B]`, less than V (0: all); seed int64
    `[B]`; step int32 `[B]`: tokens that the row has drawn. seen uint8 `[B, V]`: 1 for tokens that the penalty counts,
    kept up to date for rows whose penalty is not 1.
    """

    def __init__(self, rows: int, vocabulary: int, device: torch.device | str) -> None:
        """All rows greedy."""

        def full(value: float, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.full((rows,), value, dtype=dtype, device=device)

        self.temperature, self.top_p, self.min_p, self.penalty = full(0.0), full(1.0), full(0.0), full(1.0)
        self.top_k, self.seed, self.step = full(0, torch.int32), full(0, torch.int64), full(0, torch.int32)
        self.seen = torch.zeros(rows, vocabulary, dtype=torch.uint8, device=device)
        self.scratch = _scratch(rows, vocabulary, device)

    def set_row(self, row: int, sampling: Sampling, seen: Iterable[int] = (), step: int = 0) -> None:
        """The row's next token is drawn as `sampling` says, as its `step`th. `seen`: tokens of the prompt and the
        answer so far, for the repetition penalty. Without a seed it takes one at random. Raises BadRequest."""
        check(sampling)
        self.temperature[row] = sampling.temperature
        self.top_p[row] = sampling.top_p
        self.min_p[row] = sampling.min_p
        self.penalty[row] = sampling.repetition_penalty
        self.top_k[row] = sampling.top_k if sampling.top_k < self.seen.shape[1] else 0
        seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        self.seed[row] = (seed + 2**63) % 2**64 - 2**63
        self.step[row] = step
        self.seen[row] = 0
        if sampling.repetition_penalty != 1.0:
            ids = torch.tensor(sorted(set(seen)), dtype=torch.int64)
            self.seen[row, ids.to(self.seen.device, non_blocking=True)] = 1

    def clear_row(self, row: int) -> None:
        """Greedy again, with nothing seen."""
        self.set_row(row, Sampling(seed=0))


def _scratch(rows: int, vocabulary: int, device: torch.device | str) -> dict[str, Tensor]:
    """What the launches hand on: of each split the largest value, the first token that has it, the sum of exponentials,
    counts of its bins; of each row the keys and tokens collected, their number, a bound below them, and where among
    them to draw if all stay."""
    splits = triton.cdiv(vocabulary, BLOCK)

    def empty(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.empty(rows, *shape, dtype=dtype, device=device)

    return {
        "peaks": empty(splits, dtype=torch.float32),
        "firsts": empty(splits),
        "totals": empty(splits, dtype=torch.float32),
        "counts": empty(splits, BINS),
        "keys": empty(vocabulary),
        "tokens": empty(vocabulary),
        "numbers": empty(),
        "leasts": empty(),
        "aims": empty(dtype=torch.float32),
    }


def plan_sample(logits: Tensor, state: SampleState, out: Tensor) -> tuple[Launch, ...]:
    """out[b] = the next token of row b, which its state then has seen and counted.

    logits `[B, V]` float16, bfloat16 or float32, out `[B]` int64, both contiguous; the state's B and V are these.
    """
    rows, vocabulary = logits.shape
    splits = triton.cdiv(vocabulary, BLOCK)
    known: dict[str, Argument] = {
        **state.scratch,
        "logits": logits,
        "seen": state.seen,
        "temperatures": state.temperature,
        "penalties": state.penalty,
        "top_ks": state.top_k,
        "top_ps": state.top_p,
        "min_ps": state.min_p,
        "seeds": state.seed,
        "steps": state.step,
        "out": out,
        "vocabulary": vocabulary,
        "splits": splits,
    }

    def launch(kernel: triton.JITFunction, grid: tuple[int, ...], constants: dict[str, int], warps: int = 8) -> Launch:
        names = [name for name in kernel.arg_names if name in known]
        return Launch(kernel, grid, {name: known[name] for name in names}, constants, warps)

    split = {"BLOCK": BLOCK, "BINS": BINS, "FINE": FINE}
    joined = {"SPLITS": triton.next_power_of_2(splits)}
    return (
        launch(survey, (splits, rows), split),
        launch(collect, (splits, rows), split | joined),
        launch(settle, (rows,), joined | {"SHORT": _SHORT, "TILE": _TILE}),
    )


sample = runs(plan_sample)
