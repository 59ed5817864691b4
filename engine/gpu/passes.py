"""How much a forward pass reads: tokens of a piece, and which contexts together.

Where the pool lies in the host, all that is stored of a context is brought to the GPU for each of its pieces. Behind a
long past pieces are therefore long, so that computing takes about as long as that. While answers are under way pieces
are short as elsewhere: blocks of few queries read a pool in place (`prefill`), and nobody waits for the whole of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from unabridged.engine.attention.limits import CONTEXTS, PAGE, PIECE
from unabridged.engine.gpu.staging import Span, Staging

# Tokens of a piece while answers are under way: they wait for it.
_SMALL = 512
# Stored tokens that come over the bus in the time in which one token is computed, about: of Llama 3.1 8B on an H200.
_BALANCE = 40
T = TypeVar("T")


@dataclass(frozen=True)
class Streaming:
    """How passes read a pool in the host. `staged`: tokens that staging holds (plan.kv), room for one context at
    least: longer ones are read in place, slowly. Behind a long past a piece takes up to `longest` tokens, one for each
    `balance` stored ones."""

    staged: int
    longest: int = PIECE
    balance: int = _BALANCE


class Passes:
    """See the module."""

    def __init__(self, chunk: int, staging: Staging | None, streaming: Streaming) -> None:
        """`chunk`: tokens of a piece at most, where the past does not ask for more. `staging`: of a pool in the
        host."""
        self._chunk, self._staging, self._streaming = chunk, staging, streaming
        self._most = chunk if staging is None else max(chunk, streaming.longest)

    def chunk(self, decoding: bool) -> int:
        """Tokens of a pass at most; see `least`."""
        return min(self._chunk, _SMALL) if decoding else self._chunk

    def least(self, past: int, left: int, decoding: bool) -> int:
        """Tokens behind `past` stored ones that a pass may take whatever else it should, where `left` are to be read.
        These come in pieces of one length: a short last one would have as much streamed as the others."""
        wanted = past // self._streaming.balance
        if self._staging is None or decoding or not wanted:
            return 0
        # At the end of what staging holds, too: pieces of a few thousand tokens would stream all of it for each.
        most = min(self._streaming.longest, self._staging.pages * PAGE - past)
        if most <= 0:
            return 0
        return min(most, -(-left // max(1, left // wanted, -(-left // most))))

    def split(self, parts: Sequence[tuple[T, Span]]) -> Iterator[list[T]]:
        """These in order, as many at a time as a pass takes."""
        some: list[tuple[T, Span]] = []
        for part in parts:
            if some and not self._together([span for _, span in (*some, part)]):
                yield [one for one, _ in some]
                some = []
            some.append(part)
        if some:
            yield [one for one, _ in some]

    def _together(self, spans: Sequence[Span]) -> bool:
        if len(spans) > CONTEXTS or sum(span.end - span.start for span in spans) > self._most:
            return False
        return self._staging is None or self._staging.fits(spans)
