"""The filter line: "from:ines since:2024-03 tag:contracts lease.pdf" to the fields of a Question, and back.

A word without a key is a part of a document's path. What a date or a kind means the server says; what is no date is
seen here. Pure functions.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

_FIELDS = {
    "doc": "documents",
    "from": "sender",
    "to": "recipient",
    "since": "since",
    "until": "until",
    "tag": "tags",
    "kind": "kinds",
    "thread": "thread",
}
_SEVERAL = frozenset({"documents", "tags", "kinds"})
_DAY = re.compile(r"\d{4}(?:[-/.]?\d{1,2}){0,2}|\d{1,4}[dwmy]|today|yesterday", re.IGNORECASE)
HINT = "from:ines to:pavel since:2024-03 until:30d tag:contracts kind:mail thread:12 lease.pdf"


def parse(text: str) -> dict[str, Any]:
    """The fields of a Question that the line sets. Raises ValueError with a sentence for people."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError("a quotation mark is left open") from None
    found: dict[str, Any] = {}
    for word in words:
        key, colon, value = word.partition(":")
        if not colon or key not in _FIELDS:
            key, value = "doc", word
        field = _FIELDS[key]
        if not value:
            raise ValueError(f"{key}: has no value")
        if field in ("since", "until") and not _DAY.fullmatch(value):
            raise ValueError(f"{value} is no date: write 2024, 2024-03, 2024-03-15, 30d or 6m")
        if field in _SEVERAL:
            found[field] = (*found.get(field, ()), value)
        elif field in found:
            raise ValueError(f"{key}: stands there twice")
        else:
            found[field] = value
    return found


def shown(fields: Mapping[str, Any]) -> str:
    """The line that `parse` turns into these fields; empty ones are left out."""
    words = []
    for key, field in _FIELDS.items():
        value = fields.get(field) or ()
        for one in (value,) if isinstance(value, str) else value:
            words.append(f"{key}:{shlex.quote(one)}" if key != "doc" else shlex.quote(one))
    return " ".join(words)
