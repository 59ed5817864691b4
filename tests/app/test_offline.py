"""What the proof of being offline sees, and that it sees what a library tries behind Python's back."""

import os
import socket
import sys
from pathlib import Path

import pytest

from unabridged.app.finding import Finding
from unabridged.app.offline import papers, proving, watching
from unabridged.app.offline.watching import Attempt, CannotWatch
from unabridged.ingest.document import Status
from unabridged.ingest.worker import read_file

# Calls of the C library, so that nothing of Python's own is in between.
_TRIES = """
import ctypes, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def address(host, port):
    return struct.pack("<H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
def tried(result):
    print(result, ctypes.get_errno())
fd = libc.socket(2, 1, 0)
for host, port in (("198.51.100.7", 443), ("127.0.0.53", 53), ("127.0.0.1", 9)):
    where = address(host, port)
    tried(libc.connect(fd, where, len(where)))
datagram = libc.socket(2, 2, 0)
where = address("203.0.113.9", 4000)
tried(libc.sendto(datagram, b"x", 1, 0, where, len(where)))
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]
class Head(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Part)),
                ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int)]
where = address("203.0.113.10", 4001)
part = Part(b"x", 1)
head = Head(where, len(where), ctypes.pointer(part), 1, None, 0, 0)
tried(libc.sendmsg(datagram, ctypes.byref(head), 0))
class Many(ctypes.Structure):
    _fields_ = [("head", Head), ("length", ctypes.c_uint)]
local, far = address("127.0.0.1", 9), address("203.0.113.11", 4002)
two = (Many * 2)(Many(Head(local, 16, ctypes.pointer(part), 1, None, 0, 0)),
                 Many(Head(far, 16, ctypes.pointer(part), 1, None, 0, 0)))
tried(libc.sendmmsg(datagram, two, 2, 0))
tried(libc.syscall(425, 1, None))
import subprocess, sys
child = "import socket; s = socket.socket(10, 1); s.settimeout(3); s.connect_ex(('2001:db8::5', 80))"
subprocess.run([sys.executable, "-c", child], check=True)
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
    print("loopback works")
"""


@pytest.fixture(scope="module")
def watched() -> tuple[watching.Watch, str]:
    """A program that tries everything, and what it printed."""
    try:
        watch = watching.start([sys.executable, "-c", _TRIES], os.environ)
    except CannotWatch as error:
        pytest.skip(error.message)
    said, errors = watch.process.communicate(timeout=60)
    watch.finish()
    assert watch.process.returncode == 0, errors
    return watch, said


def test_every_way_out_is_seen_and_fails(watched: tuple[watching.Watch, str]) -> None:
    watch, said = watched
    outside = {one.where for one in watch.attempts if not one.local}
    expected = {"198.51.100.7 port 443", "127.0.0.53 port 53", "2001:db8::5 port 80"}
    assert outside == expected | {f"203.0.113.{last} port {port}" for last, port in ((9, 4000), (10, 4001), (11, 4002))}
    unreachable, refused, absent = "-1 101", "-1 111", "-1 38"
    calls = [unreachable, unreachable, refused, unreachable, unreachable, unreachable, absent]
    assert said.splitlines() == [*calls, "loopback works"]


def test_calls_to_this_machine_are_listed_apart(watched: tuple[watching.Watch, str]) -> None:
    watch, _ = watched
    local = {one.where for one in watch.attempts if one.local}
    assert "127.0.0.1 port 9" in local
    assert all(where.startswith(("127.0.0.1 port ", "/", "@", "the kernel", "no address")) for where in local)


@pytest.mark.parametrize(
    ("address", "where", "local"),
    [
        (b"\x01\x00/run/x.sock\0", "/run/x.sock", True),
        (b"\x01\x00\0name", "@name", True),
        (b"\x01\x00/run/systemd/resolve/io.systemd.Resolve\0", "/run/systemd/resolve/io.systemd.Resolve", False),
        (b"\x0a\x00\x00\x50" + bytes(4) + socket.inet_pton(socket.AF_INET6, "::1"), "::1 port 80", True),
        (
            b"\x0a\x00\x00\x50" + bytes(4) + socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.1"),
            "192.0.2.1 port 80",
            False,
        ),
        (b"\x28\x00" + bytes(14), "an address of family 40", False),
        (b"", "no address", True),
    ],
)
def test_an_address_is_read_as_the_kernel_reads_it(address: bytes, where: str, local: bool) -> None:
    assert watching._place(address) == (where, local)


def test_what_was_attempted_is_told_one_by_one_where_it_led_out() -> None:
    watch = watching.Watch.__new__(watching.Watch)
    watch.attempts = {
        Attempt("unabridged", "connect", "127.0.0.1 port 1", True): 2,
        Attempt("unabridged", "connect", "127.0.0.1 port 2", True): 1,
        Attempt("torch", "connect", "198.51.100.7 port 443", False): 3,
    }
    found: list[Finding] = list(proving._attempts(watch))
    assert [(one.check, one.level) for one in found] == [
        ("offline attempt", "fail"),
        ("offline local", "ok"),
        ("offline connections", "fail"),
    ]
    assert found[0].text == "torch: connect to 198.51.100.7 port 443, 3 times; it failed"
    assert found[1].text == "unabridged to 127.0.0.1 (any port): 3"
    assert found[2].text.startswith("6 connections and messages attempted, 3 of them beyond")


def test_the_documents_of_the_proof_are_read_in_full(tmp_path: Path) -> None:
    papers.write(tmp_path)
    for file in sorted(tmp_path.iterdir()):
        ends = [item.status for item in read_file(file) if hasattr(item, "status")]
        assert ends[-1] == Status.READ, file.name
