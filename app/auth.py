"""Who may call: an ASGI layer in front of all routes, checking host, origin, key and size in this order.

Host    names other than this machine's are refused while we listen on loopback: a web page whose name resolves to
        127.0.0.1 (DNS rebinding) sends its own name.
Origin  a browser says from which page a request comes. Only listed origins and our own may; they get the CORS headers.
Key     a bearer token, compared in constant time. Without a configured key every program of this machine may call,
        with any token, as OpenAI's clients always send one.
Size    larger bodies are refused while they arrive, not after they fill the memory.

Knows no routes but which are public and which need the runtime key.
"""

import hmac
import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unabridged.app.errors import SettingsInvalid
from unabridged.app.replies import Refusal, refuse
from unabridged.app.settings import ServerSettings

MAX_BODY = 64 << 20
"""Bytes of the largest request: a prompt of several million tokens."""

_PUBLIC = frozenset({"/health"})
_OWNER_ONLY = frozenset({"/v1/shutdown"})
_CORS_HEADERS = frozenset({"accept", "authorization", "content-type", "user-agent", "x-requested-with"})
_CORS_PREFIXES = ("x-stainless-", "openai-")


class Guard:
    """Wraps an app; what is refused never reaches it."""

    def __init__(self, app: ASGIApp, *, settings: ServerSettings, runtime_key: str, max_body: int = MAX_BODY) -> None:
        self._app = app
        self._loopback = is_loopback(settings.host)
        self._origins = frozenset(settings.origins)
        self._keys = [key.encode() for key in (settings.api_key, runtime_key) if key]
        self._runtime_key = [runtime_key.encode()] if runtime_key else []
        self._open = not settings.api_key
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check and pass on. `scope["unabridged.trusted"]` says whether the caller may see everything."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin if origin in self._origins else None
        if allowed is not None:
            send = _with_cors(send, allowed)
        try:
            self._check_host(headers)
            self._check_origin(f"{scope['scheme']}://{headers.get('host', '')}", origin)
            if allowed is not None and _is_preflight(scope, headers):
                await _preflight(headers, scope, receive, send)
                return
            scope["unabridged.trusted"] = self._check_key(scope["path"], headers)
            self._check_length(headers)
        except Refusal as refusal:
            await refuse(refusal)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, self._max_body), send)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if self._loopback and not is_loopback(_name(host)):
            raise Refusal(
                f"the server does not answer to the name {host!r}",
                "use 127.0.0.1 or localhost",
                code="host_not_allowed",
            )

    def _check_origin(self, own: str, origin: str | None) -> None:
        if origin is not None and origin not in self._origins and origin != own:
            raise Refusal(
                f"web pages of {origin!r} may not call this server",
                "list the origin in the setting server.origins",
                code="origin_not_allowed",
            )

    def _check_key(self, path: str, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip().encode() if scheme.lower() == "bearer" else b""
        owner_only = path in _OWNER_ONLY
        trusted = (self._open and not owner_only) or _one_of(given, self._runtime_key if owner_only else self._keys)
        if not trusted and path not in _PUBLIC:
            raise Refusal(
                "the API key is wrong" if given else "an API key is needed",
                "send it as `Authorization: Bearer KEY`",
                code="invalid_api_key",
            )
        return trusted

    def _check_length(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise Refusal(f"Content-Length is {length!r}", param="Content-Length")
        if int(length) > self._max_body:
            raise _too_large(self._max_body)


def check_binding(settings: ServerSettings, *, exposed: bool) -> None:
    """Refuse to listen beyond this machine by accident. `exposed`: the caller said explicitly that it shall.

    Raises SettingsInvalid.
    """
    if "*" in settings.origins:
        raise SettingsInvalid("server.origins cannot be '*'", "name the origins, as https://app.example")
    if is_loopback(settings.host):
        return
    if not settings.api_key:
        raise SettingsInvalid(
            f"server.host is {settings.host!r}, which other machines can reach, and there is no server.api_key",
            "set server.api_key or server.api_key_file, or listen on 127.0.0.1",
        )
    if not settings.tls_certificate and not exposed:
        raise SettingsInvalid(
            f"server.host is {settings.host!r}: other machines could read your documents with the key",
            "set server.tls_certificate and server.tls_key, or add --expose: the connection is not encrypted then",
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_local_caller(scope: Scope) -> bool:
    """Whether a request comes from this machine."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0])


def _name(host: str) -> str:
    """The Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _one_of(given: bytes, keys: Iterable[bytes]) -> bool:
    return any(hmac.compare_digest(given, key) for key in keys)


def _counted(receive: Receive, limit: int) -> Receive:
    """Bodies without Content-Length are counted as they come."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> Refusal:
    return Refusal(f"the request is larger than {limit >> 20} MiB", "send less at once", code="request_too_large")


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


async def _preflight(headers: Headers, scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import Response

    asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
    granted = [name for name in asked if name in _CORS_HEADERS or name.startswith(_CORS_PREFIXES)]
    reply = Response(status_code=204)
    reply.headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE"
    reply.headers["Access-Control-Allow-Headers"] = ", ".join(granted)
    reply.headers["Access-Control-Max-Age"] = "600"
    await reply(scope, receive, send)


def _with_cors(send: Send, origin: str) -> Send:
    async def with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return with_cors
