"""The server as `doctor` sees it: whether one runs, whether its port is free, who may read its key."""

import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from unabridged.app import runtime
from unabridged.app.auth import is_loopback
from unabridged.app.errors import ServerBusy
from unabridged.app.finding import Finding

if TYPE_CHECKING:
    from unabridged.app.locations import Locations
    from unabridged.app.settings import Settings


def look(locations: "Locations", settings: "Settings | None") -> Iterator[Finding]:
    """Nothing is changed and no connection made."""
    yield from _running(locations, settings)
    if settings is not None:
        yield from _key(locations, settings)


def _running(locations: "Locations", settings: "Settings | None") -> Iterator[Finding]:
    try:
        if locations.server_lock.exists():
            with runtime.ServerLock(locations.server_lock):
                pass
    except ServerBusy as error:
        yield Finding(check="server", level="ok", text=error.message)
        return
    except OSError as error:
        yield Finding(
            check="server",
            level="fail",
            text=f"{locations.server_lock}: {error.strerror}",
            remedy="correct its permissions or choose another folder with --data-dir",
        )
        return
    yield Finding(check="server", level="ok", text="none runs; `ask` and `chat` start one when they need it")
    if settings is not None and settings.server.port:
        yield _port(settings.server.host, settings.server.port)


def _port(host: str, port: int) -> Finding:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            remedy = "unabridged config set server.port 0, or end the program that uses it"
            return Finding(check="port", level="warn", text=f"{host} port {port}: {error.strerror}", remedy=remedy)
    return Finding(check="port", level="ok", text=f"{host} port {port} is free")


def _key(locations: "Locations", settings: "Settings") -> Iterator[Finding]:
    """Who can read the API key, and what listens beyond this machine."""
    server = settings.server
    if server.api_key and locations.config_file.exists():
        mode = stat.S_IMODE(locations.config_file.stat().st_mode)
        if mode & 0o077:
            yield Finding(
                check="API key",
                level="fail",
                text=f"{locations.config_file} holds server.api_key and others may read it (mode {mode:o})",
                remedy=f"chmod 600 {locations.config_file}",
            )
    if not is_loopback(server.host):
        safe = "with a certificate" if server.tls_certificate else "not encrypted"
        yield Finding(
            check="address",
            level="ok" if server.tls_certificate else "warn",
            text=f"server.host is {server.host}: other machines can reach the server, {safe}",
            remedy=""
            if server.tls_certificate
            else "set server.tls_certificate and server.tls_key, or listen on 127.0.0.1",
        )
