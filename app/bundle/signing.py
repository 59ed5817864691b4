"""Signatures with OpenSSH's own tool: `ssh-keygen -Y sign` (8.2 or newer); app/installer/signature.py checks them.

The key is the admin's: a file, or a public key whose private half an agent or a token holds. A signature of an Ed25519
key is the same each time; one of an ECDSA or hardware key is not.
"""

from pathlib import Path

from unabridged.app.bundle.errors import BundleFailed
from unabridged.app.installer import signature as openssh
from unabridged.app.installer.codes import Stop
from unabridged.app.installer.manifest import NAMESPACE


def sign(file: Path, key: Path) -> Path:
    """Write FILE.sig beside the file. Raises BundleFailed with ssh-keygen's reason."""
    signature = file.with_name(file.name + ".sig")
    signature.unlink(missing_ok=True)
    words = ["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(file)]
    try:
        openssh.run(words, f"{file.name} cannot be signed with {key}")
    except Stop as stop:
        raise BundleFailed(stop.message, stop.remedy) from stop
    return signature
