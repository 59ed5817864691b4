"""Who signed a file, by OpenSSH's own tool: `ssh-keygen -Y verify` (8.2 or newer). Standard library only."""

import subprocess
from pathlib import Path

from unabridged.app.installer.codes import SIGNATURE, Stop
from unabridged.app.installer.manifest import NAMESPACE


def signer(file: Path, signature: Path, allowed: Path) -> str:
    """Who signed the file, by the name in `allowed` (ssh-keygen's ALLOWED SIGNERS). Raises Stop where nobody did."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise Stop(SIGNATURE, f"{file} cannot be read: {error.strerror}", "install the bundle again") from error
    if not signature.is_file():
        raise Stop(SIGNATURE, f"{signature} is missing: nobody signed this", "get the signed bundle")
    found = run(
        ["-Y", "find-principals", "-f", str(allowed), "-s", str(signature)],
        f"{file.name} was signed with a key that {allowed} does not list, or its signature is damaged",
    )
    who = found.splitlines()[0] if found else ""
    words = ["-Y", "verify", "-f", str(allowed), "-I", who, "-n", NAMESPACE, "-s", str(signature)]
    run(words, f"{file.name} is not what {who} signed", content)
    return who


def run(words: list[str], failure: str, given: bytes = b"") -> str:
    """What ssh-keygen prints. Raises Stop with `failure` and its reason."""
    try:
        done = subprocess.run(["ssh-keygen", *words], input=given, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise Stop(SIGNATURE, "ssh-keygen is missing", "install OpenSSH's client 8.2 or newer") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        reason = said[-1] if said else "it gave no reason"
        raise Stop(SIGNATURE, f"{failure}: {reason}", "check the key and who made it")
    return done.stdout.decode("utf-8", "replace").strip()
