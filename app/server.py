"""The HTTP server: the app from its parts, and its life as a process.

`create_app` is the factory, `run` the command `serve`: one server a data directory, loopback unless told otherwise, its
whereabouts in the runtime file while it runs, a graceful end. Never imports torch: the engine is another process.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

from fastapi import FastAPI
from uvicorn import Config, Server

from unabridged import __version__
from unabridged.app import (
    credentials,
    openai_api,
    replies,
    routes_ask,
    routes_documents,
    routes_server,
    routes_store,
    runtime,
)
from unabridged.app.auth import MAX_BODY, Guard, check_binding
from unabridged.app.errors import ServerBusy
from unabridged.app.service import Service

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings

# How long running streams get to say goodbye after a signal.
_GRACE_SECONDS = 5
# Longer than any client of ours keeps an idle connection, so that the server is never the one to close it.
_KEEP_ALIVE_SECONDS = 75
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def create_app(
    service: Service, *, runtime_key: str = "", shut_down: Callable[[], None] | None = None, max_body: int = MAX_BODY
) -> FastAPI:
    """The app over a service that its lifespan opens and closes. `runtime_key`: see `runtime.Running`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.open()
        try:
            yield
        finally:
            await service.close()

    # No pages with interactive documentation: they load their scripts from the internet.
    app = FastAPI(title="Unabridged", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, settings=service.settings.server, runtime_key=runtime_key, max_body=max_body)
    replies.install(app)
    app.include_router(routes_server.routes(service, shut_down or service.stopping.set))
    app.include_router(routes_ask.routes(service))
    app.include_router(routes_store.routes(service))
    app.include_router(routes_documents.routes(service))
    app.include_router(openai_api.routes(service))
    return app


def run(settings: "Settings", locations: "Locations", *, child: bool = False, exposed: bool = False) -> None:
    """Serve until a signal, a shutdown request or, as a `child`, the end of standard input.

    `exposed`: the user asked in so many words to listen beyond this machine. A child takes a free port. Raises
    SettingsInvalid, ServerBusy (a second server, or the port is taken), LibraryDamaged.
    """
    server = credentials.with_key(settings.server)
    if child:
        # For programs of this machine, whatever a server that is started by hand does.
        server = server.model_copy(update={"host": "127.0.0.1", "tls_certificate": "", "tls_key": ""})
    settings = settings.model_copy(update={"server": server})
    check_binding(settings.server, exposed=exposed)
    locations.create()
    with _lock(locations) as lock, closing(_listen(settings.server.host, 0 if child else settings.server.port)) as sock:
        url = _url(sock, "https" if settings.server.tls_certificate else "http")
        lock.note(f"{os.getpid()} {url}")
        asyncio.run(_Life(settings, locations, url, child=child).serve(sock))


class _Life:
    """One run of the server in this process."""

    def __init__(self, settings: "Settings", locations: "Locations", url: str, *, child: bool) -> None:
        self._locations = locations
        self._child = child
        self._failure: OSError | None = None
        chain, key = credentials.certificate(settings.server) or (None, None)
        self._running = runtime.Running(
            url=url, pid=os.getpid(), key=runtime.new_key(), version=__version__, certificate=chain or ""
        )
        self._service = Service(settings, locations)
        app = create_app(self._service, runtime_key=self._running.key, shut_down=self._stop)
        config = Config(
            app,
            lifespan="on",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ssl_certfile=chain,
            ssl_keyfile=key,
        )
        self._server = _Server(config, self._announce)

    async def serve(self, sock: socket.socket) -> None:
        """Serve until the end. Raises LibraryDamaged, OSError (the runtime file cannot be written)."""
        await self._service.open()
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop)
        parent = asyncio.create_task(self._follow_parent()) if self._child else None
        try:
            await self._server.serve(sockets=[sock])
        finally:
            runtime.remove(self._locations.server_file, self._running.pid)
            if parent is not None:
                parent.cancel()
                await asyncio.wait([parent])
            await self._service.close()
        if self._failure is not None:
            raise self._failure

    def _announce(self) -> None:
        try:
            runtime.write(self._locations.server_file, self._running)
        except OSError as error:
            # Raised by `serve`: from here it would be buried in uvicorn's own report.
            self._failure = error
            self._stop()
            return
        print(
            f"Unabridged listens at {self._running.url} (process {self._running.pid}, Ctrl+C ends it)", file=sys.stderr
        )

    def _stop(self) -> None:
        """End soon: running streams end with an error; a second signal does not even wait for them."""
        self._server.force_exit = self._server.should_exit
        self._server.config.timeout_graceful_shutdown = _GRACE_SECONDS
        self._server.should_exit = True
        self._service.stopping.set()

    async def _follow_parent(self) -> None:
        """End when our parent does, however it does; what others still ask of us is finished first."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        with closing(transport):
            while await reader.read(1024):
                pass
        self._server.should_exit = True


class _Server(Server):
    """uvicorn's server, with our signals and a word when it is ready."""

    def __init__(self, config: Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _lock(locations: "Locations") -> runtime.ServerLock:
    return runtime.ServerLock(locations.server_lock)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise ServerBusy(
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            "another program uses it: choose a port with --port, or 0 for a free one",
        ) from error
    return sock


def _url(sock: socket.socket, scheme: str) -> str:
    host, port = sock.getsockname()[:2]
    # An address that stands for all of them is none to connect to.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
