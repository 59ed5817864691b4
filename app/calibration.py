"""`unabridged models calibrate`: from text and an installed model to the calibration of its index, stored with it.

Loads the model in this process, on the CPU, and reads pieces of text dense, each alone behind the prefix that documents
stand behind. Text of the kind that will be asked about serves best (docs/log.md); without any it is Python's manual.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unabridged.app.prompt import Prompt
from unabridged.app.sample_text import manual, pieces, text_of_files
from unabridged.models.errors import ModelUnsupported

if TYPE_CHECKING:
    from unabridged.models.registry import InstalledModel
    from unabridged.models.tokenizer import Tokenizer

# Pieces of text and tokens of each.
PIECES = 8
TOKENS = 1024


def calibrate(model: "InstalledModel", texts: Sequence[Path], tell: Callable[[str], None]) -> Path:
    """Measure, store, and give the path. Raises ModelError when the texts are too short or hold no text,
    ModelUnsupported for a model whose attention has no use for an index."""
    from unabridged.engine.attention.calibrate import basis, observe
    from unabridged.engine.attention.config import for_window
    from unabridged.engine.attention.index_basis import Calibration, store, width_of
    from unabridged.engine.attention.support import gpu_refusal
    from unabridged.models.load import load_model
    from unabridged.models.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model.path)
    prefix = _prefix(tokenizer)
    text = text_of_files(texts) if texts else manual()
    documents = pieces(tokenizer, text, min(TOKENS, model.window - len(prefix)), PIECES)
    loaded = load_model(model.path)
    if refusal := gpu_refusal(loaded.config):
        raise ModelUnsupported(f"{model.name} needs no calibration: {refusal}", "the index serves the GPU's attention")
    stream = for_window(model.window).stream
    tell(f"reading {len(documents)} pieces of {len(documents[0]):,} tokens")
    layers = [
        basis(moments, width_of(loaded.config.head_dim)) for moments in observe(loaded, documents, prefix, stream)
    ]
    seen = sum(map(len, documents))
    store(model.calibration, Calibration(tuple(layers), model.fingerprint, stream, seen))
    return model.calibration


def _prefix(tokenizer: "Tokenizer") -> list[int]:
    try:
        return Prompt(tokenizer).prefix
    except ModelUnsupported:
        # Not a chat model. Attention still needs a first token to rest on.
        return [0]
