"""A model folder or GGUF file in, a folder of AWQ int4 out: layer after layer, each kept on disk when it is done.

Activations come from the model as it was, so that layers do not depend on one another's rounding, and the rows on disk
say all that the next layer needs.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unabridged.models.errors import ModelError, ModelUnsupported
from unabridged.models.quantise.format import OUTPUTS
from unabridged.models.quantise.recipe import quantise
from unabridged.models.quantise.result import describe, layer_tensors, other_tensors
from unabridged.models.quantise.rounding import GROUPS, group_for
from unabridged.models.quantise.sides import source_config
from unabridged.models.quantise.source import Source
from unabridged.models.quantise.work import working
from unabridged.models.sizes import in_words
from unabridged.models.tensors import matrices

# Part of what decides the result: another recipe does not take up this one's layers.
_RECIPE = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `layers` are on disk; `seconds` to go for the others, None before the first is timed."""

    done: int
    layers: int
    seconds: float | None


class Quantiser:
    """What is to be made of what, checked before anything is computed."""

    def __init__(self, source: Source, pieces: Sequence[Sequence[int]], device: torch.device) -> None:
        """`pieces`: calibration text, token ids of one length, each read alone from position 0; cut where a layer would
        slide past its beginning.

        Raises ModelUnsupported when a width does not suit the format.
        """
        self._source, self._device = source, device
        seen = [window for window in source.config.sliding if window]
        self._pieces = torch.tensor(pieces)[:, : min(seen, default=None)]
        self._config = source_config(source.folder, source.config)
        layers = source.layer_matrices()
        for piece in (piece for matrix in layers for piece in matrix.pieces):
            if piece.rows % OUTPUTS:
                raise ModelUnsupported(f"{piece.name} with {piece.rows} outputs", f"{OUTPUTS} must divide them")
        self.group = group_for({matrix.columns for matrix in layers})

    @property
    def narrowed(self) -> bool:
        """Whether groups are smaller than the usual 128, because 128 does not divide every width."""
        return self.group != GROUPS[0]

    @property
    def size(self) -> int:
        """Bytes that the result and the work on it take on disk, a little rounded up."""
        weights = sum(matrix.rows * matrix.columns for matrix in matrices(self._source.config))
        in_layers = sum(matrix.rows * matrix.columns for matrix in self._source.layer_matrices())
        rows = 2 * self._pieces.numel() * self._source.config.hidden * torch.float32.itemsize
        return in_layers // 2 + 3 * in_layers // self.group + 2 * (weights - in_layers) + rows

    def run(
        self,
        output: Path,
        tell: Callable[[Progress], None],
        settle: Callable[[Path], object] | None = None,
        free: Callable[[], object] | None = None,
    ) -> None:
        """Make the folder `output`, going on from what an earlier run with the same inputs left. `settle`: takes the
        finished folder instead, and may delete it; only then does the rest of the work go. `free`: raises when there is
        no place for the result.

        Raises ModelError when the folder is there or the disk has too little space; OSError when it fails.
        """
        layers = self._source.config.layers
        with working(output, layers + 1, free) as work:
            done = work.start(self._fingerprint())
            self._check_space(work.model)
            rows = (work.rows(done) if done else self._source.embedding(self._pieces)).to(self._device)
            tell(Progress(done, layers, None))
            begun = time.monotonic()
            for index in range(done, layers):
                made = quantise(self._source.config, self._source.layer(index, self._device), rows, self.group)
                rows = made.rows
                work.keep(index + 1, layer_tensors(self._source, index, made), rows.cpu())
                each = (time.monotonic() - begun) / (index + 1 - done)
                tell(Progress(index + 1, layers, each * (layers - index - 1)))
            work.write(layers + 1, other_tensors(self._source))
            describe(work.model, self._source, self._config, self.group)
            work.finish(settle)

    def _check_space(self, folder: Path) -> None:
        there = sum(path.stat().st_size for path in folder.iterdir())
        free = shutil.disk_usage(folder).free
        if free + there < self.size:
            missing = in_words(self.size - free - there)
            raise ModelError(
                f"{in_words(self.size)} are needed in {folder}, {missing} more than are free",
                "free some space on that disk",
            )

    def _fingerprint(self) -> str:
        """Of everything that decides the result. Weights by name, size and time: reading them all takes minutes."""
        stats = [(path.name, path.stat()) for path in self._source.folder.weights]
        files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        inputs = [_RECIPE, self.group, files, self._config, self._pieces.tolist()]
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
