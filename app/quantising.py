"""`unabridged models quantize`: from a model and text to the same model in AWQ int4. Runs in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from unabridged.app.sample_text import pieces
from unabridged.models.errors import ModelError

if TYPE_CHECKING:
    from unabridged.models.quantise.run import Progress

Device = Literal["auto", "cpu", "cuda"]

# Pieces of text and tokens of each. Two pieces serve nearly as well as eight (docs/decisions/0015).
PIECES = 8
TOKENS = 512


@dataclass(frozen=True, slots=True)
class Teller:
    """Where narration goes: single remarks, and the state after each layer."""

    remark: Callable[[str], None]
    progress: "Callable[[Progress], None]"


def quantise(
    model: Path,
    output: Path,
    text: str,
    device: Device,
    tell: Teller,
    settle: Callable[[Path], object] | None = None,
    free: Callable[[], object] | None = None,
) -> None:
    """The model at a folder or .gguf file into the new folder `output`, or with `settle` from beside it to where that
    puts it; an interrupted run is taken up again. `free`: raises when there is no place for the result.

    Raises ModelError, ModelUnsupported or ModelDamaged before anything is computed, OSError when the disk fails.
    """
    import torch

    from unabridged.models.facts import facts_of
    from unabridged.models.quantise.run import Quantiser
    from unabridged.models.quantise.source import Source
    from unabridged.models.tokenizer import Tokenizer

    if device == "cuda" and not torch.cuda.is_available():
        raise ModelError("no CUDA device was found", "leave out --device to use the CPU")
    chosen = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    source = Source(model)
    # What would refuse the result refuses its source, hours earlier.
    facts_of(source.folder)
    bos = source.config.bos_id
    begin = [bos] if bos is not None and 0 <= bos < source.config.vocab_size else []
    read = pieces(Tokenizer.load(model), text, min(TOKENS, source.config.window) - len(begin), PIECES)
    quantiser = Quantiser(source, [begin + ids for ids in read], torch.device(chosen))
    if source.folder.format == "gguf":
        tell.remark("the weights of a GGUF are rounded already; those of the original checkpoint lose less")
    if quantiser.narrowed:
        tell.remark(f"groups of {quantiser.group} weights: 128 does not divide this model's widths")
    tell.remark(f"reading {len(read)} pieces of {len(begin) + len(read[0])} tokens on {chosen}")
    quantiser.run(output, tell.progress, settle, free)
