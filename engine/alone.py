"""The engine process gives up the network before it reads a model.

What does so can gain no privileges either, so the driver's own helper, which makes the devices of a card after a start
of the machine, is asked first. Torch-free.
"""

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from unabridged.models import no_network

_DEVICE = Path("/dev/nvidia-uvm")
_SECONDS = 30


def be_alone() -> None:
    """Called once, at the start of the process."""
    helper = shutil.which("nvidia-modprobe")
    if helper is not None and not _DEVICE.exists():
        # Loads the module and makes the device, as the driver itself would; where it cannot, the driver says so later.
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([helper, "-c", "0", "-u"], timeout=_SECONDS, capture_output=True, check=False)
    no_network.give_up()
