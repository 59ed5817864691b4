"""The geometry of Llama 3.1 8B, and random caches of it for the attention benchmark.

Queries, keys and values have unit variance, so that scores spread as wide as the head dimension makes them. Slots of a
bank are permuted: no access profits from an order that a served cache would not have.
"""

import torch
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.index import Index, encode
from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.stages import LayerCache

LAYERS, H, G, D = 32, 32, 8, 128
WINDOW = 131072
# Positions past a context's length that its cache has room for.
ROOM = 8192
# Steps of the index's quantisers for numbers of unit variance, by plane; a key of average length has the length 1.
_STEPS = (0.33, 0.99, 1.6, 1.6)


def rope(length: int) -> RopeTables:
    """Angles of every position that a run reaches; the model's own scaling costs nothing and is left out."""
    return RopeTables.of(500000.0 ** (-torch.arange(0, D, 2).double() / D), length + ROOM + PAGE, "cuda")


def cache(length: int, dtype: torch.dtype, seed: int, permuted: bool = True, indexed: bool = True) -> LayerCache:
    """One layer's cache with `length` tokens and their index."""
    torch.manual_seed(seed)
    pages = (length + ROOM) // PAGE
    slots = G * pages
    order = torch.randperm(slots, device="cuda") if permuted else torch.arange(slots, device="cuda")
    table = order.int().view(1, G, pages)
    ones = torch.ones(G, device="cuda")
    bank = Bank(_random(slots, dtype), _random(slots, dtype), table, table, ones, ones)
    return LayerCache(bank, _index(bank, length, permuted) if indexed else None)


def _random(slots: int, dtype: torch.dtype) -> Tensor:
    out = torch.empty(slots, PAGE, D, dtype=dtype, device="cuda")
    for part in out.split(1 << 16):
        part.copy_(torch.randn(part.shape, dtype=torch.bfloat16, device="cuda"))
    return out


def _index(bank: Bank, length: int, permuted: bool) -> Index:
    width = width_of(D)
    turned = torch.linalg.qr(torch.randn(G, D, D, device="cuda")).Q[:, :, : 4 * width]
    steps = torch.tensor(_STEPS, device="cuda").repeat_interleave(width)
    mean, weights = torch.zeros(G, D, device="cuda"), (steps.square() / steps.numel()).expand(G, -1).contiguous()
    basis = Basis(mean, (turned / steps).contiguous(), (turned * steps).contiguous(), weights)
    pages = bank.k_table.shape[2]
    order = torch.randperm(pages, device="cuda") if permuted else torch.arange(pages, device="cuda")
    index = Index.empty(pages, order.int()[None], basis)
    start, end = torch.tensor([[0], [length]], dtype=torch.int32, device="cuda").unbind(0)
    encode(bank, index, start, end, length)
    return index


def tokens(count: int, layers: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """q `[layers, count, H, D]`, k and v `[layers, count, G, D]`, bfloat16."""
    q, k, v = (torch.randn(layers, count, n, D, dtype=torch.bfloat16, device="cuda") for n in (H, G, G))
    return q, k, v
