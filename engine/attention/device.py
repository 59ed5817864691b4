"""Attention of decode steps on the GPU: what `sparse.py` does on the host, for B sequences.

    begin   the positions grow by one, the limits of the layers that renew their first stage follow
    step    one layer: store the new keys and values, renew the stages that are due, attend

A step allocates nothing and asks the host nothing: it is the same launches on the same tensors each time a phase comes,
so that it can be recorded together with the model around it (refresh.Graphs). A limit moves only when its layer's first
stage renews; the stream grows in between, and tokens that left it are encoded into the index then.

Keys and values lie in GPU memory, or all of them in host memory and what steps attend to in banks on the GPU (Offload).

B sequences, H query heads, G key/value heads, D head dimension, J lists a row (G, or 1 when the heads share them).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.device_masks import Masks
from unabridged.engine.attention.kernels import attend_decode as attention
from unabridged.engine.attention.kernels.advance import advance
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.index import encode
from unabridged.engine.attention.kernels.layout import PAGE, Kept, Rows
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.refresh import Phase, Schedule
from unabridged.engine.attention.rope import extend_scale
from unabridged.engine.attention.stages import LayerCache, Stages, Workspace, covered


@dataclass(frozen=True)
class Taken:
    """The masks of a prompt's last query block in one layer, with which decoding begins: what each stage kept (one
    row) and the block's limit."""

    kept: Sequence[Kept]
    limit: int


class Offload(Protocol):
    """Banks that hold the sink, the stream, and of the tokens between them what was chosen."""

    def all(self, layer: int) -> LayerCache:
        """Where all keys of a layer lie, but the newest token's: for a first stage, and for the index."""
        ...

    def keys(self, layer: int, kept: Kept, chunk: int, limits: Tensor) -> None:
        """A first stage has chosen these chunks: later ones, and the attention, read their keys in the bank."""
        ...

    def values(self, layer: int, kept: Kept, chunk: int, limits: Tensor) -> None:
        """A last stage has chosen these chunks: the attention reads their values in the bank."""
        ...


class DecodeAttention:
    """See the module. One instance serves all layers.

    Steps write where `first` says, those before a recording too: the tables must have slots there.
    """

    def __init__(
        self,
        config: AttentionConfig,
        heads: int,
        caches: Sequence[LayerCache],
        rope: RopeTables,
        mass: Literal["sparse", "dense"] | None = None,
        offload: Offload | None = None,
    ) -> None:
        """`heads`: H. `caches`: one a layer, with room for what is decoded. `mass`: keep what `attended` needs of such
        steps; of dense ones it is memory for the whole window. `offload`: whose banks the caches are, for sparse
        steps; none where the caches hold everything."""
        self._config, self._caches, self._rope, self._offload = config, caches, rope, offload
        bank, layers = caches[0].bank, len(caches)
        device, (sequences, kv_heads, self._pages) = bank.k_table.device, bank.k_table.shape
        self.stages = [Stages(config, layer, rope) for layer in range(layers)]
        self._stage_counts = torch.tensor([len(one) for one in self.stages], dtype=torch.int32, device=device)
        self._sequence = torch.arange(sequences, dtype=torch.int32, device=device)
        self.first = torch.zeros(sequences, dtype=torch.int32, device=device)
        self._limits, self._left = torch.zeros(2, layers, sequences, dtype=torch.int32, device=device).unbind(0)
        self._divisors = torch.ones(layers, sequences, dtype=torch.int32, device=device)
        self.rows = [Rows(self._sequence, self.first, self._limits[i], self._divisors[i]) for i in range(layers)]
        nowhere = torch.zeros_like(self.first)
        self._whole = Rows(self._sequence, self.first, nowhere, torch.ones_like(nowhere))
        self._everywhere = torch.full_like(self.first, torch.iinfo(torch.int32).max)
        # Made now: a recording can neither copy from the host nor keep what it allocates.
        phases = Schedule.of(config, layers).distinct
        self._due = {phase: torch.tensor(phase.due, dtype=torch.int32, device=device) for phase in phases}
        lists = 1 if config.join == "joint" else kv_heads
        self.masks = Masks(self.stages, sequences, lists, heads, device)
        self.span = self.stages[0].span(self._pages * PAGE - config.stream)
        self.room = Workspace.of(self.stages, caches[0], sequences, heads, lists, self.span)
        self.recent = config.recent(layers)
        interval = self.recent - config.stream - config.block_q
        self._grown = -(-interval // config.block_q) * config.block_q
        self.capacity = config.sink + max(one.settings[-1].keep for one in self.stages) + self.recent
        capacities = [self.capacity, *(phase.reach or config.dense_below for phase in phases if phase.dense)]
        cuts = [attention.Cut.of(n, sequences * kv_heads, bank.head_dim) for n in capacities]
        q = torch.empty(sequences, 1, heads, bank.head_dim, device=device)
        self._scratch = attention.Scratch.of(q, kv_heads, max(cut.splits for cut in cuts))
        places = -(-(config.dense_below if mass == "dense" else self.capacity) // PAGE)
        self._kept_mass = mass
        self.mass = torch.zeros(layers, sequences, heads, places + 1, device=device) if mass else None

    def take(self, sequence: int, length: int, taken: Sequence[Taken] = ()) -> None:
        """Decode `sequence` from `length` tokens on, with a prompt's masks: one entry a layer. Without any, or where
        the prompt ended inside the window, the first sparse step must be one that renews all (Schedule.all)."""
        self.first[sequence] = length - 1
        near = self._config.stream + self._config.block_q
        self._divisors[:, sequence] = extend_scale(length + 1, self._config.window, near)
        self._limits[:, sequence] = 0
        self.masks.clear(sequence)
        for layer, one in enumerate(taken):
            self._limits[layer, sequence] = one.limit
            self.masks.put(layer, sequence, one.kept)
            self._bring_keys(layer)
            self._bring_values(layer)

    def taken(self, sequence: int) -> list[Taken]:
        """What `take` takes, to go on elsewhere: copies of the masks, and each layer's limit. Waits for the device."""
        limits = self._limits[:, sequence].tolist()
        return [Taken(kept, limit) for kept, limit in zip(self.masks.of(sequence), limits, strict=True)]

    def begin(self, phase: Phase) -> None:
        """A step begins: `first` becomes the positions of its tokens. KeyError: no phase of the config's schedule."""
        due, counts = self._due[phase], self._stage_counts
        advance(self.first, self._limits, self._left, self._divisors, due, counts, self._config)

    def step(self, layer: int, q: Tensor, k: Tensor, v: Tensor, out: Tensor, phase: Phase) -> None:
        """One layer of a step: q, out `[B, 1, H, D]`, k and v `[B, 1, G, D]`, all un-rotated; all but out may be views
        of a joint projection."""
        write(k, v, self._caches[layer].bank, self._sequence, self.first)
        if phase.dense:
            self._index_newest(layer)
            self._attend_all(layer, q, out, phase.reach or self._config.dense_below)
            return
        due = phase.due[layer]
        if due < len(self.stages[layer]):
            self.renew(layer, q.contiguous(), due)
        self.attend(layer, q, out, due)

    def renew(self, layer: int, q: Tensor, due: int) -> None:
        """Run the layer's stages from number `due` on."""
        stages, rows, kept = self.stages[layer], self.rows[layer], self.masks.target(layer, due)
        if due == 0:
            cache = self._caches[layer] if self._offload is None else self._offload.all(layer)
            if stages.indexed:
                assert cache.index is not None
                encode(cache.bank, cache.index, self._left[layer], self._limits[layer], self._grown)
            stages.run(q, rows, cache, kept, self.span, self.room, 0, 1)
            self._bring_keys(layer)
        stages.run(q, rows, self._caches[layer], kept, self.span, self.room, max(due, 1))
        self._bring_values(layer)

    def _bring_keys(self, layer: int) -> None:
        if self._offload is not None:
            chunk = self.stages[layer].settings[0].chunk
            self._offload.keys(layer, self.masks.kept[layer][0], chunk, self._limits[layer])

    def _bring_values(self, layer: int) -> None:
        if self._offload is not None:
            chunk = self.stages[layer].settings[-1].chunk
            self._offload.values(layer, self.masks.kept[layer][-1], chunk, self._limits[layer])

    def attend(self, layer: int, q: Tensor, out: Tensor, due: int) -> None:
        """Attend with the masks as they are."""
        config, cache, mask = self._config, self._caches[layer], self.masks.kept[layer][-1]
        attention.attend_decode(
            q,
            self.rows[layer],
            cache.bank,
            mask,
            self.stages[layer].settings[-1].chunk,
            config.sink,
            config.rope,
            self._rope,
            out,
            self.masks.lse(layer, due),
            self._scratch,
            capacity=self.capacity,
            mass=self._mass(layer, "sparse"),
        )

    def _mass(self, layer: int, kind: Literal["sparse", "dense"]) -> Tensor | None:
        return None if self.mass is None or self._kept_mass != kind else self.mass[layer]

    def _index_newest(self, layer: int) -> None:
        # No renewal follows that would encode what left the stream: past the window all of it must be there.
        cache = self._caches[layer]
        if self.stages[layer].indexed:
            assert cache.index is not None
            encode(cache.bank, cache.index, self.first, self._everywhere, 1)

    def _attend_all(self, layer: int, q: Tensor, out: Tensor, capacity: int) -> None:
        # With its limit at 0 a row is all stream, and every style gives true positions.
        config = self._config
        attention.attend_decode(
            q,
            self._whole,
            self._caches[layer].bank,
            None,
            PAGE,
            config.sink,
            config.rope,
            self._rope,
            out,
            self.masks.lse(layer, 0),
            self._scratch,
            capacity=capacity,
            mass=self._mass(layer, "dense"),
        )

    def coverage(self) -> Tensor:
        """Estimated share of attention mass that each layer's last whole renewal kept, `[layers, B]`: coverage.py."""
        return covered(self.masks.dropped, self.masks.whole_lse)

    def attended(self, sequence: int) -> Tensor:
        """Attention mass that the last step gave each 16 tokens of the context, summed over layers and heads, `[P]`.

        Needs `mass` of the step's kind. A list's places are counted out in chunks of 16: where stages keep shorter
        ones, a place's mass counts for the chunk that its first token is in.
        """
        assert self.mass is not None
        if self._kept_mass == "dense":
            # A place of the list is a position. The whole window's: no index is made for it, nor twice the memory.
            lengths = self.first[sequence].expand(self.mass.shape[0], self.mass.shape[2]) + 1
            each_page = attention.shares(self.mass[:, sequence], lengths).sum((0, 1))[: self._pages]
            return torch.nn.functional.pad(each_page, (0, self._pages - len(each_page)))
        starts, counts, chunk = self.masks.last(sequence)
        limits = self._limits[:, sequence, None, None]
        sink = limits.clamp(max=self._config.sink)
        each = self.mass.shape[2] // starts.shape[1]
        lengths = (sink + self.first[sequence] + 1 - limits)[..., 0] + counts * chunk
        mass = attention.shares(self.mass[:, sequence], lengths.repeat_interleave(each, 1))
        places = mass.shape[2]
        place = PAGE * torch.arange(places, device=mass.device)
        entry = ((place - sink) // chunk).clamp(min=0).expand(*starts.shape[:2], places)
        kept = starts.gather(2, entry.clamp(max=starts.shape[2] - 1)) + (place - sink) % chunk
        stream = limits + place - sink - counts[..., None] * chunk
        position = torch.where(entry < counts[..., None], kept, stream).where(place >= sink, place)
        page = (position // PAGE).clamp(0, self._pages - 1).repeat_interleave(each, 1)
        return torch.zeros(self._pages, device=mass.device).index_add_(0, page.flatten(), mass.flatten())
