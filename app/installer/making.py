"""Makes a version from a bundle in a folder that nothing refers to yet.

Packages are installed by the pip that the bundle carries, from its wheels alone and only with the hashes that its
lock names. Everything temporary lies inside the new folder, so that deleting it undoes all. Standard library only.
"""

import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from unabridged.app.installer.codes import BROKEN, DISK, PIP, Stop
from unabridged.app.installer.comparing import differences
from unabridged.app.installer.manifest import FACTS, INSTALLED, MANIFEST, SIGNATURE, Facts, read, sha256_of

LOCK = "lock/requirements.txt"
_PAPERS = (MANIFEST, SIGNATURE, FACTS, INSTALLED)
_CARRIED = "files"
"""The bundle's folder of files that are copied as they are: models, papers, launcher."""
_PROGRAMS = ("bin/unabridged", "install.sh")
_SHOWN = 10
# From <sys/prctl.h>.
_END_WITH_PARENT = 1
# The library that asks most of a system, where the bundle has it.
_TORCH = "import importlib.util; importlib.util.find_spec('torch') and __import__('torch')"

Tell = Callable[[str], None]


def make(bundle: Path, facts: Facts, folder: Path, tell: Tell, twin: Path | None) -> None:
    """Fill `folder`, which must not exist. `twin`: an earlier version; files that are the same are linked, not copied.

    Raises Stop with what failed; the caller deletes the folder.
    """
    try:
        folder.mkdir(parents=True)
        tell("making the environment")
        python = _environment(folder)
        tell("installing packages")
        _packages(bundle, folder, python)
        tell("copying models and files")
        listed = read(bundle / INSTALLED)
        _copy(bundle / _CARRIED, folder, listed, twin)
        (folder / "bundle").mkdir()
        for name in _PAPERS:
            if (bundle / name).exists():
                shutil.copyfile(bundle / name, folder / "bundle" / name)
        tell("comparing what was installed with the manifest")
        _compare(folder, listed)
        tell("trying it")
        _try(folder, facts)
        os.sync()
    except OSError as error:
        raise _refused(error, folder) from error


def same_papers(bundle: Path, folder: Path) -> bool:
    """Whether a version has the papers of this bundle, byte for byte."""

    def content(file: Path) -> bytes | None:
        return file.read_bytes() if file.is_file() else None

    return all(content(bundle / name) == content(folder / "bundle" / name) for name in _PAPERS)


def _environment(folder: Path) -> Path:
    """A virtual environment without pip; its interpreter."""
    # -I as everywhere: nothing of the caller's environment or folder is imported.
    command = [sys.executable, "-I", "-m", "venv", "--without-pip", str(folder)]
    done = _run(command)
    if done.returncode:
        raise Stop(PIP, f"Python cannot make an environment: {_last(done.stderr or done.stdout)}")
    for file in (folder / "bin").iterdir():
        # Scripts that put a folder into a shell's path; it has not its last name yet, and nobody needs them.
        if not file.name.startswith("python"):
            file.unlink()
    return folder / "bin" / "python"


def _packages(bundle: Path, folder: Path, python: Path) -> None:
    scratch = folder / ".scratch"
    scratch.mkdir()
    (pip,) = (bundle / "wheels").glob("pip-*.whl")
    options = ["--no-index", "--find-links", str(bundle / "wheels"), "--require-hashes", "--no-deps", "--only-binary"]
    options += [":all:", "--no-compile", "--no-cache-dir", "--no-warn-script-location", "--disable-pip-version-check"]
    options += ["--no-input", "--quiet", "--requirement", str(bundle / LOCK)]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))},
        "PIP_CONFIG_FILE": os.devnull,
        "PYTHONPATH": str(pip),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(scratch),
    }
    done = _run([str(python), "-P", "-m", "pip", "install", *options], environment)
    if done.returncode:
        said = done.stderr or done.stdout
        if os.strerror(errno.ENOSPC) in said:
            raise _full(folder)
        raise Stop(PIP, f"pip failed: {_last(said)}", "the folder is as before; mend the cause and run it again")
    shutil.rmtree(scratch)
    for file in (folder / "bin").iterdir():
        # Their first lines name this folder, which gets another name; ours comes with the files.
        if not file.name.startswith("python"):
            file.unlink()


def _copy(source: Path, folder: Path, listed: Mapping[str, str], twin: Path | None) -> None:
    same = read(twin / "bundle" / INSTALLED) if twin is not None else {}
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        path = file.relative_to(source).as_posix()
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        known = twin / path if twin is not None and same.get(path) == listed.get(path) else None
        if known is not None and path.startswith("models/") and _is(known, listed[path]):
            os.link(known, target)
        else:
            shutil.copyfile(file, target)
        # Not the modes of the unpacked bundle: they are what the umask or the file system of whoever unpacked it made.
        target.chmod(0o755 if path in _PROGRAMS else 0o644)


def _is(file: Path, digest: str) -> bool:
    """Whether the earlier version's file is still what was installed: a damaged one must not come along."""
    return file.is_file() and not file.is_symlink() and sha256_of(file) == digest


def _compare(folder: Path, listed: Mapping[str, str]) -> None:
    found = list(differences(folder, listed))
    if found:
        lines = [f"{one.path} {one.reason}" for one in found[:_SHOWN]]
        lines += [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise Stop(
            BROKEN, "what was written is not what the bundle holds: " + "; ".join(lines), "check disk and memory"
        )


def _try(folder: Path, facts: Facts) -> None:
    """Whether the program starts, and the library that needs most of the system."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    code = f"{_TORCH}; import unabridged; print(unabridged.__version__)"
    done = _run([str(folder / "bin" / "python"), "-P", "-c", code], environment)
    if done.returncode or done.stdout.strip() != facts.version:
        raise Stop(BROKEN, f"what was installed does not run: {_last(done.stderr or done.stdout)}")


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a program that ends with us: one that went on writing would be in the next installer's way."""
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_END_WITH_PARENT, signal.SIGKILL)

    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=end_with_parent,
    )


def _refused(error: OSError, folder: Path) -> Stop:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(folder)
    return Stop(BROKEN, f"{error.filename or folder}: {error.strerror}", "mend the cause and run it again")


def _full(folder: Path) -> Stop:
    return Stop(
        DISK, f"no space left on the disk of {folder.parent}", "free some space, or choose another with --prefix"
    )


def _last(said: str) -> str:
    """The line of a program's output that says most: pip's first error, or the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or ["it gave no reason"])[0]
