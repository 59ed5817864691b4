"""A process that gave up the network opens no socket but local ones, nor does what it starts."""

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

_TRY = """
import socket, sys
from unabridged.models.no_network import give_up
assert give_up()
inherited = socket.socket(fileno=int(sys.argv[1]))
inherited.sendall(b"still here")
for family in map(int, sys.argv[2:]):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        print("open")
    except OSError as error:
        print(error.errno)
import subprocess
code = "import socket; socket.create_connection(('127.0.0.1', 9), 1)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.splitlines()[-1])
"""


def test_only_local_sockets_are_left() -> None:
    ours, theirs = socket.socketpair()
    families = (socket.AF_UNIX, socket.AF_NETLINK, socket.AF_INET, socket.AF_INET6, socket.AF_PACKET)
    with ours, theirs:
        words = [str(theirs.fileno()), *(str(int(family)) for family in families)]
        command = [sys.executable, "-c", _TRY, *words]
        done = subprocess.run(command, pass_fds=(theirs.fileno(),), capture_output=True, text=True, check=True)
        assert ours.recv(32) == b"still here"
    refused = str(errno.EAFNOSUPPORT)
    *found, child = done.stdout.splitlines()
    assert found == ["open", "open", refused, refused, refused]
    assert "not supported" in child


@pytest.mark.parametrize("module", ["unabridged.ingest.reader", "unabridged.engine.worker"])
def test_processes_that_read_what_others_wrote_give_it_up(module: str) -> None:
    code = f"""
import runpy, sys
from unabridged.models import no_network
no_network.give_up = lambda: sys.exit(77)
sys.argv = ["{module}"]
runpy.run_module("{module}", run_name="__main__")
"""
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=Path("/"), capture_output=True, check=False).returncode == 77
    )
