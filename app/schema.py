"""What travels over HTTP: the bodies of the native routes, the same structs on both sides.

Torch-free and library-free. The server turns its rows into these, the client decodes them; the OpenAI routes have their
own module (`openai_api`). Answers and progress are the events of `app.events`, one JSON object a line.

    GET    /health                              Health
    GET    /metrics                             text, as Prometheus reads it (app.metrics)
    POST   /v1/ask                              Question -> AskEvent a line
    GET    /v1/documents?collection=&status=&FILTER     Listing of DocumentInfo
    POST   /v1/documents                        AddFiles -> AddEvent a line
    GET    /v1/documents/{id}                   DocumentInfo
    DELETE /v1/documents/{id}?collection=       Removed
    GET    /v1/documents/{id}/pages             Listing of PageInfo
    GET    /v1/documents/{id}/pages/{n}         PageInfo
    POST   /v1/read_ahead                       ReadCollection -> ReadAheadEvent a line
    GET    /v1/collections                      Listing of CollectionInfo
    GET    /v1/search?q=&collection=&limit=&FILTER      Listing of SearchHit
    GET    /v1/conversations                    Listing of ConversationInfo
    GET    /v1/conversations/{id}               Conversation
    DELETE /v1/conversations/{id}               Removed
    POST   /v1/shutdown                         Removed (of the server itself), only with the key of the runtime file

FILTER is pattern, from, to, since, until, tag, kind and thread as in ingest.catalog.filters; pattern, tag and kind may
be given several times. What a route does not know by name, in the address or in the body, is refused.

Every failure is `{"error": {"message", "type", "param", "code"}}` with a status of 400 or above; in a stream that has
begun it is a Problem, the last line.
"""

from typing import Generic, Literal, TypeVar

import msgspec

from unabridged.app.events import Answer, Composing

T = TypeVar("T")

EngineState = Literal["stopped", "starting", "ready", "restarting", "failed"]


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A list in the envelope that OpenAI's own list routes use."""

    object: Literal["list"] = "list"
    data: tuple[T, ...] = ()


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The engine process as the server sees it. Everything below `model` is empty or 0 until it was ready once."""

    state: EngineState
    message: str = ""  # why it failed or restarts, or why it does not use the GPU, for people
    model: str = ""
    engine: str = ""  # "torch" | "llama-cpp"
    device: str = ""
    window: int = 0  # tokens the model was trained on
    max_context: int = 0  # tokens that fit this machine
    whole: bool = False  # can attend past the window
    place: Literal["", "gpu", "host"] = ""  # where a GPU's engine keeps the context
    gpu_bytes: int = 0  # of the GPU's memory, as planned
    host_bytes: int = 0  # of the host's, for the context
    load_seconds: float = 0.0
    pid: int = 0


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The server. `status` is "ok" when a question can be answered now."""

    status: Literal["ok", "starting", "failed"]
    version: str
    pid: int
    engine: EngineHealth
    requests: int = 0  # streams that run or wait now


class AddFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read these files and folders into a collection. Paths are absolute and are those of the server's machine; none
    means: look again at all folders of the collection."""

    paths: tuple[str, ...] = ()
    collection: str = "default"
    composition: Composing | None = None  # how the collection is read from now on; None: as before
    password: str | None = None  # tried on every file that wants one; never stored
    passwords: tuple[str, ...] = ()  # further ones; files that lack one are read again when there are some
    force: bool = False  # read unchanged files again
    # Patterns as in .gitignore, and names that begin with a dot; null: as when the folder was added last.
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    hidden: bool | None = None
    gitignore: bool | None = None

    @property
    def all_passwords(self) -> tuple[str, ...]:
        """`password` and `passwords`."""
        return (*((self.password,) if self.password else ()), *self.passwords)


class ReadCollection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read a collection onto the disk, so that questions find it read. `documents` as in a Question."""

    collection: str = "default"
    documents: tuple[str, ...] = ()


class DocumentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A document. `path`, `kind`, `status`, `reason`, `pages`, `tokens`, `sha256` and `parent` are the keys of
    `unabridged ls --json`; `tokens` is None until counted for the model in use."""

    id: int
    path: str
    kind: str
    status: str
    reason: str
    pages: int
    tokens: int | None
    sha256: str
    parent: str | None  # path of the document that holds this one
    parent_id: int | None = None
    title: str = ""
    size: int = 0
    meta: dict[str, str] = {}
    date: str = ""  # ISO 8601; `dated` says where it is from: "message", "metadata" or "file"
    dated: str = ""
    thread: int | None = None  # number of the conversation, of mail and of what is attached to it
    tags: tuple[str, ...] = ()


class PartInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`text[start:end]` of a page is of this kind (ingest.document.PartKind)."""

    kind: str
    start: int
    end: int


class PageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A page. `number`, `label`, `text` and `flags` are the keys of `unabridged show --json`."""

    document: int
    number: int
    label: str
    text: str
    flags: tuple[str, ...]
    parts: tuple[PartInfo, ...] = ()


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A page that contains the words. `document`, `page` and `snippet` are the keys of `unabridged search --json`."""

    document: str
    page: int
    snippet: str
    document_id: int
    label: str = ""
    all_words: bool = True  # whether the page has all that was typed; the others have some of it


class CollectionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A collection and what it holds. `statuses` counts documents by status."""

    name: str
    documents: int
    pages: int
    tokens: int | None
    composition: Composing = "auto"  # how a model reads it: each document by itself, all as one text, or by its size
    statuses: dict[str, int] = {}


class ConversationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conversation. Times are ISO 8601 in UTC; newest first in lists."""

    id: str
    title: str
    collection: str
    created: str
    updated: str
    exchanges: int


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A question and, unless it was never finished, its answer."""

    question: str
    answer: Answer | None
    asked: str = ""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored conversation with its exchanges, oldest first."""

    info: ConversationInfo
    exchanges: tuple[Exchange, ...]


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """Something is gone. For a container such as a mailbox `documents` counts what went with it."""

    id: str
    deleted: bool = True
    documents: int = 0


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, in OpenAI's shape; `hint` is the way out."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None
    hint: str = ""


class ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every reply with a status of 400 or above."""

    error: ErrorBody
