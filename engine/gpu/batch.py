"""Decode steps of B sequences together, in GPU memory and as CUDA graphs: token ids stay there from step to step.

    admit     a sequence takes a row, with the token that its prompt chose
    launch    queue one step for all rows: store the newest tokens, attend, choose the next ones
    collect   the oldest launched step's tokens
    release   the sequence leaves its row

Steps follow each other without the host: launch one ahead of what is collected, and it only reads along. A batch is all
dense or all sparse, as the first sequence of an empty one asks. Rows without a sequence run along at position 0: they
have no slots, so nothing is stored for them.

Where the pool lies in host memory, steps read and write copies on the GPU (resident.py), and pass on what they stored.

A row's length counts the tokens whose keys and values are stored once all launched steps ran.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device import DecodeAttention, Taken
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.refresh import Phase
from unabridged.engine.events import Sampling
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.banks import Banks
from unabridged.engine.gpu.kernels.sample import SampleState, sample
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.resident import BankMemory, Traffic, Whole
from unabridged.engine.gpu.results import DEPTH, Results
from unabridged.engine.gpu.steps import Captured, Steps
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv.blocks import Run
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq

# Steps after which idle rows go back to the beginning: before a stream of them could end.
_IDLE = 32


class DecodeBatch:
    """See the module. ValueError where a call does not fit what the rows hold; the batch is as it was then."""

    def __init__(
        self,
        model: Llama,
        config: AttentionConfig,
        pool: GpuPool,
        rows: int,
        room: int,
        mass: bool = False,
        banks: BankMemory | None = None,
    ) -> None:
        """`rows`: B. `room`: tokens of a sequence at most. `mass`: keep what `attended` needs. `banks`: memory that is
        shared with other batches, for a pool in host memory; by default the batch's own.

        What a kind of steps needs of memory is taken when the first sequence of that kind comes.
        """
        self.config, self._model, self._pool, self._mass = config, model, pool, mass
        self._tables = Tables(rows, model.config.kv_heads, room, pool.device)
        if pool.offloaded and banks is None:
            banks = BankMemory(pool, BankRoom.of(config, model.config.layers, rows, self._tables.room))
        self._banks = banks
        self._rope = RopeTables.of(inv_freq(model.config), self._tables.room + config.block_q, pool.device)
        self._sampling = SampleState(rows, model.config.vocab_size, pool.device)
        self._ids = torch.zeros(rows, dtype=torch.int64, device=pool.device)
        self._results = Results(self._ids)
        self._lengths: list[int | None] = [None] * rows
        self._began = [0] * rows
        self._kinds: dict[bool, Steps] = {}
        self._steps: Steps | None = None
        self._launched = 0

    @property
    def rows(self) -> int:
        """B."""
        return len(self._lengths)

    @property
    def active(self) -> list[int]:
        """Rows that hold a sequence."""
        return [row for row, length in enumerate(self._lengths) if length is not None]

    @property
    def dense(self) -> bool:
        """Whether its steps attend to everything. Of an empty batch: the last ones."""
        return self._steps is not None and self._steps.dense

    @property
    def pending(self) -> int:
        """Steps that were launched and not collected."""
        return len(self._results)

    def length(self, row: int) -> int:
        """Tokens of a row's sequence."""
        length = self._lengths[row]
        if length is None:
            raise ValueError(f"row {row} holds no sequence")
        return length

    def short(self, row: int) -> bool:
        """Whether a row needs more slots (`extend`) before the next step."""
        return self.length(row) >= self._tables.reserved(row)

    def crossed(self, row: int) -> bool:
        """Whether a row of a dense batch has left the window: it goes on as a sparse one (`release`, `admit`)."""
        return self.dense and self.length(row) >= self.config.dense_below

    def fits(self, length: int) -> bool:
        """Whether a sequence of `length` tokens may join: a row is free, and the others are of its kind."""
        kind = self._lengths.count(None) == self.rows or self.dense == (length < self.config.dense_below)
        return kind and self.free_row() is not None and length < self._tables.room

    def free_row(self) -> int | None:
        """A row without a sequence."""
        return self._lengths.index(None) if None in self._lengths else None

    def capture(self, dense: bool) -> Captured:
        """Record the steps of a kind before they are wanted. Only while the batch is empty; once."""
        if self.active:
            raise ValueError(f"rows {self.active} hold sequences: steps are recorded without any")
        return self._kind(dense).capture()

    def admit(
        self,
        row: int,
        runs: Sequence[Run],
        length: int,
        taken: Sequence[Taken],
        token: int,
        sampling: Sampling,
        seen: Iterable[int] = (),
        drawn: int = 1,
    ) -> None:
        """A sequence of `length` tokens, stored in `runs` (Tables.extend), goes on with `token`, which is not stored
        yet. `taken`: masks of its prompt, or of another batch's row; `seen`: what the repetition penalty counts;
        `drawn`: tokens of the answer so far, so that a seed gives the same ones however often it moves."""
        if self._lengths[row] is not None:
            raise ValueError(f"row {row} holds a sequence")
        if not self.fits(length):
            kind = "dense" if self.dense else "sparse"
            raise ValueError(f"{length:,} tokens in a {kind} batch with room for {self._tables.room:,}")
        if not self.active:
            self._steps = self._kind(length < self.config.dense_below)
            self._steps.capture()
            self._steps.restart()
            self._steps.idle(range(self.rows))
        assert self._steps is not None
        self._sampling.set_row(row, sampling, seen, drawn)
        self._tables.put(row, runs)
        self._steps.admit(row, length, taken)
        self._ids[row] = token
        self._lengths[row] = self._began[row] = length

    def release(self, row: int, masks: bool = True) -> list[Taken]:
        """The sequence leaves; `masks`: with its masks, to go on elsewhere (waits for the device). What launched steps
        still compute for the row is nobody's."""
        length = self.length(row)
        assert self._steps is not None
        taken = self._steps.taken(row) if masks else []
        # Renewals encode what left the stream; whoever comes next finds all of it.
        self._pool.encode(self._tables, row, self._began[row], min(length, self._tables.reserved(row)))
        self._tables.clear(row)
        self._steps.release(row)
        self._sampling.clear_row(row)
        self._lengths[row] = None
        return taken

    def extend(self, row: int, runs: Sequence[Run]) -> None:
        """More slots for a row."""
        self._tables.extend(row, runs)

    def launch(self) -> None:
        """Queue one step for all rows."""
        steps = self._steps
        if steps is None or not self.active:
            raise ValueError("no row holds a sequence")
        if self.pending == DEPTH:
            raise ValueError(f"{DEPTH} steps wait to be collected")
        for row in self.active:
            if self.short(row) or self.crossed(row):
                why = "has no slot for its next token" if self.short(row) else "has left the window"
                raise ValueError(f"row {row} with {self.length(row):,} tokens {why}")
        if self._launched % _IDLE == 0:
            steps.idle([row for row in range(self.rows) if self._lengths[row] is None])
        steps.run(1 + max(self.length(row) for row in self.active))
        self._results.put()
        self._launched += 1
        self._lengths = [None if length is None else length + 1 for length in self._lengths]

    def collect(self) -> list[int]:
        """The tokens of the oldest step that was not collected, one a row; those of rows that held no sequence when it
        was launched mean nothing. Waits for that step alone."""
        return self._results.take()

    def coverage(self, row: int) -> float:
        """Estimated share of attention mass that the masks keep, the mean over layers. Waits for the device."""
        return 1.0 if self._steps is None or self.dense else float(self._steps.attention.coverage()[:, row].mean())

    def traffic(self, row: int) -> Traffic | None:
        """What renewals found in the banks and fetched for a row since it was admitted; None of a dense batch, or where
        the pool is on the GPU. Waits for the device."""
        return None if self._steps is None else self._steps.traffic(row)

    def masses(self, row: int) -> Tensor:
        """Attention mass that the last launched step gives each 16 tokens of a row, `[pages]` on the device. Needs
        `mass`."""
        assert self._steps is not None
        return self._steps.attention.attended(row)[: -(-self.length(row) // PAGE)]

    def _kind(self, dense: bool) -> Steps:
        if dense not in self._kinds:
            resident: Banks | Whole | None = None
            if self._banks is not None:
                resident = (Whole if dense else Banks)(self._pool, self._tables, self._banks)
            caches = self._pool.caches(self._tables) if resident is None else resident.caches
            heads = self._model.config.heads
            self._kinds[dense] = Steps(dense, self.config, heads, caches, self._rope, self._mass, self._step, resident)
        return self._kinds[dense]

    def _step(self, attention: DecodeAttention, phase: Phase) -> None:
        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out = q.new_empty(q.shape)
            attention.step(layer, q[:, None], k[:, None], v[:, None], out[:, None], phase)
            return out

        sample(self._model.step(self._ids, attend), self._sampling, self._ids)
