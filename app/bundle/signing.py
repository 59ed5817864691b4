"""Signatures with OpenSSH's own tool: `ssh-keygen -Y sign` and `-Y verify` (8.2 or newer).

The key is the admin's: a file, or a public key whose private half an agent or a token holds. A signature of an Ed25519
key is the same each time; one of an ECDSA or hardware key is not.
"""

import subprocess
from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.installer.manifest import NAMESPACE


def sign(file: Path, key: Path) -> Path:
    """Write FILE.sig beside the file. Raises BundleFailed with ssh-keygen's reason."""
    signature = file.with_name(file.name + ".sig")
    signature.unlink(missing_ok=True)
    _run(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(file)], f"{file.name} cannot be signed with {key}")
    return signature


def signer(file: Path, signature: Path, allowed: Path) -> str:
    """Who signed the file, by the name in `allowed` (ssh-keygen's ALLOWED SIGNERS). Raises BundleFailed."""
    if not signature.is_file():
        raise BundleFailed(f"{signature} is missing: nobody signed this", "get the signed bundle")
    found = _run(
        ["-Y", "find-principals", "-f", str(allowed), "-s", str(signature)],
        f"{file.name} was signed with a key that {allowed} does not list, or its signature is damaged",
    )
    who = found.splitlines()[0] if found else ""
    words = ["-Y", "verify", "-f", str(allowed), "-I", who, "-n", NAMESPACE, "-s", str(signature)]
    _run(words, f"{file.name} is not what {who} signed", file.read_bytes())
    return who


def _run(words: list[str], failure: str, given: bytes = b"") -> str:
    try:
        done = subprocess.run(["ssh-keygen", *words], input=given, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise BundleFailed("ssh-keygen is missing", "install OpenSSH's client 8.2 or newer") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise BundleFailed(f"{failure}: {said[-1] if said else 'it gave no reason'}", "check the key and who made it")
    return done.stdout.decode("utf-8", "replace").strip()
