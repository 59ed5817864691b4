"""The choice of the next token from logits. Knows nothing of models or text; its random numbers are its own."""

from collections.abc import Iterable

import torch
from torch import Tensor

from unabridged.engine.errors import BadRequest
from unabridged.engine.events import Sampling

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
        values, ids = self._candidates(logits.float() / self._sampling.temperature)
        probabilities = values.softmax(-1)
        keep = torch.ones_like(probabilities, dtype=torch.bool)
        if self._sampling.top_p < 1.0:
            # A token stays while the mass before it is below top_p, so the first always does.
            keep &= probabilities.cumsum(-1) - probabilities < self._sampling.top_p
        if self._sampling.min_p > 0.0:
            keep &= probabilities >= self._sampling.min_p * probabilities[0]
        choice = torch.multinomial(probabilities * keep, 1, generator=self._random)
        return int(ids[choice])

    def _candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, largest first, and their ids."""
        top_k = self._sampling.top_k or len(logits)
        return logits.topk(min(top_k, len(logits)))
