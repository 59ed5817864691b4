"""Steps that fetched: counted a row at a time, as in plain PyTorch."""

import pytest
import torch

from unabridged.engine.gpu.kernels.tally import tally, tally_plain


@pytest.mark.parametrize(("layers", "rows", "heads"), [(1, 1, 1), (5, 3, 3), (32, 8, 8), (80, 2, 8)])
def test_a_step_counts_for_the_rows_that_fetched(layers: int, rows: int, heads: int, device: str) -> None:
    random = torch.Generator().manual_seed(1)
    counts = torch.zeros(2, 2, layers, rows, heads, dtype=torch.int64)
    mine, theirs = (torch.zeros(2, rows, dtype=torch.int64).unbind(0) for _ in range(2))
    mine = tuple(one.to(device) for one in mine)
    expected = torch.zeros(rows, dtype=torch.int64)
    for step in range(6):
        # What is found does not count, and one page of one head does.
        counts[:, 0] += torch.randint(0, 9, counts[:, 0].shape, generator=random)
        fetching = torch.rand(rows, generator=random) < 0.5 if step else torch.zeros(rows, dtype=torch.bool)
        for row in fetching.nonzero().flatten().tolist():
            counts[step % 2, 1, (3 * step) % layers, row, step % heads] += 1 << 33
        expected += fetching
        tally(counts.to(device), *mine)
        tally_plain(counts, *theirs)
    assert mine[1].tolist() == theirs[1].tolist() == expected.tolist()
    assert mine[0].tolist() == theirs[0].tolist() == counts[:, 1].sum((0, 1, 3)).tolist()
