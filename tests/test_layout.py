"""The wheel carries every module of the tree, and nothing shadows another distribution."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("app", "engine", "ingest", "models", "ui")


def test_links_in_src_lead_to_the_root_folders() -> None:
    for name in PACKAGES:
        assert (ROOT / "src" / "unabridged" / name).resolve() == ROOT / name


def test_packaging_never_becomes_a_package() -> None:
    assert not (ROOT / "packaging" / "__init__.py").exists()


@pytest.mark.slow
def test_the_wheel_has_every_module_and_data_file(tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(tmp_path),
            str(ROOT),
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    kinds = {".py", ".tcss", ".json"}
    tree = {
        f"unabridged/{path.relative_to(ROOT)}"
        for name in PACKAGES
        for path in (ROOT / name).rglob("*")
        if path.suffix in kinds and "__pycache__" not in path.parts
    }
    assert tree <= packed
    assert {"unabridged/__init__.py", "unabridged/__main__.py", "unabridged/py.typed"} <= packed
    assert all(name.split("/")[0].startswith("unabridged") for name in packed)
