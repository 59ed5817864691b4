"""The client of our own server: typed results over httpx. The CLI and the TUI speak through it, nothing else.

It knows the routes of `app.schema` and the events of `app.events`; it knows neither the library nor the engine. Calls
that return one thing raise `ClientError`. The streams `ask` and `add` do not raise for what fails at the server or on
the way: they end with a `Problem`, so that there is one place to show it. Closing a stream (leaving `async for` with
`aclosing`, or cancelling the task) closes its connection, which stops the engine's work for it.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, TypeVar

import httpx
import msgspec

from unabridged.app.events import AddEvent, AskEvent, Composing, Problem, Question, ReadAheadEvent
from unabridged.app.schema import (
    AddFiles,
    CollectionInfo,
    Conversation,
    ConversationInfo,
    DocumentInfo,
    EngineHealth,
    ErrorReply,
    Exchange,
    Health,
    Listing,
    PageInfo,
    PartInfo,
    ReadCollection,
    Removed,
    SearchHit,
)
from unabridged.models.errors import UnabridgedError

__all__ = [
    "Client",
    "ClientError",
    "CollectionInfo",
    "Conversation",
    "ConversationInfo",
    "DocumentInfo",
    "EngineHealth",
    "Exchange",
    "Health",
    "PageInfo",
    "PartInfo",
    "Removed",
    "SearchHit",
]

T = TypeVar("T")

_CONNECT_SECONDS = 5.0
_REPLY_SECONDS = 60.0


class ClientError(UnabridgedError):
    """The server refused, failed, or cannot be reached (code "server_unreachable", status 0)."""

    def __init__(self, message: str, hint: str = "", *, code: str = "error", status: int = 0) -> None:
        super().__init__(message, hint)
        self.code = code
        self.status = status

    def problem(self) -> Problem:
        """The same as the last event of a stream."""
        return Problem(code=self.code, message=self.message, hint=self.hint)


def _trust(certificate: str) -> ssl.SSLContext:
    """Our own server is known by its certificate, not by a name."""
    try:
        context = ssl.create_default_context(cafile=certificate)
    except OSError as error:
        raise ClientError(
            f"the server's certificate {certificate} cannot be read: {error}", "check the file"
        ) from error
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


class Client:
    """One server. Use as `async with`, or call `aclose`."""

    def __init__(
        self, url: str, key: str = "", *, certificate: str = "", transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`url` as in the runtime file ("http://127.0.0.1:8642"), `key` sent as bearer token when not empty.

        `certificate`: a file with the server's, by which it is known. Raises ClientError when that cannot be read.
        """
        self.url = url.rstrip("/")
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(_REPLY_SECONDS, connect=_CONNECT_SECONDS),
            transport=transport,
            verify=_trust(certificate) if certificate else True,
            # Proxies of the environment are for the outside; documents never go through one.
            trust_env=False,
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections; streams that run end at the server too."""
        await self._http.aclose()

    # ------------------------------------------------------------------------------------------------ streams

    def ask(self, question: Question) -> AsyncGenerator[AskEvent, None]:
        """Stage and Delta events, then an Answer or a Problem."""
        return self._lines("/v1/ask", question, AskEvent)

    def add(
        self,
        paths: Sequence[str],
        collection: str = "default",
        *,
        composition: Composing | None = None,
        password: str | None = None,
        force: bool = False,
    ) -> AsyncGenerator[AddEvent, None]:
        """Read files and folders (absolute paths; none: look again at the collection's folders). Stage and FileRead
        events, then Added or a Problem. `composition`: how the collection is read from now on; None: as before."""
        files = AddFiles(
            paths=tuple(paths), collection=collection, composition=composition, password=password, force=force
        )
        return self._lines("/v1/documents", files, AddEvent)

    def read_ahead(
        self, collection: str = "default", documents: Sequence[str] = ()
    ) -> AsyncGenerator[ReadAheadEvent, None]:
        """Read a collection onto the disk. Stage events, a Forecast, Stage events, then ReadAhead or a Problem."""
        wanted = ReadCollection(collection=collection, documents=tuple(documents))
        return self._lines("/v1/read_ahead", wanted, ReadAheadEvent)

    # ---------------------------------------------------------------------------------------------- documents

    async def documents(self, collection: str = "default", pattern: str = "", status: str = "") -> list[DocumentInfo]:
        """Documents in the order of `ls`; `pattern` is a glob or a part of the path, `status` one of ingest's."""
        query = {"collection": collection, "pattern": pattern, "status": status}
        return await self._list("/v1/documents", DocumentInfo, query)

    async def document(self, document_id: int) -> DocumentInfo:
        """One document; raises ClientError with code "document_not_found"."""
        return await self._get(f"/v1/documents/{document_id}", DocumentInfo)

    async def pages(self, document_id: int) -> list[PageInfo]:
        """All pages of a document."""
        return await self._list(f"/v1/documents/{document_id}/pages", PageInfo)

    async def page(self, document_id: int, number: int) -> PageInfo:
        """One page, counted from 1; raises ClientError with code "page_not_found"."""
        return await self._get(f"/v1/documents/{document_id}/pages/{number}", PageInfo)

    async def remove(self, document_id: int, collection: str = "") -> Removed:
        """Take a document and what it holds out of a collection, or (collection "") out of the library."""
        query = {"collection": collection} if collection else {}
        return await self._send("DELETE", f"/v1/documents/{document_id}", Removed, query)

    async def collections(self) -> list[CollectionInfo]:
        """All collections, by name."""
        return await self._list("/v1/collections", CollectionInfo)

    async def search(self, query: str, collection: str = "default", limit: int = 20) -> list[SearchHit]:
        """Pages that contain the words, best first."""
        params = {"q": query, "collection": collection, "limit": str(limit)}
        return await self._list("/v1/search", SearchHit, params)

    # ------------------------------------------------------------------------------------------ conversations

    async def conversations(self) -> list[ConversationInfo]:
        """Stored conversations, newest first."""
        return await self._list("/v1/conversations", ConversationInfo)

    async def conversation(self, conversation_id: str) -> Conversation:
        """One conversation with its answers; raises ClientError with code "conversation_not_found"."""
        return await self._get(f"/v1/conversations/{conversation_id}", Conversation)

    async def forget(self, conversation_id: str) -> Removed:
        """Delete a conversation."""
        return await self._send("DELETE", f"/v1/conversations/{conversation_id}", Removed)

    # ------------------------------------------------------------------------------------------------- server

    async def health(self) -> Health:
        """The server's and the engine's state; a failed engine is a result, not an error."""
        reply = await self._request("GET", "/health", accept=(200, 503))
        return _decode(reply, Health)

    async def shutdown(self) -> None:
        """End the server; needs the key of its runtime file."""
        await self._request("POST", "/v1/shutdown")

    # ------------------------------------------------------------------------------------------------ private

    async def _list(self, path: str, item: type[T], query: dict[str, str] | None = None) -> list[T]:
        listing = await self._send("GET", path, Listing[item], query)  # type: ignore[valid-type]
        return list(listing.data)

    async def _get(self, path: str, kind: type[T]) -> T:
        return await self._send("GET", path, kind)

    async def _send(self, method: str, path: str, kind: type[T], query: dict[str, str] | None = None) -> T:
        return _decode(await self._request(method, path, query), kind)

    async def _request(
        self, method: str, path: str, query: dict[str, str] | None = None, accept: tuple[int, ...] = (200,)
    ) -> httpx.Response:
        try:
            reply = await self._http.request(method, path, params=query)
        except httpx.TransportError as error:
            raise _unreachable(self.url, error) from error
        if reply.status_code not in accept:
            raise _refused(reply.status_code, reply.content)
        return reply

    async def _lines(self, path: str, body: msgspec.Struct, events: Any) -> AsyncGenerator[Any, None]:
        decode = msgspec.json.Decoder(events).decode
        try:
            # A generator that is closed does not close the one it iterates: aclosing does, and with it the connection.
            async with aclosing(self._post(path, body)) as lines:
                async for line in lines:
                    yield decode(line)
        except httpx.TransportError as error:
            yield _unreachable(self.url, error).problem()
        except ClientError as error:
            yield error.problem()
        except msgspec.DecodeError as error:
            yield _unintelligible(str(error)).problem()

    async def _post(self, path: str, body: msgspec.Struct) -> AsyncGenerator[bytes]:
        # A long prefill is silent work, not a dead server: only connecting has a limit.
        request = self._http.build_request(
            "POST",
            path,
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
        )
        reply = await self._http.send(request, stream=True)
        try:
            if reply.status_code != 200:
                raise _refused(reply.status_code, await reply.aread())
            async for line in _split(reply.aiter_bytes()):
                yield line
        finally:
            await reply.aclose()


async def _split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    # Not httpx's aiter_lines: that also splits at U+2028 and U+0085, which stand unescaped in JSON strings.
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest


def _decode(reply: httpx.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(reply.content, type=kind)
    except msgspec.DecodeError as error:
        raise _unintelligible(str(error)) from error


def _refused(status: int, content: bytes) -> ClientError:
    try:
        error = msgspec.json.decode(content, type=ErrorReply).error
    except msgspec.DecodeError:
        return ClientError(f"the server replied {status} without saying why", code="bad_reply", status=status)
    # For OpenAI's clients, which show nothing else, the message ends with the hint.
    message = error.message.removesuffix(f" ({error.hint})")
    return ClientError(message, error.hint, code=error.code or error.type, status=status)


def _unreachable(url: str, error: httpx.TransportError) -> ClientError:
    detail = str(error) or type(error).__name__
    return ClientError(
        f"no answer from the server at {url}: {detail}",
        "see `unabridged doctor`; the server's log says why it ended",
        code="server_unreachable",
    )


def _unintelligible(detail: str) -> ClientError:
    return ClientError(
        f"the server's reply is not what this version expects: {detail}",
        "client and server are of different versions: stop the server and start it again",
        code="bad_reply",
    )
