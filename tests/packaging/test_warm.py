"""Triton's launcher, compiled without a card, is what Triton itself looks for, finds and loads without a compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.packaging.made import PYTHON

from unabridged.app.bundle import warm

pytestmark = pytest.mark.thorough
# A library of the driver's name with every function that the launcher wants; none is called.
_LOAD = """
import os, sys
from pathlib import Path
from triton import knobs
from triton.backends.nvidia import driver
from triton.runtime.build import compile_module_from_src
source = Path(driver.dirname, "driver.c").read_text()
knobs.nvidia.libcuda_path = os.environ["STUB"]
module = compile_module_from_src(
    src=source, name="cuda_utils", library_dirs=driver.library_dirs(), include_dirs=driver.include_dirs,
    libraries=driver.libraries,
)
print(module.__file__, hasattr(module, "load_binary"))
"""


@pytest.fixture
def triton(tmp_path: Path) -> Path:
    """What the wheel has of the launcher's source."""
    import triton

    package = Path(triton.__file__).parent
    file = tmp_path / "triton-0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as out:
        folder = package / "backends/nvidia"
        for path in (folder / "driver.c", *(one for one in (folder / "include").rglob("*") if one.is_file())):
            out.write(path, Path("triton", path.relative_to(package)))
    return file


def test_triton_finds_the_launcher_that_was_compiled_before(triton: Path, tmp_path: Path) -> None:
    told: list[str] = []
    oldest = warm.launcher(triton, PYTHON, tmp_path / "cache", told.append)
    if oldest is None:
        pytest.skip(told[0])
    assert oldest <= (2, 38)
    found = sorted((tmp_path / "cache").glob("*/cuda_utils*.so"))
    assert len(found) == 2  # for machines with and without the command `file`
    again = tmp_path / "again"
    warm.launcher(triton, PYTHON, again, told.append)
    assert {path.read_bytes() for path in again.glob("*/*.so")} == {path.read_bytes() for path in found}
    stub = tmp_path / "stub"
    stub.mkdir()
    wanted = subprocess.run(
        ["nm", "-D", "--undefined-only", found[0]], capture_output=True, text=True, check=True
    ).stdout
    functions = [line.split()[-1] for line in wanted.splitlines() if line.split()[-1].startswith("cu")]
    code = "".join(f"void {name}(void) {{}}\n" for name in functions)
    command = ["gcc", "-shared", "-o", str(stub / "libcuda.so.1"), "-Wl,-soname,libcuda.so.1", "-x", "c", "-"]
    subprocess.run(command, input=code, text=True, check=True)
    file = shutil.which("file")
    for path in ("nothing", str(Path(file).parent)) if file else ("nothing",):
        loaded = _load(tmp_path / "cache", stub, path)
        assert loaded in found
        found.remove(loaded)
    # Where there is no `file` command here, the one for machines that have it was not asked for.
    assert len(found) == (0 if file else 1)


def _load(cache: Path, stub: Path, path: str) -> Path:
    """Which file Triton loads with these commands in reach, none of which compiles."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"},
        "TRITON_CACHE_DIR": str(cache),
        "LD_LIBRARY_PATH": str(stub),
        "STUB": str(stub),
        "CC": "/nothing/that/compiles",
        "PATH": path,
    }
    done = subprocess.run([sys.executable, "-c", _LOAD], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.endswith(" True\n"), done.stderr
    return Path(done.stdout.split()[0])
