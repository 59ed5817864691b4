"""Exit codes of the installer, and the one exception that carries them.

    0 done   2 usage   10 signature   11 a file differs from the manifest   12 Python   13 system or C library
    14 GPU driver or compiler   15 disk   16 memory   17 permissions   18 another installer runs   19 pip failed
    20 what was installed does not run   21 there is nothing to do that to   128+n ended by signal n

packaging/install.sh uses 2, 10, 11 and 12 itself. docs/airgap.md lists them for admins.
"""

OK, USAGE = 0, 2
SIGNATURE, DIFFERS = 10, 11
PYTHON, SYSTEM, GPU, DISK, MEMORY = 12, 13, 14, 15, 16
PERMISSION, BUSY, PIP, BROKEN, NOTHING = 17, 18, 19, 20, 21


class Stop(Exception):
    """The installer cannot go on: what is wrong, with the value, and the way out."""

    def __init__(self, code: int, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.remedy = code, message, remedy


class Interrupted(Exception):
    """A signal asked the installer to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.number = number
