"""Stop strings in a stream of text: what is certain to be part of the answer, and whether a stop string ended it.

Text comes in pieces that end anywhere. A piece's tail that could still grow into a stop string is held back until it
is certain; the stop string itself is never part of the answer.
"""

from collections.abc import Iterable
from typing import Protocol


class StopText:
    """Withholds what may become a stop string and ends at the first one that completes.

    Of several stop strings the one that begins earliest in the text wins; an empty stop string never matches.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> tuple[str, bool]:
        """Add a piece; returns the text that became certain and whether the answer ended with it."""
        if self.stopped:
            return "", True
        self._held += text
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            certain, self._held = self._held[: min(found)], ""
        else:
            keep = self._unsure()
            certain, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return certain, self.stopped

    def flush(self) -> str:
        """The text still held back, when the answer ended for another reason."""
        held, self._held = self._held, ""
        return held

    def _unsure(self) -> int:
        """Length of the longest tail of the held text that begins some stop string."""
        longest = min(len(self._held), max((len(stop) - 1 for stop in self._stops), default=0))
        for length in range(longest, 0, -1):
            tail = self._held[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0


class Decoder(Protocol):
    """Token ids to text, as `models.tokenizer.StreamDecoder` does it."""

    def push(self, id: int) -> str:
        """Text that became certain with this id."""
        ...

    def flush(self) -> str:
        """Text of the bytes still held back."""
        ...


class AnswerText:
    """Ids in, pieces of text with the ids behind them out; nothing that may still change leaves early."""

    def __init__(self, decoder: Decoder, stops: Iterable[str]) -> None:
        self._decoder = decoder
        self._stop = StopText(stops)
        self._ids: list[int] = []

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the answer."""
        return self._stop.stopped

    def push(self, id: int) -> tuple[str, tuple[int, ...]] | None:
        """Add a token; the piece that became certain, if any."""
        self._ids.append(id)
        text, _ = self._stop.push(self._decoder.push(id))
        return self._piece(text) if text else None

    def finish(self) -> tuple[str, tuple[int, ...]] | None:
        """The last piece; its text may be empty when only ids are left."""
        text, stopped = self._stop.push(self._decoder.flush())
        text = text if stopped else text + self._stop.flush()
        return self._piece(text) if text or self._ids else None

    def _piece(self, text: str) -> tuple[str, tuple[int, ...]]:
        ids, self._ids = tuple(self._ids), []
        return text, ids
