"""Opens files of which nobody knows whether they still are what they were when a folder was listed."""

import os
from io import BufferedReader


def open_at_once(path: str) -> BufferedReader:
    """The file, for reading bytes. Never waits: it may be a pipe that nobody writes to, or what /proc shows as a file,
    and then gives no byte. Raises OSError."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
