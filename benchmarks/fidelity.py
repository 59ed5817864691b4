"""What selection loses on real weights, with the kernels: needles up to a million tokens, and text inside the window.

    python -m benchmarks.fidelity --model DIR --text pepys_diary.txt.xz [--tokens 32 128 512 1024] [--needles 48]
        [--only answers reading window] [--seed 5] [--bank bfloat16]

Needs a CUDA device. Documents of 2,048 tokens are read dense, each alone behind one prefix, and composed without being
read again: a context is a table of pages. 48 facts of three kinds (haystack.py), each asked in its own context.

    answers  share of right answers for exact scoring, the index and the paper's tournaments (2K: over the needle's
             document alone, dense) and, at the question, which share of the needle's chunks that exact scoring keeps
             is left by the index's first stage
    reading  the same questions at 32K when the context is read in one go by sparse prefill, with the averaged queries
             that are the default, fewer, and none
    window   8 texts of 7,104 tokens, the last 768 read sparse: KL and agreement of the best token with dense attention,
             perplexity, share of the middle's attention mass on what was kept; and the same logits from the plain
             PyTorch implementation

Calibration uses the first documents of the text, which hold no needle and surround none. Intervals are Wilson's, 95 %.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from benchmarks import haystack
from benchmarks.composed import Contexts, Library, Reader
from benchmarks.gpu import require_gpu
from benchmarks.report import interval, machine, save
from torch import Tensor

from unabridged.engine.attention.attend import ContextAttention, Shape
from unabridged.engine.attention.calibrate import basis, observe
from unabridged.engine.attention.config import PRESETS, AttentionConfig
from unabridged.engine.attention.device import DecodeAttention
from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.layout import Kept
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.attention.refresh import Schedule
from unabridged.engine.attention.rope import Rotary
from unabridged.engine.attention.stages import LayerCache, Stages, Workspace
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.tables import Context
from unabridged.models.llama import Llama
from unabridged.models.load import load, load_model
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer

ANSWER = 24
BATCH = 16
SPARSE = 768
TEXT = 7104
GIB = 1 << 30
# No means of neighbouring queries.
EACH = {"index": 1, "exact": 1}


@dataclass(frozen=True)
class Mode:
    """One way of selecting. `averages`: see prefill.AVERAGE."""

    name: str
    config: AttentionConfig
    indexed: bool = False
    averages: dict[str, int] = field(default_factory=dict)


def modes(window: int) -> list[Mode]:
    """Exact scoring of every key, the index, and the paper's three tournaments."""
    return [
        Mode("exact", PRESETS["8k"](window)),
        Mode("index", PRESETS["8k-index"](window), True),
        Mode("paper", PRESETS["3k"](window)),
    ]


def _narrow(mode: Mode, keep: int) -> Mode:
    """The first stage keeps `keep` tokens."""
    (layer,) = mode.config.layers
    stages = (replace(layer.stages[0], keep=keep), *layer.stages[1:])
    return replace(mode, config=replace(mode.config, layers=(replace(layer, stages=stages),)))


def index_bytes(head_dim: int, heads: int, layers: int) -> int:
    """Bytes a token."""
    return (width_of(head_dim) + 1) * heads * layers


class Subject:
    """The model on the device, its calibration, and the documents it has read."""

    def __init__(
        self, folder: Path, hay: haystack.Haystack, bank: torch.dtype, bases: Sequence[Basis] | None = None
    ) -> None:
        """`bases`: of the index, where somebody has calibrated it already."""
        self.tokenizer = Tokenizer.load(folder)
        self.folder = folder
        # Plain and in float32, 4-bit weights dequantised: only attention and what is stored for it can differ.
        self.model = load(folder, torch.float32, device="cuda", kernels=False)[0]
        self.config = self.model.config
        self.bases = self._calibrate(hay) if bases is None else bases
        self.rope = RopeTables.of(inv_freq(self.config), 1 << 21, "cuda")
        documents = [hay.prefix, *(one.ids for one in hay.fillers), *(one.ids for one in hay.holders)]
        self.library = Library(self.config, documents[0], len(documents) - 1, bank, BATCH, self.bases)
        self.library.read(self.model, self.rope, documents[1:])

    def _calibrate(self, hay: haystack.Haystack) -> list[Basis]:
        host = load_model(self.folder)
        stream = PRESETS["8k"](self.config.window).stream
        with torch.inference_mode():
            moments = observe(host, [list(one.ids) for one in hay.calibration[:8]], hay.prefix, stream)
        return [basis(one, width_of(self.config.head_dim)) for one in moments]


class Asking:
    """The `Attend` of a question's tokens, one sequence, over stored documents; notes what the last block kept."""

    def __init__(self, subject: Subject, mode: Mode, caches: Sequence[LayerCache], probe: "Probe | None") -> None:
        own = [replace(one, index=one.index if mode.indexed else None) for one in caches]
        self.prefill = PrefillAttention(mode.config, subject.config.heads, own, subject.rope, mode.averages)
        self._probe, self.config = probe, mode.config
        self.sequence = self.start = 0

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.to(torch.bfloat16).contiguous() for x in (q, k, v))
        out = torch.empty_like(q)
        self.prefill.attend(layer, q, k, v, out, self.sequence, self.start)
        if self._probe is not None:
            self._probe.look(layer, q, self.sequence, self.start, self.prefill.taken()[layer].kept[-1])
        return out.float()


class Probe:
    """Counts, while exact scoring answers, which of the needle's chunks that it keeps the index's first stage keeps."""

    def __init__(self, subject: Subject, mode: Mode, caches: Sequence[LayerCache], contexts: Contexts) -> None:
        self._caches, self._contexts, self._config = caches, contexts, mode.config
        layers = range(len(caches))
        self._stages = [Stages(mode.config, layer, subject.rope) for layer in layers]
        span = self._stages[0].span(contexts.length - mode.config.stream)
        block, heads = mode.config.block_q, subject.config.heads
        self._room = Workspace.of(self._stages, caches[0], 1, block * heads, subject.config.kv_heads, span)
        self._prefill = PrefillAttention(mode.config, heads, caches, subject.rope, scores=1)
        self.wanted, self.left = 0, 0

    def look(self, layer: int, q: Tensor, sequence: int, start: int, exact: Kept) -> None:
        """`exact`: what exact scoring kept for q `[T, H, D]` at `start`."""
        config, stages = self._config, self._stages[layer]
        padded = torch.cat([q, q[-1:].expand(config.block_q - len(q), *q.shape[1:])])[None]
        rows = self._prefill.rows(1, sequence, start, start + len(q), q.device)
        span = stages.span(start // config.block_q * config.block_q - config.stream)
        kept = stages.room(1, q.shape[1] if config.join == "joint" else exact.starts.shape[1], q.device)[0]
        scores = stages.score(0, padded, rows, self._caches[layer], span, self._room)
        stages.keep(0, scores, span, kept, self._room)
        needle = self._contexts.needle_chunks(sequence, config.sink, 16)
        chosen = torch.isin(exact.starts, needle) & (exact.starts >= 0)
        for head in range(exact.starts.shape[1]):
            own = exact.starts[0, head][chosen[0, head]]
            self.wanted += len(own)
            self.left += int(torch.isin(own, kept.starts[0, head]).sum())


def ask(subject: Subject, hay: haystack.Haystack, mode: Mode, contexts: Contexts, probe: "Probe | None") -> list[str]:
    """The answers to the needles of `contexts`, greedy."""
    caches = [replace(one, index=one.index if mode.indexed else None) for one in contexts.caches]
    asking = Asking(subject, mode, contexts.caches, probe)
    decode = DecodeAttention(mode.config, subject.config.heads, caches, subject.rope)
    nexts = []
    for sequence, needle in enumerate(contexts.needles):
        ids = haystack.question(subject.tokenizer, hay.needles[needle])
        asking.sequence, asking.start = sequence, contexts.length
        hidden = subject.model.forward(torch.tensor(ids, device="cuda"), asking)
        decode.take(sequence, contexts.length + len(ids), asking.prefill.taken())
        nexts.append(subject.model.logits(hidden[-1:]).argmax(-1))
    said = [torch.cat(nexts)]
    schedule = Schedule.of(mode.config, subject.config.layers)
    for step in range(ANSWER - 1):
        phase = schedule.dense if contexts.length < mode.config.dense_below else schedule.phase(step)
        decode.begin(phase)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor, phase: Any = phase) -> Tensor:
            q, k, v = (x.to(torch.bfloat16)[:, None].contiguous() for x in (q, k, v))
            out = torch.empty_like(q)
            decode.step(layer, q, k, v, out, phase)
            return out[:, 0].float()

        said.append(subject.model.logits(subject.model.forward(said[-1], attend)).argmax(-1))
    ends = subject.tokenizer.eos_ids
    texts = []
    for ids in torch.stack(said, 1).tolist():
        end = next((at for at, token in enumerate(ids) if token in ends), len(ids))
        texts.append(subject.tokenizer.decode(ids[:end]))
    return texts


def answers(
    subject: Subject,
    hay: haystack.Haystack,
    thousands: Sequence[int],
    say: Callable[[str], None],
    names: Sequence[str] = ("exact", "index", "paper"),
) -> list[dict[str, Any]]:
    """See the module. `names`: of modes."""
    table: list[dict[str, Any]] = []
    known = modes(subject.config.window)
    chosen = [mode for mode in known if mode.name in names]
    for length in thousands:
        documents = length * 1024 // haystack.DOCUMENT
        said: dict[str, list[str]] = {mode.name: [] for mode in chosen}
        wanted = left = 0
        for first in range(0, len(hay.needles), BATCH):
            numbers = range(first, min(first + BATCH, len(hay.needles)))
            contexts = subject.library.contexts(hay, numbers, documents)
            for mode in chosen:
                probe = None
                if mode.name == "exact" and contexts.length >= mode.config.dense_below:
                    probe = Probe(subject, known[1], contexts.caches, contexts)
                said[mode.name] += ask(subject, hay, mode, contexts, probe)
                if probe is not None:
                    wanted, left = wanted + probe.wanted, left + probe.left
            del contexts
        for mode in chosen:
            texts = said[mode.name]
            good = [haystack.right(needle, text) for needle, text in zip(hay.needles, texts, strict=True)]
            low, high = interval(sum(good), len(good))
            kinds = {
                kind: sum(ok for ok, one in zip(good, hay.needles, strict=True) if one.kind == kind)
                for kind in dict.fromkeys(one.kind for one in hay.needles)
            }
            row = {
                "tokens": length * 1024,
                "mode": mode.name,
                "right": sum(good),
                "asked": len(good),
                "low": low,
                "high": high,
                "kinds": kinds,
                "answers": texts,
            }
            if mode.name == "index":
                row |= {"needle_chunks": wanted, "survive": left}
            table.append(row)
            more = f"  needle chunks that survive {left}/{wanted}" if mode.name == "index" else ""
            say(f"{length:5}K {mode.name:6} {sum(good):3}/{len(good)} ({low:.2f}-{high:.2f}) {kinds}{more}")
    return table


def reading(subject: Subject, hay: haystack.Haystack, say: Callable[[str], None], count: int) -> Any:
    """See the module."""
    documents, table = 32 * 1024 // haystack.DOCUMENT, []
    indexed = modes(subject.config.window)[1]
    for name, averages in (("default", {}), ("means of 4", {"index": 4, "exact": 4}), ("every query", EACH)):
        mode, texts = replace(indexed, averages=averages), []
        for needle in range(count):
            contexts = subject.library.empty(documents)
            reader = Asking(subject, mode, contexts.caches, None)
            ids = [*hay.prefix]
            for holder, number in hay.context(needle, documents):
                ids += (hay.holders if holder else hay.fillers)[number].ids
            subject.model.forward(torch.tensor(ids, device="cuda"), reader)
            texts += ask(subject, hay, mode, replace(contexts, needles=(needle,)), None)
        good = sum(haystack.right(one, text) for one, text in zip(hay.needles, texts, strict=False))
        low, high = interval(good, count)
        table.append({"queries": name, "right": good, "asked": count, "low": low, "high": high, "answers": texts})
        say(f"read in one go, queries: {name:12} {good}/{count} ({low:.2f}-{high:.2f})")
    return table


def window(subject: Subject, hay: haystack.Haystack, say: Callable[[str], None]) -> Any:
    """See the module."""
    table: list[dict[str, Any]] = []
    dense_part = TEXT - SPARSE
    texts = [[i for one in hay.fillers[4 * n : 4 * n + 4] for i in one.ids][:TEXT] for n in range(8)]
    variants = [
        *modes(subject.config.window),
        replace(_narrow(modes(subject.config.window)[1], 2048), name="index keeps 2K"),
        replace(_narrow(modes(subject.config.window)[1], 2048), name="the same, every query", averages=EACH),
    ]
    logs: dict[str, list[Tensor]] = {"dense": [_log(subject, Reader(subject.rope), text) for text in texts]}
    for mode in variants:
        config = replace(mode.config, dense_below=0)
        logs[mode.name], recalls = [], []
        for text in texts:
            contexts = subject.library.empty(TEXT // haystack.DOCUMENT + 1)
            dense = Asking(subject, mode, contexts.caches, None)
            subject.model.forward(torch.tensor(text[:dense_part], device="cuda"), dense)
            sparse = Asking(subject, replace(mode, config=config), contexts.caches, None)
            sparse.start = dense_part
            mass = Recall(subject, sparse, contexts)
            hidden = subject.model.forward(torch.tensor(text[dense_part:], device="cuda"), mass)
            logs[mode.name].append(subject.model.logits(hidden).log_softmax(-1))
            recalls.append(mass.share())
        table.append(_compare(mode.name, logs["dense"], logs[mode.name], texts) | {"recall": sum(recalls) / 8})
        row = table[-1]
        say(
            f"window {mode.name:22} KL {row['kl']:.4f}  best token the same {row['same']:.3f}  "
            f"perplexity {row['perplexity']:.2f} (dense {row['dense']:.2f})  mass recalled {row['recall']:.3f}"
        )
    exact = replace(modes(subject.config.window)[0].config, dense_below=dense_part)
    plain = [_plain(subject.folder, exact, text, dense_part) for text in texts[:2]]
    everyone = [_sparse_log(subject, Mode("", exact, averages={"exact": 1}), text, dense_part) for text in texts[:2]]
    row = _compare("plain PyTorch against the kernels", plain, everyone, texts[:2])
    table.append(row)
    say(f"window exact, every query, kernels against plain PyTorch: KL {row['kl']:.5f}, same {row['same']:.4f}")
    return table


class Recall:
    """An `Attend` that also asks which share of the middle's attention mass lies on what the last block kept."""

    def __init__(self, subject: Subject, inner: Asking, contexts: Contexts) -> None:
        self._inner, self._subject, self._contexts = inner, subject, contexts
        self._shares: list[Tensor] = []

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = self._inner(layer, q, k, v)
        config = self._inner.config
        block, end = config.block_q, self._inner.start + len(q)
        keys = self._contexts.keys(layer, end)
        probabilities = Reader(self._subject.rope).probabilities(q[-block:].float(), keys, end - block)
        taken = self._inner.prefill.taken()[layer]
        limit, starts = taken.limit, taken.kept[-1].starts[0].long()
        chunk = self._inner.prefill.stages[layer].settings[-1].chunk
        kept = torch.zeros(len(starts), end + chunk, dtype=torch.bool, device="cuda")
        places = (starts[:, :, None] + torch.arange(chunk, device="cuda")).flatten(1).clamp(min=0)
        kept.scatter_(1, places, True)
        kept[:, : config.sink] = False
        middle = probabilities[:, :, config.sink : limit].sum((1, 2))
        by_head = kept.repeat_interleave(len(probabilities) // len(starts), 0)[:, None, config.sink : limit]
        self._shares.append((probabilities[:, :, config.sink : limit] * by_head).sum((1, 2)) / middle)
        return out

    def share(self) -> float:
        """Mean over layers and heads."""
        return float(torch.stack(self._shares).mean())


def _log(subject: Subject, attend: Reader, text: Sequence[int]) -> Tensor:
    hidden = subject.model.forward(torch.tensor(text, device="cuda"), attend)
    return subject.model.logits(hidden[-SPARSE:]).log_softmax(-1)


def _sparse_log(subject: Subject, mode: Mode, text: Sequence[int], dense_part: int) -> Tensor:
    contexts = subject.library.empty(TEXT // haystack.DOCUMENT + 1)
    asking = Asking(subject, mode, contexts.caches, None)
    subject.model.forward(torch.tensor(text[:dense_part], device="cuda"), asking)
    asking.start = dense_part
    hidden = subject.model.forward(torch.tensor(text[dense_part:], device="cuda"), asking)
    return subject.model.logits(hidden).log_softmax(-1)


def _plain(folder: Path, config: AttentionConfig, text: Sequence[int], dense_part: int) -> Tensor:
    """The same text through the CPU engine's attention."""
    model: Llama = load_model(folder)
    own = model.config
    pool = KvPool(own.layers, own.kv_heads, own.head_dim, 4 * GIB, torch.bfloat16)
    shape = Shape(own.layers, own.heads, own.kv_heads, own.head_dim)
    context = Context(pool, [], pool.allocate(TEXT))
    attention = ContextAttention(context, config, shape, Rotary(inv_freq(own)))
    hidden = []
    for start, end in ((0, dense_part), *((at, at + 256) for at in range(dense_part, TEXT, 256))):
        attention.begin(end - start)
        hidden.append(model.forward(torch.tensor(text[start:end]), attention))
        attention.end()
    return model.logits(torch.cat(hidden)[-SPARSE:]).log_softmax(-1).cuda()


def _compare(name: str, dense: list[Tensor], sparse: list[Tensor], texts: Sequence[Sequence[int]]) -> dict[str, Any]:
    divergence, same, surprise, before, count = 0.0, 0, 0.0, 0.0, 0
    for one, other, text in zip(dense, sparse, texts, strict=True):
        divergence += float((one.exp() * (one - other)).sum())
        same += int((one.argmax(-1) == other.argmax(-1)).sum())
        target = torch.tensor(text[-SPARSE + 1 :], device="cuda")[:, None]
        surprise -= float(other[:-1].gather(1, target).sum())
        before -= float(one[:-1].gather(1, target).sum())
        count += len(target)
    tokens = len(texts) * SPARSE
    means = (float(torch.tensor(x / count).exp()) for x in (surprise, before))
    return {"mode": name, "kl": divergence / tokens, "same": same / tokens} | dict(
        zip(("perplexity", "dense"), means, strict=True)
    )


def main() -> None:
    """See the module."""
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--model", type=Path, required=True, help="folder of an installed model")
    parse.add_argument("--text", type=Path, required=True, help="a long text, .txt.xz")
    parse.add_argument("--tokens", type=int, nargs="+", default=[32, 128, 512, 1024], help="context lengths, thousands")
    parse.add_argument("--needles", type=int, default=48)
    parse.add_argument("--kinds", nargs="+", choices=haystack.KINDS, default=["number", "code", "telephone"])
    parse.add_argument("--reading", type=int, default=24, help="needles of the group reading")
    parse.add_argument("--only", nargs="+", default=["window", "answers", "reading"])
    parse.add_argument("--seed", type=int, default=5)
    parse.add_argument("--bank", choices=("bfloat16", "float8_e4m3fn"), default="bfloat16")
    parse.add_argument("--name", default="fidelity", help="of the result file")
    args = parse.parse_args()
    require_gpu("fidelity")
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {line}", flush=True)

    tokenizer = Tokenizer.load(args.model)
    documents = max([*args.tokens, 80]) * 1024 // haystack.DOCUMENT
    hay = haystack.build(tokenizer, args.text, documents, args.kinds, args.needles, args.seed)
    subject = Subject(args.model, hay, getattr(torch, args.bank))
    say(f"read {documents + args.needles} documents of {haystack.DOCUMENT} tokens")
    result: dict[str, Any] = {"machine": machine() | {"gpu": torch.cuda.get_device_name()}, "seed": args.seed}
    result |= {"bank": args.bank, "index_gib_8b_1m": index_bytes(128, 8, 32) * (1 << 20) / GIB}
    with torch.inference_mode():
        if "window" in args.only:
            result["window"] = window(subject, hay, say)
        if "answers" in args.only:
            result["answers"] = answers(subject, hay, args.tokens, say)
        if "reading" in args.only:
            result["reading"] = reading(subject, hay, say, min(args.reading, args.needles))
    say(f"wrote {save(args.name, result)}")


if __name__ == "__main__":
    main()
