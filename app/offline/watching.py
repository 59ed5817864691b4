"""Watches a program and all that it starts: every call that would reach an address is looked at before it happens.

The kernel holds such calls until we answer (seccomp_unotify(2)). Calls to this machine go on, all others fail as on a
machine without a network; each is noted, whichever library makes it. What a program writes into the address between our
look and the kernel's is not seen: this is a witness for honest programs, the namespace is what holds others.
"""

import ctypes
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from unabridged.app.errors import AppError
from unabridged.models import seccomp

_RECEIVE, _SEND, _VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_TAKE_DESCRIPTOR = 438
_NOTICE = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_LARGEST = 128
_MESSAGES = 64
# Services of this machine that ask others: a name server on loopback, systemd's resolver.
_DNS = 53
_RESOLVERS = ("io.systemd.Resolve", "/resolve/")
_NAMES = {
    seccomp.CONNECT: "connect",
    seccomp.SENDTO: "sendto",
    seccomp.SENDMSG: "sendmsg",
    seccomp.SENDMMSG: "sendmmsg",
}
_START_SECONDS = 30


class CannotWatch(AppError):
    """This system lets a user neither cut the network nor watch system calls."""

    code = "cannot_watch"


@dataclass(frozen=True)
class Attempt:
    """One place that a process addressed. `where`: "127.0.0.1 port 8642", "/run/x.sock"; `local`: it is this machine,
    and asks no other."""

    program: str
    call: str
    where: str
    local: bool


@dataclass
class Watch:
    """A program under watch. `cut`: "namespace" or "watcher", see `inside`."""

    process: subprocess.Popen[str]
    cut: str
    attempts: dict[Attempt, int] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def finish(self) -> None:
        """Wait until all that the program started has ended."""
        if self._thread is not None:
            self._thread.join()


def start(words: Sequence[str], environment: Mapping[str, str]) -> Watch:
    """Start a program with its output in a pipe. Raises CannotWatch, with the system's reason."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-P", "-m", "unabridged.app.offline.inside", str(theirs.fileno()), *words]
        process = subprocess.Popen(
            command,
            env=dict(environment),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        ours.settimeout(_START_SECONDS)
        told = ours.recv(64).decode("ascii").split()
        if len(told) != 2:
            _, said = process.communicate()
            raise CannotWatch(
                f"system calls cannot be watched here: {said.strip() or 'no reason given'}",
                "run it where seccomp is allowed (Linux 5.6 or newer), outside a container that forbids it",
            )
        try:
            listener = _taken(process.pid, int(told[1]))
        except OSError as error:
            process.kill()
            raise CannotWatch(
                f"system calls cannot be watched here: {error.strerror}", "use Linux 5.6 or newer"
            ) from error
        ours.send(b".")
    watch = Watch(process, told[0])
    watch._thread = threading.Thread(target=_answer_all, args=(listener, watch.attempts), daemon=True)
    watch._thread.start()
    return watch


def _taken(pid: int, descriptor: int) -> int:
    """Another process's descriptor as one of ours."""
    handle = os.pidfd_open(pid)
    try:
        found = int(ctypes.CDLL(None, use_errno=True).syscall(_TAKE_DESCRIPTOR, handle, descriptor, 0))
    finally:
        os.close(handle)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _answer_all(listener: int, attempts: dict[Attempt, int]) -> None:
    """Until nothing is left that could call."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    try:
        while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll()):
            # A process that ended in between leaves nothing to answer.
            with suppress(FileNotFoundError, ProcessLookupError):
                _answer(listener, attempts)
    finally:
        os.close(listener)


def _answer(listener: int, attempts: dict[Attempt, int]) -> None:
    notice = bytearray(_NOTICE.size)
    fcntl.ioctl(listener, _RECEIVE, notice)
    id, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
    found = _attempts(pid, call, arguments)
    # Whether it is still the process that called whose memory was read.
    fcntl.ioctl(listener, _VALID, struct.pack("<Q", id))
    for one in found:
        attempts[one] = attempts.get(one, 0) + 1
    allowed = all(one.local for one in found)
    answer = _ANSWER.pack(id, 0, 0 if allowed else -errno.ENETUNREACH, _CONTINUE if allowed else 0)
    fcntl.ioctl(listener, _SEND, answer)


def _attempts(pid: int, call: int, arguments: Sequence[int]) -> list[Attempt]:
    """What a call addresses; nothing for a message that goes where its socket is connected to."""
    program = _program(pid)
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            addresses = list(_addresses(memory.fileno(), call, arguments))
    except OSError as error:
        return [Attempt(program, _NAMES[call], f"an address that cannot be read: {error.strerror}", False)]
    return [Attempt(program, _NAMES[call], where, local) for where, local in map(_place, addresses)]


def _addresses(memory: int, call: int, arguments: Sequence[int]) -> list[bytes]:
    if call == seccomp.CONNECT:
        return [_read(memory, arguments[1], arguments[2])]
    if call == seccomp.SENDTO:
        return [_read(memory, arguments[4], arguments[5])]
    # struct msghdr begins with the address and its length; struct mmsghdr is one and a length, in 64 bytes.
    count = min(arguments[2], _MESSAGES) if call == seccomp.SENDMMSG else 1
    heads = [struct.unpack("<QI", _read(memory, arguments[1] + 64 * number, 12)) for number in range(count)]
    return [_read(memory, pointer, length) for pointer, length in heads if pointer and length]


def _read(memory: int, place: int, length: int) -> bytes:
    return os.pread(memory, min(length, _LARGEST), place)


def _place(address: bytes) -> tuple[str, bool]:
    """A socket address in words, and whether it is this machine."""
    (family,) = struct.unpack_from("<H", address.ljust(2, b"\0"))
    if family in (socket.AF_UNSPEC, socket.AF_NETLINK):
        return ("no address" if family == socket.AF_UNSPEC else "the kernel (netlink)"), True
    if family == socket.AF_UNIX:
        path = os.fsdecode(
            address[2:].replace(b"\0", b"@", 1) if address[2:3] == b"\0" else address[2:].split(b"\0")[0]
        )
        return path, not any(one in path for one in _RESOLVERS)
    if family in (socket.AF_INET, socket.AF_INET6):
        (port,) = struct.unpack_from(">H", address, 2)
        host = ipaddress.ip_address(address[4:8] if family == socket.AF_INET else address[8:24])
        # An IPv4 address in IPv6 clothes is told as what it is.
        host = getattr(host, "ipv4_mapped", None) or host
        return f"{host} port {port}", host.is_loopback and port != _DNS
    return f"an address of family {family}", False


def _program(pid: int) -> str:
    """Name of a process for people."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        module = words[words.index(b"-m") + 1] if b"-m" in words else words[0].rpartition(b"/")[2]
    except (OSError, IndexError):
        return "a process that ended"
    return os.fsdecode(module)
