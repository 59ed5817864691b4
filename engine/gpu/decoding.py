"""Which answers decode in which batch, and whose token is whose.

An answer alone has a batch of one row; several share one of more rows, those inside the window and those past it apart,
because a step attends either way. Whoever needs a token first launches a step for all and reads out the oldest; the
others find theirs waiting. One step is always under way while tokens are turned to text.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unabridged.engine.attention.device import Taken
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.looks import Look
from unabridged.engine.gpu.resident import Traffic
from unabridged.engine.kv.blocks import Run

# Steps under way at most.
_AHEAD = 2
# Steps between two looks at where an answer's attention goes: each costs some twenty small launches.
_LOOKING = 8


@dataclass(eq=False)
class Answering:
    """A sequence that decodes. `length`: tokens whose KV is stored, as far as steps were read out; `tokens`: what its
    repetition penalty counts, the last of them not stored yet; `masks`: with which it goes on where it sits next;
    `span`: the positions whose attention is wanted, whole pages, empty for none; `traffic`: what it has had of a pool
    in host memory in the seats that it has left."""

    runs: list[Run]
    length: int
    tokens: list[int]
    sampling: Sampling
    masks: Sequence[Taken]
    span: range = range(0)
    waiting: deque[int] = field(default_factory=deque)
    look: Look | None = None
    seat: "tuple[DecodeBatch, int] | None" = None
    steps: int = 0
    drawn: int = 1  # tokens of the answer
    traffic: Traffic | None = None

    @property
    def known(self) -> int:
        """Tokens that are stored, without those behind a token that waits."""
        return self.length - len(self.waiting)

    @property
    def launched(self) -> int:
        """Tokens that are stored once every launched step has run."""
        return self.seat[0].length(self.seat[1]) if self.seat else self.length


@dataclass
class _Seat:
    """Of one launched step: a row, whose token it makes, and what is to be seen of it."""

    row: int
    one: Answering
    look: Look | None = None


_Flight = list[_Seat]


class Decoder:
    """See the module. All answers attend by one configuration."""

    def __init__(self, make: Callable[[int], DecodeBatch], slots: int) -> None:
        """`make`: a batch of so many rows. `slots`: answers at a time."""
        self.alone = make(1)
        self.shared = {dense: make(slots) for dense in (True, False)} if slots > 1 else {}
        self._below = self.alone.config.dense_below
        self._answers: list[Answering] = []
        self._flights: dict[int, deque[_Flight]] = {id(batch): deque() for batch in (self.alone, *self.shared.values())}

    def __len__(self) -> int:
        """Answers under way."""
        return len(self._answers)

    def join(self, one: Answering) -> None:
        """One more answer."""
        self._answers.append(one)
        self._settle()

    def leave(self, one: Answering) -> None:
        """An answer has ended. Its slots are not written to by later steps."""
        self._answers.remove(one)
        self._rise(one, masks=False)
        self._settle()

    def next(self, one: Answering) -> int:
        """Its next token."""
        while not one.waiting:
            self._advance(one)
        return one.waiting.popleft()

    def extend(self, one: Answering, runs: Sequence[Run]) -> None:
        """More slots for an answer."""
        one.runs += runs
        if one.seat:
            batch, row = one.seat
            batch.extend(row, runs)

    def coverage(self, one: Answering) -> float | None:
        """Estimated share of attention mass that its masks keep; None where nothing was pruned. Waits."""
        if one.seat is None or one.seat[0].dense:
            return None
        batch, row = one.seat
        return batch.coverage(row)

    def masks(self, one: Answering) -> Sequence[Taken]:
        """Its masks as they are now; it rises from its seat. Waits."""
        self._rise(one, masks=True)
        return one.masks

    def _advance(self, one: Answering) -> None:
        """Bring it nearer to its next token."""
        if one.seat is None:
            if not _room(one):
                raise ValueError(f"an answer of {one.length:,} tokens has no slot for its next one")
            self._sit(one)
        assert one.seat is not None
        batch, _ = one.seat
        while batch.pending < _AHEAD and self._ready(batch):
            self._launch(batch)
        if batch.pending:
            self._collect(batch)
        else:
            self._mend(batch)

    def _ready(self, batch: DecodeBatch) -> bool:
        return not any(batch.short(row) or batch.crossed(row) for row in batch.active)

    def _mend(self, batch: DecodeBatch) -> None:
        """Nothing is under way, and some row cannot go on: it left the window, or its slots are used up (it sits down
        again when it has more)."""
        for one in self._in(batch):
            assert one.seat is not None
            if batch.short(one.seat[1]):
                self._rise(one, masks=True)
        self._settle()

    def _launch(self, batch: DecodeBatch) -> None:
        batch.launch()
        flight = [_Seat(one.seat[1], one) for one in self._in(batch) if one.seat]
        # Before anybody looks: that takes memory, and whoever finds none fails alone.
        self._flights[id(batch)].append(flight)
        for seat in flight:
            one, done = seat.one, seat.one.steps
            one.steps += 1
            # At once, then rows one after the other.
            if one.span and (done == 0 or (done + seat.row) % _LOOKING == 0):
                seat.look = Look(batch.masses(seat.row), one.span)

    def _collect(self, batch: DecodeBatch) -> None:
        ids = batch.collect()
        for seat in self._flights[id(batch)].popleft():
            one, token = seat.one, ids[seat.row]
            one.waiting.append(token)
            one.tokens.append(token)
            one.length += 1
            one.drawn += 1
            one.look = seat.look or one.look

    def _settle(self) -> None:
        """Everybody who sits, to where he belongs."""
        for one in self._answers:
            if one.seat and (one.seat[0] is not self._place(one) or one.seat[0].crossed(one.seat[1])):
                self._rise(one, masks=True)
        for one in self._answers:
            if one.seat is None and _room(one):
                self._sit(one)

    def _place(self, one: Answering) -> DecodeBatch:
        if len(self._answers) == 1 or not self.shared:
            return self.alone
        return self.shared[one.launched < self._below]

    def _sit(self, one: Answering) -> None:
        batch = self._place(one)
        row = batch.free_row()
        assert row is not None, "there is a row for each slot"
        batch.admit(row, one.runs, one.length, one.masks, one.tokens[-1], one.sampling, one.tokens, one.drawn)
        one.seat = batch, row

    def _rise(self, one: Answering, masks: bool) -> None:
        """Leave the seat. With `masks`, to go on later: then what is under way is waited for."""
        if one.seat is None:
            return
        batch, row = one.seat
        while masks and batch.pending:
            self._collect(batch)
        if masks and (more := batch.traffic(row)) is not None:
            one.traffic = more if one.traffic is None else one.traffic + more
        one.masks = batch.release(row, masks)
        one.seat = None

    def _in(self, batch: DecodeBatch) -> list[Answering]:
        return [one for one in self._answers if one.seat and one.seat[0] is batch]


def _room(one: Answering) -> bool:
    return one.length < sum(run.length for run in one.runs)
