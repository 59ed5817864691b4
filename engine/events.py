"""The typed messages between the server and an engine process. Torch-free: both sides import it.

Frames on the private socket are a 4-byte little-endian length and a msgpack body (msgspec); `encode`, `decode_request`
and `decode_event` below are the only codecs. Token ids travel as raw little-endian int32 (`pack_ids`, `unpack_ids`).

The engine knows token ids, never documents. A **context** is laid out as prefix, segments, prompt:
  prefix    ids that stand in front of every segment (the system prompt); each segment is prefilled behind it, alone or
            with the segments before it (`Composition`);
  segments  runs of ids (a document or a section of one) whose KV is stored and stands in the given order;
  prompt    the conversation: what is prefilled with everything above in view, then continued by decoding.
Positions count through the whole context: prefix at 0, first segment at len(prefix), ...
"""

from array import array
from collections.abc import Iterable
from typing import Literal

import msgspec

PROTOCOL = 1


def pack_ids(ids: Iterable[int]) -> bytes:
    """Token ids as little-endian int32."""
    return array("i", ids).tobytes()


def unpack_ids(data: bytes) -> list[int]:
    """The inverse of `pack_ids`."""
    out = array("i")
    out.frombytes(data)
    return out.tolist()


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Base of all messages; the class name is the tag on the wire."""


# ---------------------------------------------------------------------------------------------------- to the engine


class Segment(msgspec.Struct, frozen=True):
    """A run of tokens whose KV is computed once and reused wherever what it was read behind stands before it."""

    ids: bytes  # int32, see pack_ids


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the next token is chosen. temperature 0 is greedy; the other defaults are off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int = 512
    stop: tuple[str, ...] = ()


class AttentionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which attention preset runs. `preset` names one of engine.attention.config.PRESETS ("auto" lets the engine take
    the one made for the model's window); `overrides` replaces single fields of it (same names, JSON values)."""

    preset: str = "auto"
    refresh: Literal["paper", "fast", "flash", "every"] = "paper"
    overrides: dict[str, int | float | str | bool] = {}


# How segments are read. "composable": each behind the prefix alone, so that its KV serves in any place of any context;
# "joint": each behind everything before it, as one text, so that its KV serves where all of that stands before it.
Composition = Literal["composable", "joint"]


class Generate(Message, frozen=True, kw_only=True, tag=True):
    """Answer: compose prefix + segments, prefill the prompt, decode."""

    id: str
    prefix: bytes
    segments: tuple[Segment, ...]
    composition: Composition = "composable"
    prompt: bytes
    sampling: Sampling = Sampling()
    attention: AttentionChoice = AttentionChoice()
    attribution: bool = True  # send `attended` with each token


class Prefill(Message, frozen=True, kw_only=True, tag=True):
    """Compute and store the KV of these segments, nothing more. Outlook, Progress*, Finished(reason="stop"), by which
    time all of it is on the disk. What was stored before is not read; after any end the same request goes on."""

    id: str
    prefix: bytes
    segments: tuple[Segment, ...]
    composition: Composition = "composable"
    shelf: str = ""  # the name under which the store keeps the list of this KV, to be pinned, listed and removed by
    adding: bool = False  # to that list; otherwise it becomes this


class Cancel(Message, frozen=True, kw_only=True, tag=True):
    """Stop a request, queued or running, within one prefill chunk or decode step. It ends with reason "cancelled"."""

    id: str


class Shutdown(Message, frozen=True, kw_only=True, tag=True):
    """Finish nothing, close the store cleanly, exit 0."""


Request = Generate | Prefill | Cancel | Shutdown


# -------------------------------------------------------------------------------------------------- from the engine


class Ready(Message, frozen=True, kw_only=True, tag=True):
    """The first message: the model is loaded."""

    protocol: int
    engine: str  # "torch" | "llama-cpp"
    device: str  # "cpu", "cuda:0 NVIDIA ..."
    model: str  # folder name of the model
    fingerprint: str  # of weights + tokenizer + KV format + engine version; keys of stored KV carry it
    window: int  # tokens the model was trained on
    max_context: int  # tokens this engine holds on this machine: past it, context_length_exceeded
    segment_tokens: int  # the segment length that suits this engine
    whole: bool  # can attend past the window (InfiniteHiP); False: focused mode only
    load_seconds: float
    pid: int
    place: Literal["", "gpu", "host"] = ""  # of a GPU's keys and values
    memory: tuple[tuple[str, int], ...] = ()  # planned bytes of the GPU's memory by part
    host_bytes: int = 0  # of the host's memory that a GPU's keys and values may take
    notes: tuple[str, ...] = ()  # what is not as one would expect: a GPU that is there and not used


class Queued(Message, frozen=True, kw_only=True, tag=True):
    """The request waits behind `ahead` others."""

    id: str
    ahead: int


class Progress(Message, frozen=True, kw_only=True, tag=True):
    """Before the first token. `done` and `total` count tokens of the phase: "restore" (stored KV from disk), "read"
    (segments prefilled), "question" (the prompt prefilled)."""

    id: str
    phase: Literal["restore", "read", "question"]
    done: int
    total: int


class Outlook(Message, frozen=True, kw_only=True, tag=True):
    """What a Prefill will do. Tokens: `total` of all, `stored` of those on the disk already, `fits` of those that the
    store has room for, from the first on: the others are left out; `missing`: of what fits, to be read. Bytes: `size`
    of all, `stored_size` of what is there, `room` for all of it, `goes` of other KV that leaves for it."""

    id: str
    total: int
    stored: int
    fits: int
    missing: int
    size: int
    stored_size: int
    room: int
    goes: int


class Token(Message, frozen=True, kw_only=True, tag=True):
    """Text that became certain, with the ids behind it. `attended`: the context spans that attention weighed most while
    these ids were generated, as (position of the first token of a 16-token chunk, share of the attention mass outside
    sink and stream), largest first, at most 32; empty when attribution is off."""

    id: str
    text: str
    ids: tuple[int, ...]
    attended: tuple[tuple[int, float], ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts in OpenAI's sense: `cached` is the part of `prompt` whose KV was already there."""

    prompt: int
    cached: int
    completion: int


class BusReport(msgspec.Struct, frozen=True, kw_only=True):
    """What decoding had of a KV pool in host memory. Of the pages of keys, and of values, that attention chose anew:
    how many the GPU's banks held, and how many came over the bus; bytes of these; the answer's decode steps, and those
    that waited for any."""

    keys_found: int
    keys_fetched: int
    values_found: int
    values_fetched: int
    bytes: int
    steps: int
    fetching: int


class AttentionReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the answer attended. `attended`: mean number of keys a query attended to; `coverage`: the estimated share
    of attention mass that the selection kept (1.0 when dense); `bus`: where the pool lies in host memory and attention
    was sparse."""

    kind: Literal["dense", "sparse"]
    preset: str
    context: int
    attended: int
    coverage: float
    bus: BusReport | None = None


class Finished(Message, frozen=True, kw_only=True, tag=True):
    """The last message of a request that did not fail."""

    id: str
    reason: Literal["stop", "length", "cancelled"]  # "stop": end token or stop string
    usage: Usage
    attention: AttentionReport | None = None
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    notes: tuple[str, ...] = ()  # what went wrong without stopping the answer: stored KV unusable, disk full


class Failed(Message, frozen=True, kw_only=True, tag=True):
    """The last message of a request that failed, or (id None) of an engine that cannot start."""

    id: str | None
    code: str  # see engine.errors
    message: str
    hint: str = ""
    tokens: int = 0  # of the context and the limit it exceeds, with context_length_exceeded
    limit: int = 0


Event = Ready | Queued | Outlook | Progress | Token | Finished | Failed

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(Request).decode
decode_event = msgspec.msgpack.Decoder(Event).decode
