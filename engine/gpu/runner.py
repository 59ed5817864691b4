"""The runner on the GPU: prompts and documents by pieces, answers together, over one pool in GPU or host memory.

Requests may ask for different attention: each configuration has a lane of its own, with what it needs of workspace and
recorded steps. The engine's own stays; of others those that nobody uses go when the next one comes, or when memory runs
out.
"""

import gc
import time
from array import array
from collections.abc import Sequence

import torch

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.kernels.layout import PAGE
from unabridged.engine.attention.limits import CONTEXTS
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.bank_pages import BankRoom
from unabridged.engine.gpu.batch import DecodeBatch
from unabridged.engine.gpu.course import AHEAD, GpuCourse, Lane
from unabridged.engine.gpu.decoding import Decoder
from unabridged.engine.gpu.pace import Pace
from unabridged.engine.gpu.passes import Passes, Streaming
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.prefill import Part, Prefill
from unabridged.engine.gpu.resident import BankMemory
from unabridged.engine.gpu.staging import Staging
from unabridged.engine.gpu.steps import Captured
from unabridged.engine.kv.blocks import Run
from unabridged.models.llama import Llama


class GpuRunner:
    """See runner.Runner."""

    page = PAGE
    packs = True
    ahead = AHEAD

    def __init__(
        self,
        model: Llama,
        pool: GpuPool,
        config: AttentionConfig,
        slots: int,
        chunk: int,
        room: int | None = None,
        streaming: Streaming | None = None,
    ) -> None:
        """`config`: the engine's own; `slots`: requests at a time; `chunk`: tokens of a forward pass at most; `room`:
        of a context, by default all that the pool holds. `streaming`: by default room for a context, where the pool
        lies in the host."""
        self.model, self.pace = model, Pace()
        self._pool, self._slots, self._config = pool, slots, config
        self.room = room or pool.slots
        streaming = streaming or Streaming(self.room)
        self._staging = Staging(pool, CONTEXTS, streaming.staged) if pool.offloaded else None
        self.passes = Passes(chunk, self._staging, streaming)
        self._lanes = {config: self._lane(config)}

    def record(self) -> Captured:
        """Record the steps of the engine's own configuration, before any request comes."""
        decoder, sparse = self._lanes[self._config].decoder, self.room > self._config.dense_below
        done = Captured(0, 0.0, 0)
        for dense in (True, False) if sparse else (True,):
            for batch in (decoder.alone, decoder.shared.get(dense)):
                if batch is not None:
                    more = batch.capture(dense)
                    done = Captured(done.graphs + more.graphs, done.seconds + more.seconds, done.bytes + more.bytes)
        return done

    def course(self, filled: Sequence[Run], room: Sequence[Run], read: int, config: AttentionConfig) -> GpuCourse:
        """See runner.Runner."""
        if config not in self._lanes:
            self._tidy()
            try:
                self._lanes[config] = self._lane(config)
            except torch.OutOfMemoryError as error:
                raise OutOfMemory(
                    f"attention {config.name} with refresh {'/'.join(map(str, config.refresh))} needs memory of its "
                    "own on the GPU, and there is too little",
                    "have the engine keep it: engine.preset, engine.refresh; or ask with its own",
                ) from error
        return GpuCourse(self, self._lanes[config], config, [*filled, *room], read)

    def chunk(self) -> int:
        """See runner.Runner."""
        decoding = self.decoding
        return self.passes.chunk(decoding) if self.pace.reads(decoding) else 0

    @property
    def decoding(self) -> bool:
        """Whether answers are under way."""
        return any(len(lane.decoder) for lane in self._lanes.values())

    def read(self, parts: Sequence[tuple[GpuCourse, "array[int]"]]) -> None:
        """See runner.Runner. Waits for the device: whoever cancels waits for one pass at most."""
        began = time.perf_counter()
        for some in self.passes.split([((course, ids), course.span(len(ids))) for course, ids in parts]):
            self._pass_or_tidy(some)
        if self._pool.device.type == "cuda":
            torch.cuda.synchronize(self._pool.device)
        self.pace.read(time.perf_counter() - began, self.decoding)

    def _pass_or_tidy(self, parts: Sequence[tuple[GpuCourse, "array[int]"]]) -> None:
        """`_pass`, once more where it ran out of memory that idle lanes have. What it had written is written again."""
        try:
            self._pass(parts)
            return
        except torch.OutOfMemoryError:
            if not self._tidy():
                raise
        # Here, where what the failed pass held is given back.
        self._pass(parts)

    def _tidy(self) -> int:
        """Forget lanes that nobody uses, but for the engine's own; how many there were."""
        idle = [config for config, lane in self._lanes.items() if not lane.courses and config != self._config]
        for config in idle:
            del self._lanes[config]
        if idle:
            # A batch and its steps refer to each other.
            gc.collect()
        return len(idle)

    def _pass(self, parts: Sequence[tuple[GpuCourse, "array[int]"]]) -> None:
        lane = parts[0][0].lane
        assert all(course.lane is lane for course, _ in parts), "contexts of one pass attend alike"
        for row, (course, _) in enumerate(parts):
            if lane.rows[row] != (course, len(course.runs)):
                lane.prefill.put(row, course.runs)
                lane.rows[row] = course, len(course.runs)
        hidden = lane.prefill.read([Part(row, course.length, ids) for row, (course, ids) in enumerate(parts)])
        for (course, ids), own in zip(parts, hidden.split(1), strict=True):
            course.was_read(len(ids), own.clone())
            course.masks = ()
        last, _ = parts[-1]
        last.masks = lane.prefill.taken()
        last.coverages = [lane.prefill.coverage()] if last.masks else []

    def _lane(self, config: AttentionConfig) -> Lane:
        prefill = Prefill(self.model, config, self._pool, CONTEXTS, self.room, staging=self._staging)

        layers, banks = self.model.config.layers, None
        if self._pool.offloaded:
            banks = BankMemory(self._pool, BankRoom.of(config, layers, self._slots, self.room))

        def batch(rows: int) -> DecodeBatch:
            return DecodeBatch(self.model, config, self._pool, rows, self.room, mass=True, banks=banks)

        return Lane(prefill, Decoder(batch, self._slots))
