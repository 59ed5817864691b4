"""Models that were installed for all users of a machine, by an administrator: read, never changed. Torch-free.

UNABRIDGED_SHARED_MODELS names their folders, as PATH names those of commands; a bundle's launcher sets it. A user's own
model of the same name comes first.
"""

import os
from pathlib import Path

ENVIRONMENT = "UNABRIDGED_SHARED_MODELS"


def shared_folders() -> tuple[Path, ...]:
    """The folders, in the order in which they are looked at; those that are missing too."""
    return tuple(Path(name) for name in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if name)
