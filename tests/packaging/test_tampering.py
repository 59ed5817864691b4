"""What was changed, is missing or was not signed is named before anything is touched."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packaging import made
from tests.packaging.conftest import Keys, Machine

pytestmark = pytest.mark.thorough


def flip(file: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def wheel_flipped(bundle: Path) -> str:
    flip(bundle / "wheels/other-1.0-py3-none-any.whl")
    return "wheels/other-1.0-py3-none-any.whl"


def model_flipped(bundle: Path) -> str:
    flip(bundle / "files/models/small/model.gguf")
    return "files/models/small/model.gguf"


def installer_flipped(bundle: Path) -> str:
    flip(bundle / "setup/unabridged/app/installer/main.py")
    return "setup/unabridged/app/installer/main.py"


def missing(bundle: Path) -> str:
    (bundle / "lock/requirements.txt").unlink()
    return "lock/requirements.txt"


def added(bundle: Path) -> str:
    (bundle / "setup/sitecustomize.py").write_text("import os\n")
    return "setup/sitecustomize.py"


def linked(bundle: Path) -> str:
    """To the same content, which somebody may change after the look at it."""
    module = bundle / "setup/unabridged/app/installer/main.py"
    module.symlink_to(module.rename(bundle.parent / "main.py"))
    return "setup/unabridged/app/installer/main.py"


def no_manifest(bundle: Path) -> str:
    (bundle / "MANIFEST").unlink()
    return "MANIFEST is missing"


@pytest.mark.parametrize(
    "change", [wheel_flipped, model_flipped, installer_flipped, missing, added, linked, no_manifest]
)
def test_a_file_that_differs_is_named(
    change: Callable[[Path], str], machine: Machine, bundle: Path, keys: Keys, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    named = change(copy)
    code, out, err = machine.run(copy, "--signers", str(keys.allowed))
    assert (code, named in err) == (11, True)
    assert out in ("signed by release@example\n", "")
    assert not machine.prefix.exists()


def manifest_flipped(bundle: Path) -> None:
    flip(bundle / "MANIFEST")


def sealed_again(bundle: Path) -> None:
    """By somebody without the key, who put the old signature back."""
    signature = (bundle / "MANIFEST.sig").read_bytes()
    flip(bundle / "files/models/small/model.gguf")
    made.seal(bundle)
    (bundle / "MANIFEST.sig").write_bytes(signature)


def unsigned(bundle: Path) -> None:
    (bundle / "MANIFEST.sig").unlink()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (manifest_flipped, "MANIFEST is not what release@example signed"),
        (sealed_again, "MANIFEST is not what release@example signed"),
        (unsigned, "not signed"),
    ],
)
def test_a_manifest_that_was_not_signed_like_that_is_refused(
    change: Callable[[Path], None], named: str, machine: Machine, bundle: Path, keys: Keys, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    change(copy)
    code, _, err = machine.run(copy, "--signers", str(keys.allowed))
    assert (code, named in err) == (10, True), err
    assert not machine.prefix.exists()


def test_a_signature_of_somebody_else_and_none_named_are_refused(machine: Machine, bundle: Path, keys: Keys) -> None:
    code, _, err = machine.run(bundle, "--signers", str(keys.other))
    assert (code, "does not list" in err) == (10, True)
    code, _, err = machine.run(bundle)
    assert (code, "--signers FILE" in err) == (10, True)
    assert not machine.prefix.exists()


def test_a_signature_made_for_something_else_does_not_count(
    machine: Machine, bundle: Path, keys: Keys, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "copy"))
    (copy / "MANIFEST.sig").unlink()
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(keys.private), str(copy / "MANIFEST")]
    subprocess.run(command, check=True)
    assert machine.run(copy, "--signers", str(keys.allowed))[0] == 10
