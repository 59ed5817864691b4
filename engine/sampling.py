"""The choice of the next token from logits. Knows nothing of models or text; its random numbers are its own."""

from collections.abc import Iterable

import torch
from torch import Tensor

from unabridged.engine.errors import BadRequest
from unabridged.engine.events import Sampling

_FEW = 512
_RANGES = {
    "temperature": (0.0, 10.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.1, 10.0),
}


def check(sampling: Sampling) -> None:
    """Raises BadRequest naming the field that is out of range."""
    for field, (low, high) in _RANGES.items():
        value = getattr(sampling, field)
        if not low <= value <= high:
            raise BadRequest(f"{field} = {value}", f"{field} lies between {low} and {high}")
    if sampling.top_p == 0.0:
        raise BadRequest("top_p = 0 keeps no token", "use temperature 0 for the likeliest token")
    if sampling.top_k < 0:
        raise BadRequest(f"top_k = {sampling.top_k}", "0 turns it off")
    if sampling.max_tokens < 1:
        raise BadRequest(f"max_tokens = {sampling.max_tokens}", "at least 1")
    if sampling.seed is not None and not -(2**63) <= sampling.seed < 2**64:
        raise BadRequest(f"seed = {sampling.seed}", "a 64-bit integer")


class Sampler:
    """One request's sampler. With a seed, the same logits give the same tokens."""

    def __init__(self, sampling: Sampling, seen: Iterable[int] = ()) -> None:
        """`seen`: tokens of the prompt, which the repetition penalty counts too."""
        check(sampling)
        self._sampling = sampling
        self._seen = set(seen) if sampling.repetition_penalty != 1.0 else set()
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def __call__(self, logits: Tensor) -> int:
        """logits `[V]` -> a token id."""
        logits = self._penalised(logits)
        token = int(logits.argmax()) if self._sampling.temperature == 0.0 else self._draw(logits)
        if self._sampling.repetition_penalty != 1.0:
            self._seen.add(token)
        return token

    def _penalised(self, logits: Tensor) -> Tensor:
        if not self._seen:
            return logits
        ids = torch.tensor(sorted(self._seen))
        penalty = self._sampling.repetition_penalty
        seen = logits[ids]
        return logits.index_copy(0, ids, torch.where(seen > 0, seen / penalty, seen * penalty))

    def _draw(self, logits: Tensor) -> int:
        values, ids = logits.float() / self._sampling.temperature, None
        if 0 < self._sampling.top_k < len(values):
            values, ids = values.topk(self._sampling.top_k)
        weights = values.softmax(-1)
        if self._sampling.min_p > 0.0:
            least = self._sampling.min_p * weights.max()
            weights = weights.where(weights >= least, 0.0)
        if self._sampling.top_p < 1.0:
            weights, order = _likeliest(weights, self._sampling.top_p)
            ids = order if ids is None else ids[order]
        # Double: the sum of a vocabulary's small weights loses nothing.
        mass = weights.cumsum(-1, dtype=torch.float64)
        place = torch.rand(1, generator=self._random, dtype=torch.float64) * mass[-1]
        choice = int(torch.searchsorted(mass, place, right=True).clamp_(max=len(mass) - 1))
        return choice if ids is None else int(ids[choice])


def _likeliest(weights: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The fewest weights that hold `top_p` of all, largest first, and where they stood."""
    # Sorting a vocabulary takes longer than a layer, and the first few hundred nearly always do.
    for count in (min(_FEW, len(weights)), len(weights)):
        some, order = weights.topk(count)
        mass = some.cumsum(-1)
        if float(mass[-1]) >= top_p:
            break
    # A token stays while the mass before it is below top_p, so the first always does.
    keep = mass - some < top_p
    return some[keep], order[keep]
