"""A worker's side of the private socket: one thread reads requests, one writes events, one waits for SIGTERM.

Neither blocks the compute thread: events wait in an unbounded queue for a slow reader, requests for the next look of
the compute thread between two steps. Everything that ends a worker (Shutdown, SIGTERM, the peer's end, a broken frame)
arrives as one Stop in the same inbox. Knows nothing of queues of work or of backends.
"""

import faulthandler
import logging
import os
import signal
import socket
import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import msgspec

from unabridged.engine.events import Event, Request, Shutdown, decode_request, encode
from unabridged.engine.wire import WireError, frame, read_frame

log = logging.getLogger("unabridged.engine")

# A step that has not ended by then is stuck in native code; stored KV is safe against an end at any moment.
GRACE_SECONDS = 20.0
FLUSH_SECONDS = 2.0


@dataclass(frozen=True)
class Stop:
    """Why the worker ends, and with which exit status."""

    why: str
    status: int = 0


SHUTDOWN = Stop("asked to shut down")
PEER_GONE = Stop("the server is gone")


class Link:
    """Typed messages over a socket, in threads of their own. Made by the main thread of a process that is loading."""

    def __init__(self, sock: socket.socket) -> None:
        # Our own children must not hold the socket open: its end is how the server learns of ours.
        sock.set_inheritable(False)
        self._sock = sock
        self._inbox: SimpleQueue[Request | Stop] = SimpleQueue()
        self._outbox: SimpleQueue[Event | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._loading = True
        self._closing = False
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._reader.start()
        self._writer.start()
        threading.Thread(target=self._wait_for_sigterm, name="signals", daemon=True).start()

    def loaded(self) -> None:
        """From now on a Stop is left to whoever calls `receive`; before, it ends the process at once."""
        self._loading = False

    def send(self, event: Event) -> None:
        """Queue an event; never waits. After the peer's end it is lost."""
        self._outbox.put(event)

    def receive(self, wait: bool) -> Request | Stop | None:
        """The next request. Without one: None, or with `wait` only when there is one."""
        try:
            return self._inbox.get(block=wait)
        except Empty:
            return None

    def stop(self, stop: Stop) -> None:
        """End this process: soon and cleanly, after GRACE_SECONDS in any case."""
        if self._closing:
            return
        log.info("ending: %s", stop.why)
        if self._loading:
            os._exit(stop.status)
        # Its timer runs in native code, so it fires even when no Python thread gets to run.
        faulthandler.dump_traceback_later(GRACE_SECONDS, exit=True)
        self._inbox.put(stop)

    def close(self) -> None:
        """Give the last events a moment to get out, then close the socket."""
        self._closing = True
        self._outbox.put(None)
        self._writer.join(FLUSH_SECONDS)
        self._sock.close()

    def _wait_for_sigterm(self) -> None:
        """A thread of its own: a handler would run in the compute thread, which may be waiting or in a long step."""
        signal.sigwait({signal.SIGTERM})
        self.stop(Stop("SIGTERM"))

    def _read(self) -> None:
        try:
            while (body := read_frame(self._sock)) is not None:
                request = decode_request(body)
                if isinstance(request, Shutdown):
                    return self.stop(SHUTDOWN)
                self._inbox.put(request)
            self.stop(PEER_GONE)
        except (WireError, msgspec.DecodeError) as error:
            self.stop(Stop(f"the server sent what is not a request: {error}", status=4))
        except OSError as error:
            self.stop(Stop(f"the socket cannot be read: {error}", status=4))

    def _write(self) -> None:
        try:
            while (event := self._outbox.get()) is not None:
                self._sock.sendall(frame(encode(event)))
        except OSError as error:
            log.info("events are lost, the server does not read them any more: %s", error)
