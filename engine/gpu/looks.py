"""Where one decode step of an answer looked, on its way from the device to the host."""

import torch
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.witness import LARGEST


class Look:
    """The pages of a span that got most of a step's attention. Made behind the step, read when its token is."""

    def __init__(self, masses: Tensor, span: range) -> None:
        """`masses` `[P]`: of each page, on the device, computed in stream order. `span`: positions, whole pages."""
        self._first = span.start // PAGE
        own = masses[self._first : span.stop // PAGE]
        values, pages = own.topk(min(LARGEST, len(own)))
        shares = values / own.sum().clamp(min=torch.finfo(own.dtype).tiny)
        self._shares = torch.empty(shares.shape, dtype=shares.dtype, pin_memory=shares.is_cuda)
        self._pages = torch.empty(pages.shape, dtype=pages.dtype, pin_memory=pages.is_cuda)
        self._shares.copy_(shares, non_blocking=True)
        self._pages.copy_(pages, non_blocking=True)
        self._copied = torch.cuda.Event() if shares.is_cuda else None
        if self._copied is not None:
            self._copied.record()

    def read(self) -> tuple[tuple[int, float], ...]:
        """(first position of a page, its share of the span's mass), largest first. Waits for the step alone."""
        if self._copied is not None:
            self._copied.synchronize()
        pairs = zip(self._pages.tolist(), self._shares.tolist(), strict=True)
        return tuple(((self._first + page) * PAGE, share) for page, share in pairs if share > 0.0)
