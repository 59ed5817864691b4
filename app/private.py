"""Files that hold a key, and that only their user can read, at every moment."""

import os
from contextlib import suppress
from pathlib import Path


def replace(file: Path, data: bytes) -> None:
    """Replace the file as a whole: a reader sees the old or the new one. Raises OSError that names it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(data)
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(file)) from error
