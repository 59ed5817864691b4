"""What Triton builds on a machine with a GPU, as far as it can be had before: the cache that a bundle carries.

Triton launches kernels through an extension module, which it compiles with a C compiler and Python's headers when it
is first needed and then keeps. No card and no driver are needed for that, only a library of the driver's name to link
with, so it is compiled here and a machine that gets it needs neither. Kernels themselves are compiled by what Triton's
wheel holds; those that another machine with such a card compiled can be carried along (docs/decisions/0034-warm.md).
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed

HERE = "@CACHE@"
"""Stands for the cache's own folder, whose whole path Triton writes into it; the launcher puts the user's in."""
_MODULE = "cuda_utils"
_NVIDIA = "triton/backends/nvidia"
_KEY = re.compile(r"[A-Z2-7]{52}")
_ASK = "import sysconfig as s; print(s.get_paths()['include']); print(s.get_config_var('EXT_SUFFIX'))"


def launcher(triton: Path, python: str, cache: Path, tell: Callable[[str], None]) -> tuple[int, int] | None:
    """Compile the launcher of a Triton wheel for `python` into `cache`.

    Returns the oldest C library (2, n) that it runs on; None where this machine lacks a compiler or that Python's
    headers, which is told.
    """
    found = _interpreter(python)
    compiler = shutil.which("gcc")
    if found is None or compiler is None:
        missing = "C compiler" if compiler is None else f"headers of Python {python}"
        tell(f"no {missing} here: Triton's launcher is not carried, and the other machine needs both")
        return None
    include, suffix = found
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(triton) as wheel:
        work = Path(scratch)
        for member in wheel.namelist():
            if member.startswith(f"{_NVIDIA}/include/") or member == f"{_NVIDIA}/driver.c":
                wheel.extract(member, work)
        source = work / _NVIDIA / "driver.c"
        built = work / f"{_MODULE}{suffix}"
        stub = work / "libcuda.so.1"
        _run([compiler, "-shared", "-o", str(stub), "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null"])
        # As triton.runtime.build._build has it.
        command = [compiler, "driver.c", "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", str(built)]
        # The library has nothing in it here, and must be asked for all the same.
        command += ["-Wl,--no-as-needed", "-l:libcuda.so.1", f"-L{work}"]
        command += [f"-I{source.parent / 'include'}", f"-I{include}"]
        _run(command, source.parent)
        for key in _keys(source.read_text("utf-8")):
            (cache / key).mkdir(parents=True)
            shutil.copyfile(built, cache / key / built.name)
        versions = [int(found[1]) for found in re.finditer(rb"GLIBC_2\.(\d+)", built.read_bytes())]
        return 2, max(versions, default=0)


def carry(source: Path, cache: Path) -> int:
    """Copy entries of Triton's cache from a machine that had such a card; how many. Raises BundleFailed for none."""
    entries = [folder for folder in sorted(source.iterdir()) if folder.is_dir() and _KEY.fullmatch(folder.name)]
    if not entries:
        raise BundleFailed(f"{source} is no folder of Triton's cache", "name TRITON_CACHE_DIR of the other machine")
    for folder in entries:
        for file in sorted(path for path in folder.iterdir() if path.is_file() and path.name != "lock"):
            target = cache / folder.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.name.startswith("__grp__"):
                group = json.loads(file.read_text("utf-8"))
                paths = {name: f"{HERE}/{folder.name}/{Path(path).name}" for name, path in group["child_paths"].items()}
                target.write_text(json.dumps({"child_paths": paths}, sort_keys=True), "utf-8")
            elif not target.exists():
                shutil.copyfile(file, target)
    return len(entries)


def _keys(code: str) -> list[str]:
    """What triton.runtime.build.compile_module_from_src and triton.runtime.cache call the launcher's entry.

    The platform is part of it as Python tells it: "ELF" only where the command `file` is installed.
    """
    platforms = [f"x86_64,Linux,64bit,{linkage}" for linkage in ("ELF", "")]
    digests = [hashlib.sha256((code + platform).encode()).digest() for platform in platforms]
    return [base64.b32encode(digest).decode().rstrip("=") for digest in digests]


def _interpreter(python: str) -> tuple[str, str] | None:
    """Folder of the headers and suffix of extension modules of a Python that is here."""
    command = shutil.which(f"python{python}")
    if command is None:
        return None
    done = subprocess.run([command, "-I", "-c", _ASK], capture_output=True, text=True, check=False)
    lines = done.stdout.split()
    if done.returncode or len(lines) != 2 or not Path(lines[0], "Python.h").is_file():
        return None
    return lines[0], lines[1]


def _run(command: list[str], folder: Path | None = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it gave no reason"]
        raise BundleFailed(f"Triton's launcher cannot be compiled: {said[-1]}", "report it")
