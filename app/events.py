"""What a client sees while a question is answered or files are read. Torch-free; CLI, TUI and API consume these.

An answer is a stream: Stage* (Delta | Stage)* Answer, or Problem at any point instead. Adding files is a stream of
FileRead with Stage between, closed by Added. Reading a collection onto the disk: Stage*, Forecast, Stage*, ReadAhead.
"""

from typing import Literal

import msgspec

from unabridged.engine.events import Composition as Composition
from unabridged.engine.events import Sampling

# What a collection says of how it is read: "auto" by its size.
Composing = Literal["auto", "composable", "joint"]


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Narrowing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which documents are asked of. `documents` are glob patterns or substrings of document paths; none means all of
    the collection. `sender` ("from" in JSON) to `thread` narrow it further (ingest.catalog.filters).
    """

    documents: tuple[str, ...] = ()
    sender: str = msgspec.field(default="", name="from")
    recipient: str = msgspec.field(default="", name="to")
    since: str = ""
    until: str = ""
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    thread: str = ""


class Question(Narrowing, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked. `conversation` continues a stored one; `history` is for stateless callers (the OpenAI endpoint)
    and is not stored.
    """

    text: str
    collection: str = "default"
    mode: Literal["auto", "whole", "focused"] = "auto"
    conversation: str | None = None
    history: tuple[Turn, ...] = ()
    sampling: Sampling = Sampling()
    store: bool = True  # keep the exchange in the conversation history


class Stage(msgspec.Struct, frozen=True, kw_only=True, tag="stage"):
    """Progress of long work. `done` and `total` are counts of `unit`; total 0 means unknown."""

    name: Literal["start", "queue", "plan", "restore", "read", "question", "files"]
    text: str = ""  # a sentence for people: "reading contract.pdf, 12 of 40 pages"
    done: int = 0
    total: int = 0
    unit: str = ""
    seconds_left: float | None = None


class Delta(msgspec.Struct, frozen=True, kw_only=True, tag="delta"):
    """A piece of the answer's text as it is generated, without citation marks."""

    text: str


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a document that supports a sentence of the answer."""

    n: int  # the [n] in the answer
    document: str  # path of the document, as `ls` prints it
    document_id: int
    page: int  # physical, from 1
    label: str  # printed label, "" when equal to the number
    quote: str  # the passage, verbatim from the stored text
    start: int  # character span of the quote in the page's text
    end: int
    verified: bool  # the quote supports the sentence by text overlap, not by attention alone


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer did not take into account, and why."""

    document: str
    pages: str  # "all", "3-7"
    reason: str


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What decoding brought to the GPU for an answer whose context lay in host memory. `keys` and `values`: of the
    pages that attention chose, the share that was there already."""

    keys: float
    values: float
    bytes: int  # over the bus
    steps: int  # decode steps
    waiting: int  # of these, which waited for any of it


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer rests on."""

    mode: Literal["whole", "focused"]
    why: str  # why this mode
    model: str
    engine: str
    documents: int
    pages: int
    tokens: int  # of documents, in context
    context: int  # all tokens: prefix, documents, conversation
    cached: int  # of these, not read again
    attended: int  # mean keys attended per query
    coverage: float  # estimated share of attention mass kept
    attention: str  # "dense", or the preset's name
    completion: int
    seconds_to_first_token: float
    seconds: float
    finish: Literal["stop", "length", "cancelled"]
    fetched: Fetched | None = None
    composition: Composition = "composable"  # how documents were read: each by itself, or all as one text
    repeated: int = 0  # tokens of quotations that were left out, since the messages that they quote are in context
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()  # anything a careful reader should know


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of the answer with its support: `answer[start:end]` of the text that carries the marks."""

    start: int
    end: int
    citations: tuple[int, ...]
    supported: bool


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The end of a stream that went well."""

    answer: str  # with [n] marks; a sentence that nothing supports ends in "[unsupported]"; a quotation that is not in
    # the documents ends in "[not found in the documents]"
    text: str  # as generated
    citations: tuple[Citation, ...]
    sentences: tuple[Sentence, ...]
    receipt: Receipt
    conversation: str  # id, to go on with


class Problem(msgspec.Struct, frozen=True, kw_only=True, tag="problem"):
    """The end of a stream that failed. `code` as in the API's errors."""

    code: str
    message: str
    hint: str = ""


class FileRead(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """One file was dealt with. Keys are those of `ls --json`, with what became of it."""

    path: str
    kind: str
    status: str
    reason: str
    pages: int
    documents: int  # itself and what it holds (messages, attachments)
    change: Literal["new", "changed", "unchanged", "moved", "removed"]
    inside: dict[str, int] = {}  # of what it holds, how many documents of each status but read


class Added(msgspec.Struct, frozen=True, kw_only=True, tag="added"):
    """The end of reading files: how many files of each status and change.

    `files` and `statuses` do not count those that are gone ("removed" in `changes`). `ignored`: by rule, how many
    files were left out; they and `files` are all that lies there. `inside`: of what files hold (attachments, files of
    an archive), how many documents of each status but read.
    """

    collection: str
    files: int
    statuses: dict[str, int]
    changes: dict[str, int]
    seconds: float
    ignored: dict[str, int] = {}
    inside: dict[str, int] = {}


class Forecast(msgspec.Struct, frozen=True, kw_only=True, tag="forecast"):
    """What reading a collection onto the disk will do, said before it begins. `bytes_room`: what the collection may
    take in the store; `bytes_dropped`: of other stored KV, what goes for it, as it was not used for longest."""

    collection: str
    documents: int
    tokens: int  # of all, with the prompt that stands before documents
    stored: int  # of these, on the disk already
    missing: int  # to be read: of what there is room for, what is not stored
    bytes: int
    bytes_stored: int
    bytes_room: int
    bytes_dropped: int
    left_out: tuple[LeftOut, ...] = ()


class ReadAhead(msgspec.Struct, frozen=True, kw_only=True, tag="read_ahead"):
    """The end of reading a collection onto the disk. Tokens: `read` now, `stored` before, of `tokens`."""

    collection: str
    tokens: int
    read: int
    stored: int
    seconds: float
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


AskEvent = Stage | Delta | Answer | Problem
AddEvent = Stage | FileRead | Added | Problem
ReadAheadEvent = Stage | Forecast | ReadAhead | Problem
