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
    try:
        from unabridged.app import cli
    except Exception as error:
        _end_damaged(error)
        raise

    signal.signal(signal.SIGINT, usual)
    cli.main()


def _end_damaged(error: Exception) -> None:
    """End with what to do where a file that every command needs is damaged in an installation from a bundle."""
    from pathlib import Path

    installer = Path(sys.prefix, "install.sh")
    if installer.is_file():
        way = f"`sh {installer} verify` names the files that were changed; install the bundle again"
        sys.exit(f"unabridged: error: the program does not start: {type(error).__name__}: {error} ({way})")


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
