"""Launches of topk: both stages of decoding at 1M tokens, and lists that the heads of a group share."""

from tests.kernels import meta

from unabridged.engine.attention.kernels.layout import Kept, Span
from unabridged.engine.attention.kernels.topk import Scratch, plan_keep_best
from unabridged.models.kernels.launch import Launch


def _launches(
    name: str, rows: int, chunks: int, wanted: int, candidates: Span | Kept, join: bool = False, trail: int = 1
) -> dict[str, Launch]:
    lists = 1 if join else 8
    scores, kept = meta.empty(rows, 8, chunks), meta.kept(rows, lists, wanted)
    scratch = Scratch.of(rows * lists, chunks, "meta")
    planned = plan_keep_best(scores, candidates, 16, kept, join, trail, scratch)
    return {f"{name}, launch {number + 1}": launch for number, launch in enumerate(planned)}


def plans() -> dict[str, Launch]:
    """The 8B shape. The first launch of a long list is a part of its second: it compiles in slow runs."""
    chunks = meta.CONTEXT // 16
    first = _launches("first stage", 1, chunks, 2048, Span(256, chunks))
    del first["first stage, launch 1"]
    return {
        **first,
        **_launches("second stage", 1, 2048, 128, meta.kept(1, 8, 2048)),
    }


def slow_plans() -> dict[str, Launch]:
    """The widest list of one program; long contexts; joint lists; many rows."""
    return {
        **_launches("widest", 1, 8192, 512, meta.kept(1, 8, 8192)),
        **_launches("3M", 1, 196608, 2048, Span(256, 196608), trail=0),
        **_launches("joint", 1, 8192, 1024, meta.kept(1, 1, 8192), join=True, trail=0),
        **_launches("joint, first stage", 1, 65536, 2048, Span(256, 65536), join=True),
        **_launches("prefill", 512, 65536, 2048, Span(256, 65536)),
    }
