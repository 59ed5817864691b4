"""The command `unabridged`, and `python -m unabridged`."""

import os
import signal
import sys


def main() -> None:
    """Runs the command line and exits. Ctrl+C while modules are still loaded ends at once and without a traceback."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_what_is_closed()
    from unabridged.app import cli

    signal.signal(signal.SIGINT, usual)
    cli.main()


def _open_what_is_closed() -> None:
    """Standard streams that were closed are nothing instead: the next file that is opened must not take their place."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    main()
