"""A bundle in miniature: the real installer and builder with wheels of a few bytes, so that each test takes a second.

The `unabridged` in it prints its version; pip is the real one, packed again from this environment.
"""

import sys
import zipfile
from pathlib import Path

from unabridged.app.bundle import archive, signing, tree
from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.manifest import (
    FACTS,
    INSTALLED,
    MANIFEST,
    Carried,
    Facts,
    sha256_of,
    write_facts,
    written,
)

ROOT = Path(__file__).resolve().parents[2]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes], needs: tuple[str, ...] = ()) -> Path:
    """Write a wheel of these files; `needs`: requirements."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nLicense-Expression: MIT\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    members = {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/licenses/LICENSE": b"do as you please\n",
    }
    record = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"])
    file = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as out:
        for path, content in {**members, f"{info}/RECORD": record.encode()}.items():
            out.writestr(zipfile.ZipInfo(path), content)
    return file


def pip_wheel(folder: Path) -> Path:
    """The pip of this environment as a wheel."""
    import pip

    package = Path(pip.__file__).parent
    files = {
        f"pip/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and not path.name.endswith(".exe")
    }
    return wheel(folder, "pip", pip.__version__, files)


def bundle(folder: Path, pip: Path, version: str = "1.0", *, models: dict[str, bytes] | None = None) -> Path:
    """An unpacked bundle of that version below `folder`. `models`: content of the one file of each."""
    work = folder / f"unabridged-{version}"
    (work / "wheels").mkdir(parents=True)
    (work / "wheels" / pip.name).write_bytes(pip.read_bytes())
    main = f"print('unabridged {version}')\n".encode()
    own = {"unabridged/__init__.py": f"__version__ = '{version}'\n".encode(), "unabridged/__main__.py": main}
    wheel(work / "wheels", "unabridged", version, own, ("other>=1",))
    data = {"other.py": b"x = 1\n", "other-1.0.data/data/share/man/man1/other.1": b".TH OTHER\n"}
    data["other-1.0.data/scripts/other"] = b"#!python\nprint(1)\n"
    wheel(work / "wheels", "other", "1.0", data)
    files = work / "files"
    tree.fill(ROOT, files, [], 0)
    tree.installer(ROOT, work)
    for name, content in (models if models is not None else {"small": b"weights"}).items():
        (files / "models" / name).mkdir(parents=True)
        (files / "models" / name / "model.gguf").write_bytes(content)
    found = [WheelFile(file, sha256_of(file)) for file in sorted((work / "wheels").glob("*.whl"))]
    size = tree.write_lists(found, work, PYTHON)
    facts = Facts(
        id=f"{version}-{sha256_of(work / INSTALLED)[:12]}",
        version=version,
        python=PYTHON,
        flavour="cpu",
        platform="linux-x86_64",
        glibc="2.17",
        installed=size,
        driver="",
        launcher="",
        commit="unknown",
        epoch=0,
        models=(Carried("small", "0", 7, "MIT"),),
    )
    (work / FACTS).write_text(write_facts(facts), "ascii")
    seal(work)
    return work


def seal(bundle: Path) -> None:
    """Write the manifest of what is there."""
    for paper in ("MANIFEST", "MANIFEST.sig"):
        (bundle / paper).unlink(missing_ok=True)
    (bundle / MANIFEST).write_text(written(archive.listed(bundle)), "ascii")


def sign(bundle: Path, key: Path) -> None:
    """Sign the manifest."""
    signing.sign(bundle / MANIFEST, key)
