"""Dense attention that the sparse one is measured against: torch's backends on flat bfloat16, our own split over keys.

A flat tensor `[1, G, n, D]` is a bank whose slots are in order: one copy of the data serves both.
"""

from collections.abc import Callable, Iterator

import torch
from benchmarks.attention_data import ROOM, D, G, H, cache, rope, tokens
from benchmarks.gpu import eager_time, graph_time, say
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from unabridged.engine.attention.kernels.attend_decode import Cut, Scratch, attend_decode
from unabridged.engine.attention.kernels.layout import Bank, Rows
from unabridged.engine.attention.stages import LayerCache

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}


class Dense:
    """One layer of `length` tokens in bfloat16: contexts are far larger than any cache of the card, so one will do."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.cache = cache(length, torch.bfloat16, seed=0, permuted=False, indexed=False)
        self.k, self.v = (x.view(1, G, length + ROOM, D)[:, :, :length] for x in (self.cache.bank.k, self.cache.bank.v))

    def decode(self) -> Iterator[tuple[str, float]]:
        """Seconds a layer of one token, by implementation; those that this card or library cannot run are left out."""
        q = tokens(1)[0].view(1, H, 1, D)
        for name, backend in BACKENDS.items():

            def attend(backend: SDPBackend = backend) -> None:
                with sdpa_kernel(backend):
                    scaled_dot_product_attention(q, self.k, self.v, enable_gqa=True)

            try:
                yield f"{name} bf16", graph_time(attend)
            except RuntimeError as error:
                say(f"dense decode, {name}: {_first_line(error)}")
        yield "own split-KV bf16", own_decode(self.cache, self.length)

    def prefill(self, queries: int) -> Iterator[tuple[str, float]]:
        """Seconds a layer of `queries` tokens at the context's end: what lies before them without a mask, their own
        keys with the causal one, merged by their sums."""
        q = tokens(queries)[0].transpose(1, 2)
        before, own = slice(None, self.length - queries), slice(self.length - queries, None)
        parts = [(self.k[:, :, at], self.v[:, :, at], causal) for at, causal in ((before, False), (own, True))]
        kinds: dict[str, Callable[[Tensor, Tensor, Tensor, bool], Found]] = {"cuDNN": _cudnn, "FlashAttention": _flash}
        for name, attend in kinds.items():

            def both(attend: Callable[[Tensor, Tensor, Tensor, bool], Found] = attend) -> Tensor:
                return _merge(*(attend(q, k, v, causal) for k, v, causal in parts if k.shape[2]))

            try:
                yield f"{name} bf16", eager_time(both, repeats=1 if self.length > 1 << 21 else 2)
            except RuntimeError as error:
                say(f"dense prefill, {name}: {_first_line(error)}")


def own_decode(layer: LayerCache, length: int) -> float:
    """Seconds a layer of our own attention without selection: limits of 0 make every key stream."""
    bank: Bank = layer.bank
    q = tokens(1)[0].view(1, 1, H, D)
    out, lse = torch.empty_like(q), torch.empty(1, H, device="cuda")
    ints = [torch.tensor([value], dtype=torch.int32, device="cuda") for value in (0, length - 1, 0, 1)]
    rows = Rows(*ints)
    scratch, angles = Scratch.of(q, G, Cut.of(length, G, D).splits), rope(length)

    def attend() -> None:
        for _ in range(4):
            attend_decode(q, rows, bank, None, 16, 256, "streaming", angles, out, lse, scratch, capacity=length)

    return graph_time(attend) / 4


Found = tuple[Tensor, Tensor]


def _cudnn(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Found:
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)
    return found[0], found[1].view(*q.shape[:3], 1)


def _flash(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Found:
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
    return found[0], found[1].view(*q.shape[:3], 1)


def _merge(first: Found, *then: Found) -> Tensor:
    out, lse = first
    for other, other_lse in then:
        out = torch.lerp(out, other, (other_lse - lse).sigmoid().to(out.dtype))
    return out


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:160]
