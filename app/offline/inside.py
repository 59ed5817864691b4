"""Becomes another program that has no network and whose calls are watched: `python -m unabridged.app.offline.inside FD
WORDS...`

FD is an inherited Unix socket. Over it goes a line that says how the network is cut ("namespace", or "watcher" where
the system allows none) and the number of the descriptor on which watched calls wait; the watcher takes that descriptor
and answers with a byte. Exit status 70 where the system lets nobody watch.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys

from unabridged.models import seccomp

NO_WAY = 70
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
RULES = (
    seccomp.Rule(seccomp.CONNECT, seccomp.NOTIFY),
    # Without an address it goes where connect went.
    seccomp.Rule(seccomp.SENDTO, seccomp.NOTIFY, 4, frozenset({0})),
    seccomp.Rule(seccomp.SENDMSG, seccomp.NOTIFY),
    seccomp.Rule(seccomp.SENDMMSG, seccomp.NOTIFY),
    # It connects without the calls above.
    seccomp.Rule(seccomp.IO_URING_SETUP, seccomp.refusal(errno.ENOSYS)),
)


def main() -> None:
    """Cut, be watched, become the other program."""
    tell = socket.socket(fileno=int(sys.argv[1]))
    cut = "namespace" if _cut() else "watcher"
    try:
        listener = seccomp.install(RULES, listener=True)
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        sys.exit(NO_WAY)
    with tell:
        # Not sent over the socket: that would be a watched call already, which nobody answers yet.
        os.write(tell.fileno(), f"{cut} {listener}\n".encode())
        os.read(tell.fileno(), 1)
    os.close(listener)
    os.execv(sys.argv[2], sys.argv[2:])


def _cut() -> bool:
    """Whether this process has now a network of its own, with nothing but loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NETWORK) == 0:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    elif libc.unshare(_NEW_NETWORK):
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = b"lo".ljust(16, b"\0")
        asked = fcntl.ioctl(any_socket, _GET_FLAGS, name + bytes(24))
        (flags,) = struct.unpack_from("h", asked, 16)
        fcntl.ioctl(any_socket, _SET_FLAGS, name + struct.pack("h", flags | _UP) + bytes(22))
    return True


def _write(file: str, text: str) -> None:
    with open(file, "w", encoding="ascii") as out:  # noqa: PTH123 (one write, as the kernel wants it)
        out.write(text)


if __name__ == "__main__":
    main()
