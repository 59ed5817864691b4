"""Token ids on their way from the device to the host: what steps chose, in order, without waiting for later ones."""

from collections import deque

import torch
from torch import Tensor

# Steps under way at most: one runs, one waits behind it, and one is being collected.
DEPTH = 4


class Results:
    """Copies of `ids` `[B]`, one a step."""

    def __init__(self, ids: Tensor) -> None:
        """`ids`: the tensor that every step leaves its tokens in."""
        self._ids, cuda = ids, ids.is_cuda
        self._places = [torch.empty(ids.shape, dtype=ids.dtype, pin_memory=cuda) for _ in range(DEPTH)]
        self._copied = [torch.cuda.Event() if cuda else None for _ in range(DEPTH)]
        self._free, self._waiting = deque(range(DEPTH)), deque[int]()

    def __len__(self) -> int:
        """Steps that were not taken yet."""
        return len(self._waiting)

    def put(self) -> None:
        """Queue a copy of the ids as they are when the stream comes to it. IndexError: DEPTH wait already."""
        place = self._free.popleft()
        self._places[place].copy_(self._ids, non_blocking=True)
        if (copied := self._copied[place]) is not None:
            copied.record()
        self._waiting.append(place)

    def take(self) -> list[int]:
        """The oldest step's ids; waits for it alone. IndexError: none is under way."""
        place = self._waiting.popleft()
        if (copied := self._copied[place]) is not None:
            copied.synchronize()
        self._free.append(place)
        ids: list[int] = self._places[place].tolist()
        return ids
