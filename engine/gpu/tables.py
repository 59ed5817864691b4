"""Where the tokens of several sequences lie in the GPU's pool: runs of slots to the tables that kernels read."""

from collections.abc import Sequence

import torch

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.kv.blocks import Run


class Tables:
    """Of positions 16p..16p+15 of each row, -1 for none: the bank's slot of each head, `slots` `[R, G, P]`, and the
    pool's page, `pages` `[R, P]`, both int32. The tensors stay where they are while rows change, so that recorded steps
    read them."""

    def __init__(self, rows: int, kv_heads: int, room: int, device: torch.device | str) -> None:
        """`room`: tokens that a row may have at most."""
        self.slots = torch.full((rows, kv_heads, -(-room // PAGE)), -1, dtype=torch.int32, device=device)
        self.pages = torch.full((rows, self.slots.shape[2]), -1, dtype=torch.int32, device=device)
        self._heads = torch.arange(kv_heads, dtype=torch.int32, device=device)[:, None]
        self._tokens = [0] * rows

    @property
    def room(self) -> int:
        """Tokens that a row may have at most."""
        return self.slots.shape[2] * PAGE

    def reserved(self, row: int) -> int:
        """Tokens that a row has slots for."""
        return self._tokens[row]

    def put(self, row: int, runs: Sequence[Run]) -> None:
        """Give a row these runs instead of its own. See `extend`."""
        self.clear(row)
        self.extend(row, runs)

    def extend(self, row: int, runs: Sequence[Run]) -> None:
        """Runs behind a row's own. Positions run on from page to page: only the last run may end inside one. ValueError
        where another does, and where the room is exceeded."""
        for run in runs:
            at = self._tokens[row]
            if at % PAGE:
                raise ValueError(f"a run of {run.length} tokens behind {at}: only a last run ends inside a page")
            if at + run.length > self.room:
                raise ValueError(f"{at + run.length:,} tokens in a row with room for {self.room:,}")
            self._tokens[row] += run.length
        pages = [torch.arange(run.start // PAGE, -(-(run.start + run.length) // PAGE)) for run in runs]
        if pages:
            new = torch.cat(pages).int().to(self.slots.device, non_blocking=True)
            first = -(-self._tokens[row] // PAGE) - len(new)
            self.pages[row, first : first + len(new)] = new
            self.slots[row, :, first : first + len(new)] = new * len(self._heads) + self._heads

    def clear(self, row: int) -> None:
        """A row without a sequence: nothing is stored for it."""
        self.slots[row] = self.pages[row] = -1
        self._tokens[row] = 0
