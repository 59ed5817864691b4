"""The model that a benchmark on the GPU runs: a checkpoint, or one of random 4-bit weights that is made on the spot."""

import argparse
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import checkpoint
from benchmarks.gpu import say

from unabridged.models.llama import Llama
from unabridged.models.load import load


def add_model(parser: argparse.ArgumentParser) -> None:
    """The arguments that `folder_of` and `loaded` read."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=Path, help="a checkpoint's folder")
    which.add_argument("--random", choices=checkpoint.GEOMETRIES, help="4-bit weights made up on the spot")
    parser.add_argument("--head-bits", type=int, choices=(16, 8), default=16)


def folder_of(arguments: argparse.Namespace) -> Path:
    """The checkpoint's; a random one is made if it is not there."""
    if arguments.model:
        return Path(arguments.model)
    folder = Path(tempfile.gettempdir()) / f"unabridged-random-{arguments.random}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        checkpoint.write(part, arguments.random)
        part.rename(folder)
        say(f"wrote {folder}")
    return folder


def loaded(folder: Path, arguments: argparse.Namespace, result: dict[str, Any], device: str = "cuda") -> Llama:
    """The model of a folder; what loading took goes into the result."""
    model, report = load(folder, device=device, head_bits=arguments.head_bits)
    result |= {"model": folder.name, "head_bits": arguments.head_bits, "load": asdict(report)}
    say(f"{folder.name}: {report.seconds:.1f} s to load, {report.device / 1e9:.2f} GB")
    return model
