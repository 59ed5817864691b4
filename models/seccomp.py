"""Filters on system calls, for processes of ours that give up what they do not need. Linux on x86-64, stdlib only.

A filter holds for the process that installs it and for all that it starts, and cannot be taken back. See seccomp(2).
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

SOCKET, CONNECT, SENDTO, SENDMSG, SENDMMSG, IO_URING_SETUP = 41, 42, 44, 46, 307, 425
"""Numbers of system calls on x86-64."""
ALLOW, NOTIFY, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000

_ARCHITECTURE = 0xC000003E
# Calls of the x32 interface carry this bit; they would pass by the numbers above.
_X32 = 0x40000000
_SECCOMP, _SET_FILTER, _NO_NEW_PRIVILEGES = 317, 1, 38
_ALL_THREADS, _LISTENER = 1, 8
# Classic BPF: load a word of struct seccomp_data, jump if equal, jump if greater or equal, return.
_LOAD, _EQUAL, _LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


@dataclass(frozen=True)
class Rule:
    """What becomes of a call. Where `argument` (0 to 5) is one of `passing`, it is allowed whatever `action` says."""

    call: int
    action: int
    argument: int = 0
    passing: frozenset[int] = frozenset()


def refusal(code: int) -> int:
    """The action that makes a call fail with an errno."""
    return _REFUSE | code


def install(rules: Iterable[Rule], *, listener: bool = False) -> int:
    """Install a filter for this process. All calls without a rule are allowed, other machines' calls are refused.

    With `listener` returns a descriptor on which calls with the action NOTIFY wait for an answer; else 0. Raises
    OSError where the system has none of it.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "filters on system calls are written for Linux on x86-64")
    code = _compiled(rules)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the system does not let processes give up privileges")
    flags = _LISTENER if listener else _ALL_THREADS
    result = int(libc.syscall(_SECCOMP, _SET_FILTER, flags, ctypes.byref(program)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the system takes no filter on system calls: {os.strerror(number)}")
    return result


def _compiled(rules: Iterable[Rule]) -> bytes:
    refuse = _step(_RETURN, refusal(errno.ENOSYS))
    code = _step(_LOAD, _ARCH) + _step(_EQUAL, _ARCHITECTURE, 1, 0) + refuse
    code += _step(_LOAD, _NUMBER) + _step(_LEAST, _X32, 0, 1) + refuse
    for rule in rules:
        body = b""
        if rule.passing:
            # The low half: what is compared are small numbers, and pointers with nothing.
            body += _step(_LOAD, _ARGUMENTS + 8 * rule.argument)
            for value in sorted(rule.passing):
                body += _step(_EQUAL, value, 0, 1) + _step(_RETURN, ALLOW)
        body += _step(_RETURN, rule.action)
        code += _step(_LOAD, _NUMBER) + _step(_EQUAL, rule.call, 0, len(body) // 8) + body
    return code + _step(_RETURN, ALLOW)


def _step(code: int, operand: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, operand)
