"""The messages between `worker` and its reader processes: a 4-byte little-endian length and a msgpack body."""

import msgspec

from unabridged.ingest.document import Closed, Opened, Page

HEADER = 4


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Read this file. `skip` pages of it (children of a container) are dealt with already: they are counted, not read.
    Documents inside it are numbered from `first_ref`."""

    path: bytes
    passwords: tuple[str, ...] = ()
    skip: int = 0
    first_ref: int = 1


class Expect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The document `ref` has this many pages."""

    ref: int
    pages: int


class Coming(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The next child of the archive has this name, should it end the process."""

    name: str


class Started(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The process is ready to read."""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The file is at its end. `peak_bytes` is the largest resident size of the process so far."""

    peak_bytes: int
    cpu_seconds: float


Reply = Opened | Page | Closed | Expect | Coming | Started | Done

decode_read = msgspec.msgpack.Decoder(Read).decode
decode_reply = msgspec.msgpack.Decoder(Reply).decode
_encode = msgspec.msgpack.Encoder().encode


def frame(message: Read | Reply) -> bytes:
    """A message as it goes over the pipe."""
    body = _encode(message)
    return len(body).to_bytes(HEADER, "little") + body
