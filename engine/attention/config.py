"""Attention settings: stages, RoPE styles, refresh intervals, presets. Torch-free and frozen.

    Stage            one pruning stage: query block b_q, chunk length l_c, tokens kept k, scorer
    LayerAttention   the stages and the selection RoPE of a layer
    AttentionConfig  everything; `layers[i]` is layer i's, the last entry serves all layers after it

`choose` turns the words of a request into a checked AttentionConfig. Of the model it knows the window alone.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from unabridged.engine.errors import BadRequest
from unabridged.engine.events import AttentionChoice

Scorer = Literal["selectrep", "exact", "index"]
Join = Literal["kv", "joint"]
SelectionRope = Literal["chunk-indexed", "relative", "dynamic-extend", "infllm", "true"]
AttentionRope = Literal["streaming", "dynamic-extend", "infllm", "true"]
Scalar = int | float | str | bool

# Decode steps between two runs of a stage, first to last; a pipeline of fewer stages takes the first and the last.
REFRESH: dict[str, tuple[int, int, int]] = {
    "paper": (16, 8, 4),
    "fast": (32, 16, 8),
    "flash": (96, 24, 8),
    "every": (1, 1, 1),
}


@dataclass(frozen=True)
class Stage:
    """One pruning stage. `keep` counts tokens and is a multiple of `chunk`. `trail` more chunks behind a chunk rank as
    high as it does: a sentence that begins in one chunk ends in the next, where no key may match the query."""

    block_q: int
    chunk: int
    keep: int
    scorer: Scorer = "selectrep"
    trail: int = 0


@dataclass(frozen=True)
class LayerAttention:
    """How one layer selects."""

    stages: tuple[Stage, ...]
    selection_rope: SelectionRope


@dataclass(frozen=True)
class AttentionConfig:
    """The whole of it.

    `sink` first and `stream` newest tokens are always attended. `dense_below`: a query at a position below it attends
    to everything before it with true positions. `window`: the model's trained length. With `extension` off every RoPE
    style is "true", inside and outside the window.
    """

    name: str
    layers: tuple[LayerAttention, ...]
    sink: int
    stream: int
    window: int
    dense_below: int
    join: Join = "joint"
    attention_rope: AttentionRope = "streaming"
    extension: bool = True
    refresh: tuple[int, ...] = REFRESH["paper"]

    def layer(self, index: int) -> LayerAttention:
        """The settings of layer `index`, with extension's switch applied."""
        chosen = self.layers[min(index, len(self.layers) - 1)]
        return chosen if self.extension else replace(chosen, selection_rope="true")

    @property
    def rope(self) -> AttentionRope:
        """The RoPE style of the sparse attention itself."""
        return self.attention_rope if self.extension else "true"

    @property
    def block_q(self) -> int:
        """Queries of a block that share the first stage; positions of blocks are multiples of it."""
        return self.layers[0].stages[0].block_q

    def intervals(self, stages: int) -> tuple[int, ...]:
        """Decode steps between runs of each of `stages` stages."""
        return _spread(self.refresh, stages)

    def recent(self, layers: int) -> int:
        """Tokens of a stream at most while a model of so many layers decodes: a limit lies up to a block behind
        `stream` when it is renewed, and stays for an interval."""
        longest = max(self.intervals(len(self.layer(number).stages))[0] for number in range(layers))
        return self.stream + self.block_q + longest


def _spread(refresh: tuple[int, ...], stages: int) -> tuple[int, ...]:
    if stages == len(refresh):
        return refresh
    return (refresh + refresh[-1:] * stages)[: stages - 1] + refresh[-1:]


def _paper(name: str, early_k: int, late_k: int, window: int) -> AttentionConfig:
    def stages(k: int) -> tuple[Stage, ...]:
        return (Stage(64, 256, 32768), Stage(64, 32, 8192), Stage(64, 8, k))

    early = LayerAttention(stages(early_k), "chunk-indexed")
    late = LayerAttention(stages(late_k), "relative")
    return AttentionConfig(name, (early, early, early, late), 256, 1024, window, window)


def _small_window(window: int) -> AttentionConfig:
    # Exact chunk maxima over chunks of 16 find lone facts where tournaments lose them; a chunk that matches brings the
    # next one, where its sentence ends (docs/log.md). Two exact stages select what one would; the first only spares
    # decode steps from reading every key.
    keep, stream = min(1024, _multiple(window // 8, 16)), min(512, _multiple(window // 4, 64))
    stages = (Stage(64, 16, 8 * keep, "exact", trail=1), Stage(64, 16, keep, "exact", trail=1))
    layer = LayerAttention(stages, "relative")
    return AttentionConfig("8k", (layer,), min(64, max(1, window // 16)), stream, window, window, join="kv")


def _multiple(value: int, of: int) -> int:
    return max(of, value // of * of)


def _large_window(window: int) -> AttentionConfig:
    # What the index finds is scored exactly: two stages, chunks as long as a page, so that one table serves both.
    stages = (Stage(64, 16, 32768, "index", trail=1), Stage(64, 16, 2048, "exact", trail=1))
    layer = LayerAttention(stages, "relative")
    return AttentionConfig("3k-index", (layer,), 256, 1024, window, window, join="kv")


def _small_window_index(window: int) -> AttentionConfig:
    config = _small_window(window)
    (layer,) = config.layers
    first, then = layer.stages
    layer = replace(layer, stages=(replace(first, scorer="index"), then))
    return replace(config, name="8k-index", layers=(layer,), sink=_multiple(config.sink, _PAGE))


def _preset_3k(window: int) -> AttentionConfig:
    return _paper("3k", 4096, 2048, window)


def _preset_5k(window: int) -> AttentionConfig:
    return _paper("5k", 4096, 4096, window)


PRESETS = {
    "3k": _preset_3k,
    "5k": _preset_5k,
    "8k": _small_window,
    "3k-index": _large_window,
    "8k-index": _small_window_index,
}


def for_window(window: int, indexed: bool = False) -> AttentionConfig:
    """The preset made for a model that was trained on `window` tokens, on an engine with an index of the keys or
    without."""
    if window > 16384:
        return _large_window(window) if indexed else _preset_3k(window)
    return _small_window_index(window) if indexed else _small_window(window)


def choose(choice: AttentionChoice, window: int, indexed: bool = False) -> AttentionConfig:
    """The checked settings that a request asks for; `indexed`: the engine keeps an index of the keys. Raises BadRequest
    naming the field."""
    config = for_window(window, indexed) if choice.preset == "auto" else _named(choice.preset, window)
    config = replace(config, refresh=REFRESH[choice.refresh])
    config = _override(config, choice.overrides)
    _check(config)
    _check_index(config, indexed)
    return config


def _named(preset: str, window: int) -> AttentionConfig:
    if preset not in PRESETS:
        raise BadRequest(f'attention preset "{preset}" is unknown', f"known: auto, {', '.join(PRESETS)}")
    return PRESETS[preset](window)


def _override(config: AttentionConfig, overrides: Mapping[str, Scalar]) -> AttentionConfig:
    for field, value in overrides.items():
        if field in _PLAIN:
            config = replace(config, **{field: _typed(field, value, _PLAIN[field])})
        elif field in _PER_LAYER:
            config = replace(config, layers=_PER_LAYER[field](config, field, value))
        elif field == "refresh":
            config = replace(config, refresh=_intervals(value))
        else:
            known = ", ".join(sorted({*_PLAIN, *_PER_LAYER, "refresh"}))
            raise BadRequest(f'attention override "{field}" is unknown', f"known: {known}")
    return replace(config, name=f"{config.name}*") if overrides else config


def _intervals(value: Scalar) -> tuple[int, ...]:
    """ "64/16" or "16/8/4": decode steps between two runs of each stage, multiples of the next one's."""
    words = str(value).split("/")
    if not (1 <= len(words) <= 3 and all(word.isdecimal() and 0 < int(word) <= 4096 for word in words)):
        raise BadRequest(f"attention override refresh = {value!r} is not understood", 'like "16/8/4": 1 to 4096 steps')
    found = tuple(map(int, words))
    if any(first % then for first, then in itertools.pairwise(found)):
        raise BadRequest(f"attention override refresh = {value!r}", "each interval is a multiple of the next")
    return found


def _typed(field: str, value: Scalar, kind: object) -> Any:
    if kind is bool or kind is int:
        if type(value) is not kind:
            raise BadRequest(
                f"attention override {field} = {value!r} is not {'an integer' if kind is int else 'a yes or no'}"
            )
    elif value not in get_args(kind):
        raise BadRequest(f"attention override {field} = {value!r} is unknown", f"one of {', '.join(get_args(kind))}")
    return value


def _each_layer(config: AttentionConfig, field: str, value: Scalar) -> tuple[LayerAttention, ...]:
    rope = _typed(field, value, SelectionRope)
    return tuple(replace(layer, selection_rope=rope) for layer in config.layers)


def _early_layers(config: AttentionConfig, field: str, value: Scalar) -> tuple[LayerAttention, ...]:
    rope = _typed(field, value, SelectionRope)
    last = config.layers[-1]
    early = config.layers[:-1] or (last,) * 3
    return (*(replace(layer, selection_rope=rope) for layer in early), last)


def _each_stage(config: AttentionConfig, field: str, value: Scalar) -> tuple[LayerAttention, ...]:
    checked = _typed(field, value, Scorer if field == "scorer" else int)
    return tuple(
        replace(layer, stages=tuple(replace(stage, **{field: checked}) for stage in layer.stages))
        for layer in config.layers
    )


def _last_stage(config: AttentionConfig, field: str, value: Scalar) -> tuple[LayerAttention, ...]:
    k = _typed(field, value, int)
    return tuple(
        replace(layer, stages=(*layer.stages[:-1], replace(layer.stages[-1], keep=k))) for layer in config.layers
    )


# Tokens of a page: the index is read in pages from the sink on.
_PAGE = 16
_NO_INDEX = (
    "take preset auto, 3k, 5k or 8k; on a GPU an index comes with: unabridged models calibrate NAME, and with an "
    "engine.preset that reads it"
)
_PLAIN: dict[str, object] = {
    "sink": int,
    "stream": int,
    "dense_below": int,
    "join": Join,
    "attention_rope": AttentionRope,
    "extension": bool,
}
_PER_LAYER = {
    "k": _last_stage,
    "chunk": _each_stage,
    "scorer": _each_stage,
    "trail": _each_stage,
    "selection_rope": _each_layer,
    "early_selection_rope": _early_layers,
}


def _check(config: AttentionConfig) -> None:
    if config.sink < 1 or config.stream < config.block_q:
        raise BadRequest(
            f"attention sink = {config.sink}, stream = {config.stream}", f"sink >= 1 and stream >= {config.block_q}"
        )
    if config.dense_below < 0 or (config.extension and config.dense_below > config.window):
        raise BadRequest(f"attention dense_below = {config.dense_below}", f"0 to the model's window, {config.window}")
    for layer in config.layers:
        _check_stages(layer.stages)
    widest = config.sink + config.stream + 2 * config.block_q + max(layer.stages[-1].keep for layer in config.layers)
    if config.rope == "streaming" and widest > config.window:
        raise BadRequest(
            f"attention keeps {widest} tokens, the model was trained on {config.window}", "lower k, stream or sink"
        )


def _check_index(config: AttentionConfig, indexed: bool) -> None:
    layers = [config.layer(number) for number in range(len(config.layers))]
    if all(stage.scorer != "index" for layer in layers for stage in layer.stages):
        return
    if not indexed:
        raise BadRequest(f'attention "{config.name}" needs an index of the keys, and this engine keeps none', _NO_INDEX)
    if any(stage.scorer == "index" for layer in layers for stage in layer.stages[1:]):
        raise BadRequest('attention scorer = "index" in a later stage', "the index serves the first stage")
    if any(layer.selection_rope not in ("relative", "infllm") for layer in layers):
        raise BadRequest(
            "the attention index scores keys un-rotated", "selection_rope relative or infllm, and extension on"
        )
    for layer in layers:
        if not 4 <= layer.stages[0].chunk <= 512:
            found = layer.stages[0].chunk
            raise BadRequest(f"attention chunk = {found} with an index of the keys", "4 to 512, what its kernels take")
    if config.sink % _PAGE:
        raise BadRequest(f"attention sink = {config.sink} with an index of the keys", f"a multiple of {_PAGE}")


def _check_stages(stages: tuple[Stage, ...]) -> None:
    for stage in stages:
        if stage.chunk < 1 or stage.keep < stage.chunk or stage.keep % stage.chunk:
            raise BadRequest(f"attention k = {stage.keep} with chunks of {stage.chunk}", "k is a multiple of chunk")
        if stage.chunk & (stage.chunk - 1):
            raise BadRequest(f"attention chunk = {stage.chunk}", "a power of two")
        if stage.trail < 0:
            raise BadRequest(f"attention trail = {stage.trail}", "0 or more chunks")
    for first, then in itertools.pairwise(stages):
        if first.chunk % then.chunk or first.block_q % then.block_q or then.keep > first.keep:
            raise BadRequest(
                "attention stages do not narrow", "chunk and block_q divide the stage before, k is smaller"
            )
