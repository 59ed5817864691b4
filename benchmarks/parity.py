"""Whether what is smaller and faster still says the same: 4-bit kernels, FP8 keys and values, int8 embedding and head.

    python -m benchmarks.parity [--awq DIR ...] [--model DIR --text TEXT] [--only greedy kv needles head]
                                [--prompts 8] [--tokens 200] [--texts 24] [--needles 48] [--lengths 2 32]

    greedy   each folder of --awq: greedy answers by the engine (kernels, captured steps) beside the same weights
             dequantised to float16 in plain PyTorch; first differences with both candidates' logits
    kv       --model with FP8 keys and values beside bfloat16: perplexity, KL, agreement over texts of 2,048 tokens; and
             float16 beside bfloat16, which is what rounding alone does
    needles  the questions of benchmarks.fidelity over caches in bfloat16 and in FP8: shares of right answers
    head     --model with embedding and head in int8 beside the checkpoint's own

Needs a CUDA device. Prompts and texts are slices of TEXT (.txt or .txt.xz) far from each other, or random ids where a
folder has no tokenizer. Intervals are 95 %, over texts; of shares Wilson's. Writes benchmarks/results/parity.json.
"""

import argparse
import lzma
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from benchmarks import haystack
from benchmarks.divergence import Divergence, compared, divergence
from benchmarks.fidelity import Subject, answers
from benchmarks.gpu import card, require_gpu
from benchmarks.parity_greedy import Answer, Pair
from benchmarks.report import machine, save
from torch import Tensor

from unabridged.engine.attention.config import choose
from unabridged.engine.attention.kernels.rope import RopeTables
from unabridged.engine.attention.prefill import PrefillAttention
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.gpu.tables import Tables
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.rope import inv_freq
from unabridged.models.tokenizer import Tokenizer

PROMPT, WINDOW = 128, 2048
# A difference that a smaller gap of logits than this explains.
CLOSE = 1e-2
BANKS = ("bfloat16", "float8_e4m3fn")
_BEGUN = time.monotonic()


def main() -> None:
    """See the module."""
    arguments = _arguments()
    require_gpu("parity")
    torch.manual_seed(0)
    result: dict[str, Any] = {**machine(), **card()}
    if arguments.commit:
        result["commit"] = arguments.commit
    parts = {"greedy": _greedy, "kv": _kv, "needles": _needles, "head": _head}
    for name in arguments.only:
        with torch.inference_mode():
            result[name] = parts[name](arguments)
        torch.cuda.empty_cache()
        save(arguments.name, result)


def _say(line: str) -> None:
    print(f"[{time.monotonic() - _BEGUN:5.0f} s] {line}", flush=True)


def _greedy(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    for folder in arguments.awq:
        pair = Pair(folder, PROMPT + arguments.tokens + 16)
        prompts = _prompts(folder, arguments, pair.ours.config.vocab_size)
        table = [pair.compare(prompt, arguments.tokens) for prompt in prompts]
        for number, answer in enumerate(table):
            _say(f"{folder.name} prompt {number}: {_told(answer)}")
        same = sum(answer.difference is None for answer in table)
        close = sum(one.difference is not None and one.difference.gap < CLOSE for one in table)
        _say(f"{folder.name}: {same} of {len(table)} the same, {close} differ within {CLOSE}")
        found.append({"model": folder.name, "same": same, "close": close, "answers": [asdict(one) for one in table]})
    return found


def _told(answer: Answer) -> str:
    one = answer.difference
    if one is None:
        return f"{answer.tokens} tokens the same; the prompt's logits differ by {answer.off:.4f} at most"
    kernels, plain = (
        " against ".join(f"{x:.4f}" for x in pair) for pair in (one.logits_by_kernels, one.logits_by_plain)
    )
    return (
        f"token {one.at} is {one.ours}, not {one.plain}: by the kernels {kernels}, by the plain model {plain}, "
        f"gap {one.gap:.4f}; the prompt's logits differ by {answer.off:.4f} at most"
    )


def _prompts(folder: Path, arguments: argparse.Namespace, vocabulary: int) -> list[list[int]]:
    if (folder / "tokenizer.json").exists() and arguments.text is not None:
        return [window.tolist() for window in _windows(folder, arguments.text, arguments.prompts, PROMPT)]
    random = torch.Generator().manual_seed(0)
    return torch.randint(vocabulary, (arguments.prompts, PROMPT), generator=random).tolist()


class Stored:
    """An `Attend` of one sequence from position 0 whose keys and values lie in a pool of a type, as the engine's do."""

    def __init__(self, model: Llama, dtype: torch.dtype, tokens: int) -> None:
        shape = model.config
        size = 2 * tokens * 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize
        pool = GpuPool(shape.layers, shape.kv_heads, shape.head_dim, size, dtype)
        tables = Tables(1, shape.kv_heads, tokens, "cuda")
        tables.put(0, pool.allocate(tokens))
        config = choose(AttentionChoice(), shape.window)
        rope = RopeTables.of(inv_freq(shape), tokens + config.block_q, "cuda")
        self._attention = PrefillAttention(config, shape.heads, pool.caches(tables), rope)
        self._model = model

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.contiguous() for x in (q, k, v))
        out = torch.empty_like(q)
        self._attention.attend(layer, q, k, v, out, 0, 0)
        return out

    def logits(self, ids: Tensor) -> Tensor:
        """Of all tokens but the last."""
        return self._model.logits(self._model.forward(ids[:-1], self))


def _kv(arguments: argparse.Namespace) -> dict[str, Any]:
    model = load_model(arguments.model, getattr(torch, arguments.dtype), device="cuda")
    windows = _windows(arguments.model, arguments.text, arguments.texts, WINDOW)
    reference = Stored(model, torch.bfloat16, WINDOW)
    found = {}
    for name in ("float8_e4m3fn", "float16"):
        other = Stored(model, getattr(torch, name), WINDOW)
        result = compared(windows, reference.logits, other.logits)
        _tell(f"keys and values in {name} beside bfloat16", result)
        found[name] = asdict(result)
    return found


def _head(arguments: argparse.Namespace) -> dict[str, Any]:
    dtype = getattr(torch, arguments.dtype)
    reference, other = (load_model(arguments.model, dtype, device="cuda", head_bits=bits) for bits in (16, 8))
    result = divergence(reference, other, _windows(arguments.model, arguments.text, arguments.texts, WINDOW))
    _tell(f"embedding and head in int8 beside {arguments.dtype}", result)
    return asdict(result)


def _tell(what: str, result: Divergence) -> None:
    _say(what)
    print("\n".join(f"          {line}" for line in result.lines()), flush=True)


def _needles(arguments: argparse.Namespace) -> dict[str, Any]:
    tokenizer = Tokenizer.load(arguments.model)
    documents = max([*arguments.lengths, 80]) * 1024 // haystack.DOCUMENT
    kinds = ("number", "code", "price")
    hay = haystack.build(tokenizer, arguments.text, documents, kinds, arguments.needles, seed=5)
    found: dict[str, Any] = {}
    bases = None
    for bank in BANKS:
        subject = Subject(arguments.model, hay, getattr(torch, bank), bases)
        bases = subject.bases
        _say(f"keys and values in {bank}")
        found[bank] = answers(subject, hay, arguments.lengths, _say, ("exact", "index"))
        del subject
        torch.cuda.empty_cache()
    return found


def _windows(folder: Path, text: Path, count: int, length: int) -> list[Tensor]:
    """`count` slices of `length` ids, spread over the text."""
    opened = lzma.open if text.suffix == ".xz" else open
    with opened(text, "rt", encoding="utf-8") as file:
        whole = file.read()
    tokenizer, every = Tokenizer.load(folder), len(whole) // count
    pieces = [tokenizer.encode(whole[at * every :][: 8 * length])[:length] for at in range(count)]
    return [torch.tensor(piece, device="cuda") for piece in pieces if len(piece) == length]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--awq", type=Path, nargs="+", default=[], help="folders of 4-bit models")
    parser.add_argument("--model", type=Path, help="folder of a model that is not 4-bit")
    parser.add_argument("--text", type=Path, help="a long text, .txt or .txt.xz")
    parser.add_argument("--dtype", default="float16", help="of --model's weights and activations, but for needles")
    parser.add_argument("--only", nargs="+", choices=("greedy", "kv", "needles", "head"))
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=200, help="of an answer")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--needles", type=int, default=48)
    parser.add_argument("--lengths", type=int, nargs="+", default=[2, 32], help="contexts of needles, thousands")
    parser.add_argument("--name", default="parity", help="of the result file")
    parser.add_argument("--commit", help="where git cannot tell")
    arguments = parser.parse_args()
    if arguments.only is None:
        arguments.only = ["greedy"] * bool(arguments.awq) + ["kv", "needles", "head"] * bool(arguments.model)
    for name in arguments.only:
        if name == "greedy" and not arguments.awq:
            parser.error("greedy needs --awq")
        if name != "greedy" and (arguments.model is None or arguments.text is None):
            parser.error(f"{name} needs --model and --text")
    return arguments


if __name__ == "__main__":
    main()
