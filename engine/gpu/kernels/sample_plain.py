"""`sample` in plain PyTorch, by sorting: the same tokens from the same states."""

import torch
from torch import Tensor

from unabridged.engine.gpu.kernels.sample import SampleState

_WORD = 0xFFFFFFFF


def uniform(seed: int, step: int) -> float:
    """The random number in [0, 1) of a seed (64 bits) and a step: Philox 4x32, 10 rounds; 24 bits of its first word."""
    a, b, c, d = step & _WORD, 0, 0, 0
    low, high = seed & _WORD, seed >> 32 & _WORD
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ low, right & _WORD, (left >> 32) ^ d ^ high, left & _WORD
        low, high = (low + 0x9E3779B9) & _WORD, (high + 0xBB67AE85) & _WORD
    return (a >> 8) * 2.0**-24


def sample_plain(logits: Tensor, state: SampleState, out: Tensor) -> None:
    """See `plan_sample`."""
    for row in range(len(logits)):
        values = _values(logits[row], state, row)
        token = int(values.argmax()) if state.temperature[row] == 0 else _draw(values, state, row)
        out[row] = token
        state.seen[row, token] |= bool(state.penalty[row] != 1)
        state.step[row] += 1


def kept(values: Tensor, top_k: int, top_p: float, min_p: float) -> Tensor:
    """Which of the values `[V]` may be drawn."""
    top = values.max()
    order = values.sort(descending=True, stable=True).indices
    order = order[: top_k or len(order)]
    weights = (values[order] - top).double().exp()
    before = weights.cumsum(0) - weights
    stays = before < top_p * weights.sum() if top_p < 1 else weights >= 0
    if min_p > 0:
        stays &= values[order] >= top + torch.tensor(min_p).log()
    return torch.zeros(len(values), dtype=torch.bool, device=values.device).index_put((order,), stays)


def _values(logits: Tensor, state: SampleState, row: int) -> Tensor:
    penalty, temperature = state.penalty[row], state.temperature[row]
    values = logits.float().nan_to_num(-torch.inf, torch.inf, -torch.inf)
    seen = torch.where(values > 0, values / penalty, values * penalty)
    values = torch.where(state.seen[row].bool() & (penalty != 1), seen, values)
    return (values / temperature if temperature > 0 else values).clamp(-3e38, 3e38)


def _draw(values: Tensor, state: SampleState, row: int) -> int:
    stays = kept(values, int(state.top_k[row]), float(state.top_p[row]), float(state.min_p[row]))
    mass = torch.where(stays, (values - values.max()).double().exp(), 0.0).cumsum(0)
    aim = uniform(int(state.seed[row]), int(state.step[row])) * mass[-1]
    return int(torch.searchsorted(mass, aim, right=True))
