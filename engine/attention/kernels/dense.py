"""Dense attention with true positions, for prompts inside the trained window: a library's kernel over gathered keys.

`attend_dense` gathers a sequence's keys, rotated, and values into contiguous tensors with one small kernel, rotates the
queries with another, and leaves the attention to cuDNN (FlashAttention for heads over 128, and on the CPU). New queries
behind an existing prefix are two calls merged by their log-sums: libraries are causal only where queries and keys begin
together. Allocates; the host knows the positions.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from unabridged.engine.attention.kernels.layout import PAGE, Bank
from unabridged.engine.attention.kernels.rope import RopeTables, angles, turn
from unabridged.models.kernels.launch import Argument, Launch

# Positions that a program gathers or rotates.
_TILE = 64


def attend_dense(q: Tensor, bank: Bank, sequence: int, first: int, rope: RopeTables, out: Tensor) -> None:
    """Attend with the T queries q `[T, H, D]` at positions first..first+T-1 to everything up to each of them.

    Their own keys are in the bank already. Writes out `[T, H, D]`.
    """
    tokens, heads, dim = q.shape
    turned = q.new_empty(heads, tokens, dim)
    plan_rotate(q, first, rope, turned).run()
    k, v = (q.new_empty(bank.heads, first + tokens, dim) for _ in range(2))
    plan_gather(bank, sequence, rope, k, v).run()
    result, lse = _attend(turned, k[:, first:], v[:, first:], causal=True)
    if first:
        before, before_lse = _attend(turned, k[:, :first], v[:, :first], causal=False)
        # Shares e^a / (e^a + e^b). Both of them, and in float32: the shorter part's values are the larger ones, so that
        # an error of 1 - share beside its little share would count.
        own = torch.sigmoid(lse - before_lse)[..., None]
        result = result.mul_(own).addcmul_(before, torch.sigmoid(before_lse - lse)[..., None])
    out.copy_(result.transpose(0, 1))


def plan_gather(bank: Bank, sequence: int, rope: RopeTables, k: Tensor, v: Tensor) -> Launch:
    """The launch that reads a sequence's first N keys, rotated, and values into k, v `[G, N, D]`."""
    arguments: dict[str, Argument] = {
        "keys": bank.k,
        "values": bank.v,
        "k_table": bank.k_table[sequence],
        "v_table": bank.v_table[sequence],
        "k_scale": bank.k_scale,
        "v_scale": bank.v_scale,
        "pages": bank.k_table.shape[2],
        "near": rope.near,
        "far": rope.far,
        "k": k,
        "v": v,
        "tokens": k.shape[1],
    }
    constants = {"D": bank.head_dim, "PAGE": PAGE, "TILE": _TILE}
    return Launch(_gather, (triton.cdiv(k.shape[1], _TILE), bank.heads), arguments, constants)


def plan_rotate(q: Tensor, first: int, rope: RopeTables, turned: Tensor) -> Launch:
    """The launch that turns q `[T, H, D]` by positions from `first` on, into turned `[H, T, D]`."""
    tokens, heads, dim = q.shape
    arguments: dict[str, Argument] = {
        "q": q,
        "first": first,
        "near": rope.near,
        "far": rope.far,
        "turned": turned,
        "tokens": tokens,
    }
    constants = {"H": heads, "D": dim, "TILE": _TILE}
    return Launch(_rotate, (triton.cdiv(tokens, _TILE), heads), arguments, constants)


def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """q `[H, T, D]`, k and v `[G, N, D]`: outputs `[H, T, D]` and log-sums `[H, T]` float32."""
    q, k, v = q[None], k[None], v[None]
    if q.device.type == "cpu":
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        result, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    elif q.dtype == torch.float32:
        # Neither of the two below takes float32, and cuDNN does not say so.
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        attend = torch.ops.aten._scaled_dot_product_efficient_attention
        result, lse = attend(q, k, v, None, True, 0.0, causal)[:2]
        lse = lse[:, :, : q.shape[2]]
    elif q.shape[3] <= 128:
        result, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal)[:2]
    else:
        result, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[:2]
    return result[0], lse.reshape(q.shape[1:3])


@triton.jit
def _gather(
    keys, values, k_table, v_table, k_scale, v_scale, pages, near, far, k, v, tokens,
    D: tl.constexpr, PAGE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    F: tl.constexpr = D // 2
    head = tl.program_id(1)
    position = tl.program_id(0) * TILE + tl.arange(0, TILE)
    real = position < tokens
    f = tl.arange(0, triton.next_power_of_2(F))[None, :]
    d = tl.arange(0, triton.next_power_of_2(D))[None, :]
    page = head * pages + position // PAGE
    slot = tl.load(k_table + page, mask=real, other=0).to(tl.int64)
    at = keys + ((slot * PAGE + position % PAGE) * D)[:, None]
    halves = real[:, None] & (f < F)
    low = tl.load(at + f, mask=halves, other=0.0).to(tl.float32)
    high = tl.load(at + F + f, mask=halves, other=0.0).to(tl.float32)
    cos, sin = angles(near, far, tl.where(real, position, 0)[:, None], tl.minimum(f, F - 1), F, True)
    low, high = turn(low, high, cos, sin)
    scale = tl.load(k_scale + head)
    to = ((head.to(tl.int64) * tokens + position) * D)[:, None]
    tl.store(k + to + f, (low * scale).to(k.dtype.element_ty), mask=halves)
    tl.store(k + to + F + f, (high * scale).to(k.dtype.element_ty), mask=halves)
    slot = tl.load(v_table + page, mask=real, other=0).to(tl.int64)
    whole = real[:, None] & (d < D)
    value = tl.load(values + ((slot * PAGE + position % PAGE) * D)[:, None] + d, mask=whole, other=0.0).to(tl.float32)
    tl.store(v + to + d, (value * tl.load(v_scale + head)).to(v.dtype.element_ty), mask=whole)


@triton.jit
def _rotate(q, first, near, far, turned, tokens, H: tl.constexpr, D: tl.constexpr, TILE: tl.constexpr):
    F: tl.constexpr = D // 2
    head = tl.program_id(1)
    token = tl.program_id(0) * TILE + tl.arange(0, TILE)
    real = token < tokens
    f = tl.arange(0, triton.next_power_of_2(F))[None, :]
    halves = real[:, None] & (f < F)
    at = q + ((token.to(tl.int64) * H + head) * D)[:, None]
    low = tl.load(at + f, mask=halves, other=0.0).to(tl.float32)
    high = tl.load(at + F + f, mask=halves, other=0.0).to(tl.float32)
    position = first + tl.where(real, token, 0)
    cos, sin = angles(near, far, position[:, None], tl.minimum(f, F - 1), F, True)
    low, high = turn(low, high, cos, sin)
    to = turned + ((head.to(tl.int64) * tokens + token) * D)[:, None]
    tl.store(to + f, low.to(turned.dtype.element_ty), mask=halves)
    tl.store(to + F + f, high.to(turned.dtype.element_ty), mask=halves)
