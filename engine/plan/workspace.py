"""What a GPU needs beside weights, keys, values and index while it computes: from shapes, part by part. Bytes.

L layers, H query heads, G key/value heads, D head dimension.
"""

from dataclasses import dataclass, fields
from itertools import pairwise

from unabridged.engine.attention.config import AttentionConfig
from unabridged.engine.attention.limits import CONTEXTS, PAGE, PIECE, SCORES
from unabridged.models.config import ModelConfig
from unabridged.models.limits import BUFFER, SLICE

# Recorded steps, libraries' own, what the allocator loses between sizes.
_BESIDES = 512 << 20
# Scores of a list that one program ranks; longer ones are counted by splits (kernels.topk).
_NARROW, _SPLIT = 8192, 4096


@dataclass(frozen=True)
class Workspace:
    """`activations`: of a pass over the longest piece; `rotated`: keys and values of one layer of a context that is
    attended to whole, as it is read (kernels.dense); `scores`: of the chunks that a piece's blocks choose from, their
    ranking, and a copy of one layer's codes in order; `decoding`: what the steps of all batches keep: scores, lists,
    the mass of each page; `sampling`: logits, and what tokens are drawn with; `dequantised`: weights of int4
    projections, counted for every model; `besides`: an allowance."""

    activations: int
    rotated: int
    scores: int
    decoding: int
    sampling: int
    dequantised: int = BUFFER
    besides: int = _BESIDES

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        attention: AttentionConfig,
        itemsize: int,
        codes: int,
        slots: int,
        piece: int,
        room: int,
    ) -> "Workspace":
        """`itemsize`: of a number that the model computes with; `codes`: of a token in one layer's index; `slots`:
        answers at a time; `piece`: tokens of a pass; `room`: of a context."""
        whole = min(attention.dense_below, room)
        return cls(
            activations=_activations(config, itemsize, piece, whole),
            rotated=2 * itemsize * config.kv_heads * config.head_dim * whole,
            scores=_scores(config, attention, room) + codes * room,
            decoding=_decoding(config, attention, slots, room),
            sampling=config.vocab_size * (9 * rows(slots) + 12 * (slots + 1)),
        )

    @property
    def total(self) -> int:
        """All of it."""
        return sum(getattr(self, part.name) for part in fields(self))


def rows(slots: int) -> int:
    """Of all batches: one alone, and `slots` that are dense and as many that are sparse where there are several."""
    return 1 + (2 * slots if slots > 1 else 0)


def tables(config: ModelConfig, slots: int, room: int) -> int:
    """Where contexts lie in the pool: of those that a pass reads and of all rows of batches."""
    return 4 * (CONTEXTS + rows(slots)) * (config.kv_heads + 1) * -(-room // PAGE)


def _activations(config: ModelConfig, itemsize: int, piece: int, whole: int) -> int:
    """The residual stream has 4 bytes a number. Attention: the stream, queries, keys and values as projected,
    queries in order, outputs; those of dense queries thrice more. MLP: the stream, the normed rows, the outcome where
    it comes in slices, and a slice's products."""
    heads, hidden = config.heads * config.head_dim, config.hidden
    joint = heads + 2 * config.kv_heads * config.head_dim
    attention = piece * (4 * hidden + itemsize * (joint + 2 * heads)) + min(piece, whole) * 3 * itemsize * heads
    # Of an int4 matrix as much as fits into the buffer at a time.
    gated = 2 * config.intermediate
    if config.quantisation is not None:
        gated = min(gated, BUFFER // (itemsize * config.hidden))
    rows = piece * (4 * hidden + itemsize * hidden * (2 if piece > SLICE else 1))
    mlp = rows + min(piece, SLICE) * itemsize * (gated + config.intermediate)
    return max(attention, mlp)


def _widths(attention: AttentionConfig, layers: int, room: int) -> list[int]:
    """Chunks that a stage scores at most, of all layers' stages of that number."""
    widths: dict[int, int] = {}
    for layer in range(layers):
        stages = attention.layer(layer).stages
        first = max(1, -(-(room - attention.stream - attention.sink) // stages[0].chunk))
        own = [first, *(before.keep // then.chunk for before, then in pairwise(stages))]
        widths |= {number: max(width, widths.get(number, 0)) for number, width in enumerate(own)}
    return [*widths.values()]


def _ranking(lists: int, chunks: int) -> int:
    return 0 if chunks <= _NARROW else 4 * 256 * lists * (-(-chunks // _SPLIT) + 2)


def _scores(config: ModelConfig, attention: AttentionConfig, room: int) -> int:
    """As engine.attention.prefill takes them."""
    widths, heads = _widths(attention, config.layers, room), config.kv_heads
    blocks = max(1, min(PIECE // attention.block_q, SCORES // (4 * max(widths) * heads)))
    lists = blocks * (1 if attention.join == "joint" else heads)
    kept = max(sum(one.keep // one.chunk for one in layer.stages) for layer in attention.layers)
    return 4 * blocks * heads * max(widths) + sum(_ranking(lists, width) for width in widths) + 4 * lists * kept


def _decoding(config: ModelConfig, attention: AttentionConfig, slots: int, room: int) -> int:
    """As engine.attention.device takes it: dense and sparse steps of one row, and of `slots` where there are more."""
    several = slots if slots > 1 else 0
    widths, lists = _widths(attention, config.layers, room), 1 if attention.join == "joint" else config.kv_heads
    kept = sum(one.keep // one.chunk for number in range(config.layers) for one in attention.layer(number).stages)
    each = 4 * config.kv_heads * max(widths) + sum(_ranking(lists, width) for width in widths) + 4 * lists * kept
    widest = max(layer.stages[-1].keep for layer in attention.layers)
    places = widest + attention.sink + attention.recent(config.layers)
    whole = min(attention.dense_below, room)
    masses = 4 * config.layers * config.heads * (places // PAGE + whole // PAGE + 4)
    # A look at where an answer attends takes two and a mask of them for a moment.
    look = 9 * config.layers * config.heads * whole // PAGE
    return (1 + several) * (2 * each + masses) + look
