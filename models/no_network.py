"""A process gives up the network: from then on it, and all that it starts, can open no socket but local ones.

The engine and the readers of files do this when they start; each speaks to the process that started it over a socket
or pipe that it inherits. What was open stays open. Torch-free.
"""

import errno
import logging

from unabridged.models import seccomp

log = logging.getLogger(__name__)

# AF_UNIX, and AF_NETLINK, by which the C library lists addresses and the driver hears of devices; neither leaves.
_LOCAL = frozenset({1, 16})
_RULES = (
    seccomp.Rule(seccomp.SOCKET, seccomp.refusal(errno.EAFNOSUPPORT), 0, _LOCAL),
    # It opens sockets without the call above.
    seccomp.Rule(seccomp.IO_URING_SETUP, seccomp.refusal(errno.ENOSYS)),
)


def give_up() -> bool:
    """Whether it could be done; where the system has no such filters, the log says so and nothing else changes."""
    try:
        seccomp.install(_RULES)
    except OSError as error:
        log.warning("this process could not give up the network: %s", error.strerror)
        return False
    return True
