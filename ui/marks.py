"""Markdown of an answer with its marks: [n] becomes a link, [unsupported] and [not found in the documents] stand out.

The marks are recognised by the Markdown parser, so `a[1]` inside code stays code. Raw HTML is shown as text: a
renderer that drops it would hide what the model wrote.
"""

from collections.abc import Callable, Set

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

CITE = "cite:"
UNSUPPORTED = "[unsupported]"
NOT_FOUND = "[not found in the documents]"
DOUBTS = {UNSUPPORTED: " ▵ unsupported ", NOT_FOUND: " ▵ not in the documents "}


def parser(known: Set[int]) -> Callable[[], MarkdownIt]:
    """A parser factory for `Markdown`; `known` are the numbers that are citations of this answer;
    the set may grow."""

    def build() -> MarkdownIt:
        markdown = MarkdownIt("gfm-like", {"html": False})
        markdown.inline.ruler.before("link", "citation", lambda state, silent: _rule(state, silent, known))
        return markdown

    return build


def _rule(state: StateInline, silent: bool, known: Set[int]) -> bool:
    if state.src[state.pos] != "[":
        return False
    end = state.src.find("]", state.pos, state.pos + 40)
    mark = state.src[state.pos : end + 1] if end > 0 else ""
    if mark in DOUBTS:
        draw = _doubt
    elif mark[1:-1].isdecimal() and int(mark[1:-1]) in known:
        draw = _citation
    else:
        return False
    if not silent:
        draw(state, mark)
    state.pos = end + 1
    return True


def _doubt(state: StateInline, mark: str) -> None:
    token = state.push("code_inline", "code", 0)
    token.content = DOUBTS[mark]


def _citation(state: StateInline, mark: str) -> None:
    state.push("link_open", "a", 1).attrs = {"href": CITE + mark[1:-1]}
    state.push("strong_open", "strong", 1)
    state.push("text", "", 0).content = mark
    state.push("strong_close", "strong", -1)
    state.push("link_close", "a", -1)
