"""Stored KV against the disk that it lies on: writing, restoring, and a restart to the first token of an answer.

    python -m benchmarks.restore MODEL_DIR FOLDER [--device cpu|cuda] [--tokens 200000] [--runs 3] [--name restore]

FOLDER, made and removed, is on the disk in question. A library of so many tokens is stored there in sections of 2,048:
a real section's KV under the names of all of them, so that the engine finds each. Then a fresh engine process answers a
question over all of it: it loads the model, restores every section, reads the question behind them and gives the first
token, by the engine's own way; what it says is of no meaning. `dd` writes and reads as many bytes past the system's
cache, file by file, and as many files at a time as the engine reads. Projections scale the restored bytes, and the
question's time with the context. With `--device cuda` the engine is the GPU's, for one answer at a time, in 24 GiB of
its memory, and keys and values lie in the host's; MODEL_DIR has a calibration of the index then, as installed models
have. Writes benchmarks/results/<name>.json.
"""

import argparse
import asyncio
import shutil
import statistics
import subprocess
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import torch
from benchmarks.gpu import card
from benchmarks.report import machine, save

from unabridged.app.engine_process import WorkerCommand
from unabridged.app.supervisor import Supervisor
from unabridged.engine.attention.config import for_window
from unabridged.engine.composing import Composer
from unabridged.engine.events import Finished, Generate, Prefill, Progress, Ready, Sampling, Segment, Token, pack_ids
from unabridged.engine.gpu.pool import GpuPool
from unabridged.engine.kv.format import PAGE
from unabridged.engine.kv.late import LateStore
from unabridged.engine.kv.pool import KvPool
from unabridged.engine.kv.store import KvStore
from unabridged.engine.options import THREAD_ENVIRONMENT, EngineOptions
from unabridged.models.tokenizer import Tokenizer
from unabridged.models.weights import open_checkpoint

SECTION = 2048
# Of the GPU's memory.
VRAM = 24 << 30
QUESTION = "What do these documents say?"
# Files that dd reads at a time beside the engine's readers.
AT_A_TIME = 8
PROJECTED = 1_000_000
# Llama 3.1 8B, keys and values in FP8.
LARGE_TOKEN_BYTES = 2 * 32 * 8 * 128
Row = dict[str, Any]


def main() -> None:
    """Measure, print and save."""
    arguments = _arguments()
    arguments.folder.mkdir(parents=True)
    try:
        result = asyncio.run(_measure(arguments))
    finally:
        shutil.rmtree(arguments.folder)
    for name, value in result.items():
        print(f"{name}: {value}")
    if not arguments.no_save:
        print(save(arguments.name, {**machine(), **_card(arguments), **result}))


def _card(arguments: argparse.Namespace) -> Row:
    told = {"commit": arguments.commit} if arguments.commit else {}
    return {"device": arguments.device} | (card() if arguments.device == "cuda" else {}) | told


async def _measure(arguments: argparse.Namespace) -> Row:
    tokenizer = Tokenizer.load(arguments.model)
    sections = _sections(tokenizer, arguments.tokens)
    prefix = pack_ids(tokenizer.encode("Answer from these documents."))
    ready = await _store_first(arguments, prefix, sections[:1])
    token_bytes, form_bytes = _first_bytes(arguments.folder / "kv")
    written = _store_all(arguments, ready, prefix, sections)
    files = sorted((arguments.folder / "kv").glob("*.kv"))
    total = sum(path.stat().st_size for path in files)
    runs = [await _restart(arguments, prefix, sections, token_bytes) for _ in range(arguments.runs)]
    restart = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    one, many = (_dd_read(files, at_a_time) for at_a_time in (1, AT_A_TIME))
    rate = total / restart["restore"]
    fixed = restart["first_token"] - restart["restore"] - restart["question"]
    question = restart["question"] * PROJECTED / arguments.tokens
    return {
        "model": arguments.model.name,
        "tokens": arguments.tokens,
        "files": len(files),
        "bytes": total,
        "bytes_a_token": token_bytes,
        "section_bytes": form_bytes,
        "write_mb_s": round(written / 1e6),
        "dd_write_mb_s": round(_dd_write(files[0], arguments.folder, len(files)) / 1e6),
        "restore_mb_s": round(rate / 1e6),
        "dd_read_mb_s": round(one / 1e6),
        f"dd_read_{AT_A_TIME}_at_a_time_mb_s": round(many / 1e6),
        "restore_to_dd": round(rate / one, 2),
        f"restore_to_dd_{AT_A_TIME}_at_a_time": round(rate / many, 2),
        "restart_seconds": restart,
        "restarts": runs,
        "projected_1m_seconds": round(fixed + PROJECTED * token_bytes / rate + question, 1),
        "projected_1m_8b_restore_seconds": round(PROJECTED * LARGE_TOKEN_BYTES / rate, 1),
    }


def _sections(tokenizer: Tokenizer, tokens: int) -> list[bytes]:
    """Sections of ids that all differ."""
    text = Path(__file__).read_text("utf-8") * (SECTION // 256)
    ids = tokenizer.encode(text)[: SECTION - 8]
    return [
        pack_ids([*tokenizer.encode(f"{number:08d}")[:8], *ids][:SECTION]) for number in range(-(-tokens // SECTION))
    ]


def _command(arguments: argparse.Namespace, tokens: int, token_bytes: int) -> WorkerCommand:
    options = EngineOptions(store_dir=arguments.folder / "kv", store_bytes=1 << 40)
    if arguments.device == "cuda":
        held = {"place": "host", "vram_bytes": VRAM, "slots": 1, "context_tokens": tokens}
    else:
        held = {"kv_bytes": tokens * token_bytes}
    options = msgspec.structs.replace(options, **held)
    return WorkerCommand(
        backend="cuda" if arguments.device == "cuda" else "torch",
        model=arguments.model,
        options=options,
        log=arguments.folder / "engine.log",
        environment=THREAD_ENVIRONMENT,
    )


async def _store_first(arguments: argparse.Namespace, prefix: bytes, sections: list[bytes]) -> Ready:
    """Have the engine read one section."""
    supervisor = Supervisor(_command(arguments, 8 * SECTION, 1 << 16))
    ready = await supervisor.start()
    segments = tuple(Segment(one) for one in sections)
    async with aclosing(supervisor.submit(Prefill(id="p", prefix=prefix, segments=segments))) as events:
        async for _ in events:
            pass
    await supervisor.close()
    return ready


def _first_bytes(folder: Path) -> tuple[int, int]:
    """KV bytes of a token, and of a section's file."""
    largest = max(path.stat().st_size for path in folder.glob("*.kv"))
    return (largest - PAGE) // SECTION, largest


def _store_all(arguments: argparse.Namespace, ready: Ready, prefix: bytes, sections: list[bytes]) -> float:
    """Store the first section's KV under every name, as the engine does. Bytes a second."""
    shape = open_checkpoint(arguments.model)[0]
    dims = shape.layers, shape.kv_heads, shape.head_dim
    pool: KvPool | GpuPool
    if arguments.device == "cuda":
        # Of the same form as the engine's.
        pool, page = GpuPool(*dims, 1 << 28, torch.float8_e4m3fn, "cpu", place="plain"), GpuPool.page
    else:
        pool, page = KvPool(*dims, 1 << 28, torch.float16), 1
    composer = Composer(ready.fingerprint, page, for_window(ready.window), "")
    names = [part.key for part in composer.parts(prefix, sections, "composable")[1:]]
    runs = pool.allocate(SECTION)
    store = KvStore(arguments.folder / "kv", 1 << 40)
    store.load(names[0], pool, runs)
    late = LateStore(store, 256 << 20)
    began = time.perf_counter()
    for name in names[1:]:
        late.save(name, pool, runs)
    while not late.settled():
        pass
    seconds = time.perf_counter() - began
    late.close()
    return (len(names) - 1) * SECTION * pool.token_bytes / seconds


async def _restart(arguments: argparse.Namespace, prefix: bytes, sections: list[bytes], token_bytes: int) -> Row:
    """A fresh engine process to the first token. Seconds."""
    tokenizer = Tokenizer.load(arguments.model)
    asked = Generate(
        id="q",
        prefix=prefix,
        segments=tuple(Segment(one) for one in sections),
        prompt=pack_ids(tokenizer.encode(QUESTION)),
        sampling=Sampling(max_tokens=1),
        attribution=False,
    )
    began = time.perf_counter()
    supervisor = Supervisor(_command(arguments, arguments.tokens + 4 * SECTION, token_bytes))
    at = {}
    await supervisor.start()
    at["ready"] = time.perf_counter() - began
    async with aclosing(supervisor.submit(asked)) as events:
        async for event in events:
            now = time.perf_counter() - began
            if isinstance(event, Progress):
                assert event.phase != "read" or event.total <= 64, "sections were read instead of restored"
                at[event.phase] = now
            elif isinstance(event, Token | Finished):
                at.setdefault("token", now)
    await supervisor.close()
    return {
        "ready": at["ready"],
        "restore": at["restore"] - at["ready"],
        "question": at["token"] - at["restore"],
        "first_token": at["token"],
    }


def _dd_read(files: list[Path], at_a_time: int) -> float:
    """Bytes a second."""
    began = time.perf_counter()
    for first in range(0, len(files), at_a_time):
        running = [
            subprocess.Popen(["dd", f"if={path}", "of=/dev/null", "bs=8M", "iflag=direct", "status=none"])
            for path in files[first : first + at_a_time]
        ]
        for one in running:
            assert one.wait() == 0
    return sum(path.stat().st_size for path in files) / (time.perf_counter() - began)


def _dd_write(sample: Path, folder: Path, count: int) -> float:
    """Bytes a second, of the same bytes over and over, from memory."""
    count, size = min(count, 20), sample.stat().st_size
    source = Path("/dev/shm") / f"{sample.stem[:16]}.bytes"
    shutil.copy(sample, source)
    began = time.perf_counter()
    for number in range(count):
        target = folder / f"{number}.dd"
        command = ["dd", f"if={source}", f"of={target}", "bs=8M", "oflag=direct", "conv=fsync", "status=none"]
        subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    source.unlink()
    return count * size / seconds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--name", default="restore", help="of the result file")
    parser.add_argument("--commit", help="where git cannot tell")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
