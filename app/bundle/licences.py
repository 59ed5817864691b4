"""The licence texts of all parts, collected from what the parts carry, with an index of what each states."""

from collections.abc import Iterable
from pathlib import Path

from unabridged.app.bundle.wheelfile import WheelFile
from unabridged.app.installer.manifest import Carried

_MODEL = ("licen", "notice", "readme", "use_policy", "copying")
_HEAD = """Licences of the parts of this bundle
=====================================

Each line: part, version, what its metadata states, and the texts that it carries (in the folder of its name here).
"""


def collect(wheels: Iterable[WheelFile], models: Iterable[tuple[Carried, Path]], apache: Path, folder: Path) -> None:
    """Write texts and INDEX.txt into `folder`. `apache`: the text for parts that state Apache and carry none."""
    lines = [_HEAD]
    for wheel in wheels:
        texts = dict(wheel.licences())
        note = ""
        if not texts and "apache" in wheel.licence.lower():
            texts, note = {"LICENSE": apache.read_bytes()}, " (the text is supplied here: the part carries none)"
        lines.append(_line(wheel.name, wheel.version, wheel.licence, len(texts), note))
        _write(folder / wheel.name, texts)
    for model, files in models:
        texts = {file.name: file.read_bytes() for file in sorted(files.iterdir()) if _is_licence(file)}
        note = ""
        if not texts and "apache" in model.licence.lower():
            texts, note = {"LICENSE": apache.read_bytes()}, " (the text is supplied here: the part carries none)"
        lines.append(_line(f"model {model.name}", model.fingerprint, model.licence, len(texts), note))
        _write(folder / f"model-{model.name}", texts)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "INDEX.txt").write_text("".join(lines), "utf-8")


def _line(name: str, version: str, licence: str, texts: int, note: str) -> str:
    return f"{name} {version}: {licence or 'NOT STATED'}; {texts} text{'' if texts == 1 else 's'}{note}\n"


def _write(folder: Path, texts: dict[str, bytes]) -> None:
    for name, content in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _is_licence(file: Path) -> bool:
    return file.is_file() and file.name.lower().startswith(_MODEL)
