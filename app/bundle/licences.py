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
        line = f"{wheel.name} {wheel.version}"
        lines.append(_part(line, wheel.licence, texts, apache, folder / wheel.name))
    for model, files in models:
        texts = {file.name: file.read_bytes() for file in sorted(files.iterdir()) if _is_licence(file)}
        line = f"model {model.name} {model.fingerprint}"
        lines.append(_part(line, model.licence, texts, apache, folder / f"model-{model.name}"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "INDEX.txt").write_text("".join(lines), "utf-8")


def _part(what: str, licence: str, texts: dict[str, bytes], apache: Path, folder: Path) -> str:
    """Write the texts of a part into `folder`; its line of the index."""
    note = ""
    if not texts and "apache" in licence.lower():
        texts, note = {"LICENSE": apache.read_bytes()}, " (the text is supplied here: the part carries none)"
    for name, content in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return f"{what}: {licence or 'NOT STATED'}; {len(texts)} text{'' if len(texts) == 1 else 's'}{note}\n"


def _is_licence(file: Path) -> bool:
    return file.is_file() and file.name.lower().startswith(_MODEL)
