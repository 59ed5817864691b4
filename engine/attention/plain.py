"""Dense attention of many queries over given keys, with what some models add to it: a cap on the scores, a window that
looks back over the newest keys only. Everything is rotated already.

H query heads, G key/value heads, g = H/G, T queries, N keys, D head dimension.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_mask(queries: int, keys: int, back: int = 0) -> Tensor:
    """`[queries, keys]`: 0 where a query may look, -inf elsewhere. The last query is the newest key; with `back` a
    query sees that many keys, its own included."""
    mask = torch.full((queries, keys), float("-inf")).triu_(keys - queries + 1)
    if back:
        mask.masked_fill_(torch.ones(queries, keys, dtype=torch.bool).tril_(keys - queries - back), float("-inf"))
    return mask


def capped(scores: Tensor, cap: float | None) -> Tensor:
    """`scores`, in place, as c tanh(scores / c). Mask afterwards: -inf becomes -c."""
    return scores if cap is None else scores.div_(cap).tanh_().mul_(cap)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, cap: float | None = None) -> Tensor:
    """q `[H, T, D]`, k and v `[G, N, D]`, mask `[T, N]`: `[H, T, D]`."""
    grouped = q.shape[0] != k.shape[0]
    if cap is None:
        return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, enable_gqa=grouped)[0]
    scale: float = q.shape[-1] ** -0.5
    out = torch.empty_like(q)
    group = q.shape[0] // k.shape[0]
    # A key/value head at a time: the scores of all heads at once would not fit into small memories.
    for head, (keys, values) in enumerate(zip(k, v, strict=True)):
        own = slice(head * group, (head + 1) * group)
        scores = capped(q[own] * scale @ keys.t(), cap).add_(mask)
        out[own] = scores.softmax(-1) @ values
    return out
