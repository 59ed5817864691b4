"""XML to a handler, piece by piece, by expat: memory does not grow with the file. No entities, nothing from outside.

Names reach the handler without their namespaces ("p" for "w:p"): what a part of a document means is told by where it
lies, and the namespaces of strict, transitional and prefixed dialects differ.
"""

from collections.abc import Iterator, Mapping
from typing import Protocol
from xml.parsers import expat

_DEPTH = 2_000
_BUFFER = 1 << 16


class XmlError(Exception):
    """The XML is damaged, cut off, or of a kind that is refused. What came before has reached the handler."""


class Handler(Protocol):
    """What is told of elements and text, in order. Attribute names may have a namespace in front: see `attribute`."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str) -> None:
        """An element ends."""

    def text(self, data: str) -> None:
        """Characters between tags; a run of them may come in several pieces."""


class Quiet:
    """What a handler inherits that is not interested in the ends of elements, or in text."""

    def end(self, name: str) -> None:
        pass

    def text(self, data: str) -> None:
        pass


def feed(pieces: Iterator[bytes], handler: Handler, prefixes: Mapping[str, str] | None = None) -> Iterator[None]:
    """Parses `pieces`, giving way after each. Names of a namespace that contains a key of `prefixes` get its value in
    front, where names of several would be the same. Raises XmlError."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.buffer_size = _BUFFER
    local: dict[str, str] = {}
    depth = 0
    prefixed = tuple((prefixes or {}).items())

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEPTH:
            raise XmlError(f"XML nested more than {_DEPTH:,} levels deep")
        short = local.get(name)
        if short is None:
            space, _, short = name.rpartition(" ")
            short = local[name] = next((mark for key, mark in prefixed if key in space), "") + short
        handler.start(short, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        handler.end(local[name])

    def entity(*_: object) -> None:
        raise XmlError("XML that declares entities of its own: not read")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = handler.text
    parser.EntityDeclHandler = entity
    try:
        for piece in pieces:
            parser.Parse(piece, False)
            yield
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        parser.buffer_text = False  # hands over the text that it holds
        raise XmlError(f"damaged XML in line {error.lineno:,}: {expat.ErrorString(error.code)}") from error
    except (LookupError, ValueError) as error:
        # An encoding that does not exist, or is no table of one byte; values that are none of their kind.
        raise XmlError(f"XML that cannot be read ({type(error).__name__}: {error})") from error
    yield


def attribute(attributes: dict[str, str], name: str) -> str | None:
    """An attribute by its name without a namespace."""
    found = attributes.get(name)
    if found is None:
        for key, value in attributes.items():
            if key.endswith(name) and key.rpartition(" ")[2] == name:
                return value
    return found
