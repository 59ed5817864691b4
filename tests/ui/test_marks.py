"""Marks of an answer in its Markdown."""

import pytest
from markdown_it.token import Token

from unabridged.ui.marks import DOUBTS, NOT_FOUND, UNSUPPORTED, parser


def _inline(text: str) -> list[Token]:
    return [child for token in parser(frozenset({1, 12}))().parse(text) for child in token.children or ()]


def _links(text: str) -> list[object]:
    return [token.attrs["href"] for token in _inline(text) if token.type == "link_open"]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("It is so [1]. And so [12].", ["cite:1", "cite:12"]),
        ("An unknown [3] stays text.", []),
        ("Code `a[1]` stays code.", []),
        ("A [link](http://x.org) is one.", ["http://x.org"]),
        ("Bare [ bracket", []),
        ("[1](http://x.org)", ["cite:1", "http://x.org"]),
    ],
)
def test_known_numbers_become_links(text: str, links: list[object]) -> None:
    assert _links(text) == links


@pytest.mark.parametrize("mark", [UNSUPPORTED, NOT_FOUND])
def test_doubts_stand_out(mark: str) -> None:
    doubts = [token.content for token in _inline(f"It is so. {mark} Next.") if token.type == "code_inline"]
    assert doubts == [DOUBTS[mark]]


def test_raw_html_is_shown_not_dropped() -> None:
    assert any("<script>" in token.content for token in _inline("a <script>x</script> b"))
