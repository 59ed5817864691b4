"""Finished layers on disk, taken up again after a stop.

A hidden folder beside the output holds the quantised model as it grows (`model/`), the rows that enter the next layer,
and the fingerprint of what it is made from. Each file is written aside, flushed and renamed, the rows of a layer last:
whatever happens, they say how many layers are done. The finished model is renamed to the output in one step, or taken
from here.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors.torch import load_file, save
from torch import Tensor

from unabridged.models.errors import ModelError
from unabridged.models.hashing import replace, sync, sync_folder
from unabridged.models.quantise.unfinished import folder_of

_FINGERPRINT, _ROWS = "fingerprint", "rows-*.safetensors"


class Work:
    """The folder, held by this process. Made by `working`."""

    def __init__(self, folder: Path, output: Path, shards: int) -> None:
        self._folder, self._output, self._shards = folder, output, shards
        self.model = folder / "model"

    def start(self, fingerprint: str) -> int:
        """How many layers are done; what other inputs left is deleted."""
        noted = self._folder / _FINGERPRINT
        if not noted.is_file() or noted.read_text() != fingerprint:
            for left in self._folder.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            replace(noted, fingerprint.encode())
        self.model.mkdir(exist_ok=True)
        return max((_number(path) for path in self._folder.glob(_ROWS)), default=0)

    def rows(self, done: int) -> Tensor:
        """The rows that enter layer `done`, from 1, as `keep` was given them."""
        rows: Tensor = load_file(self._rows(done))["rows"]
        return rows

    def keep(self, done: int, tensors: dict[str, Tensor], rows: Tensor) -> None:
        """Layer `done`, counted from 1, and the rows that leave it."""
        self.write(done, tensors)
        replace(self._rows(done), save({"rows": rows}))
        for path in self._folder.glob(_ROWS):
            if _number(path) < done:
                path.unlink()

    def write(self, number: int, tensors: dict[str, Tensor]) -> None:
        """Shard `number`, counted from 1."""
        replace(self.model / self.shard(number), save(tensors, {"format": "pt"}))

    def shard(self, number: int) -> str:
        """Its file's name."""
        return f"model-{number:05}-of-{self._shards:05}.safetensors"

    def finish(self, settle: Callable[[Path], object] | None) -> None:
        """The model becomes the output, or what `settle` makes of its folder; then the rest goes. What fails here can
        be taken up again, as the layers can."""
        for path in self.model.iterdir():
            with path.open("rb") as file:
                sync(file.fileno())
        sync_folder(self.model)
        if settle is None:
            self.model.rename(self._output)
            sync_folder(self._output.parent)
        else:
            settle(self.model)
        shutil.rmtree(self._folder)

    def _rows(self, done: int) -> Path:
        return self._folder / _ROWS.replace("*", str(done))


@contextmanager
def working(output: Path, shards: int, free: Callable[[], object] | None = None) -> Iterator[Work]:
    """The work on the folder `output`, which must not be there. Raises ModelError when another process is at it, and
    what `free` raises when there is no place for the result: both are asked once no other process can be at it."""
    folder = folder_of(output)
    held = _hold(folder, output)
    try:
        try:
            if output.exists():
                raise ModelError(f"{output} is there already", "add it, remove it, or name another folder")
            if free is not None:
                free()
        except BaseException:
            if not any(folder.iterdir()):
                folder.rmdir()
            raise
        yield Work(folder, output, shards)
    finally:
        os.close(held)


def _hold(folder: Path, output: Path) -> int:
    """A descriptor of `folder` that is locked. A process that ended meanwhile may have deleted the folder that was
    opened: the lock of that one is worth nothing."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
        try:
            _lock(held, output)
            if _same(held, folder):
                return held
        except BaseException:
            os.close(held)
            raise
        os.close(held)


def _same(descriptor: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), folder.stat())
    except FileNotFoundError:
        return False


def _lock(descriptor: int, output: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ModelError(f"another process is making {output}", "wait for it to end") from error


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])
