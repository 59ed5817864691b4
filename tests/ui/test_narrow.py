"""The filter line: to fields of a question and back."""

from typing import Any

import pytest

from unabridged.app.events import Question
from unabridged.ui.narrow import parse, shown


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("from:ines", {"sender": "ines"}),
        ('from:"Ines Vega" to:@mill.example', {"sender": "Ines Vega", "recipient": "@mill.example"}),
        ("since:2024-03 until:30d", {"since": "2024-03", "until": "30d"}),
        ("tag:a tag:b kind:pdf kind:mail", {"tags": ("a", "b"), "kinds": ("pdf", "mail")}),
        ("thread:<1@x.org> lease.pdf", {"thread": "<1@x.org>", "documents": ("lease.pdf",)}),
        ("doc:a C:/b", {"documents": ("a", "C:/b")}),
    ],
)
def test_a_line_is_fields_of_a_question_and_back(text: str, fields: dict[str, Any]) -> None:
    assert parse(text) == fields
    assert parse(shown(fields)) == fields
    assert all(getattr(Question(text="?", **fields), name) == value for name, value in fields.items())


@pytest.mark.parametrize(
    ("text", "why"),
    [("from:", "from: has no value"), ('from:"a', "left open"), ("from:a from:b", "stands there twice")],
)
def test_what_cannot_be_read_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)
