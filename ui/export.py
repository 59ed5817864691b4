"""A conversation as Markdown to keep, an answer as text to paste. Pure.

Every answer keeps its citations with document, page and passage, and its receipt: a copy must be checkable without us.
"""

from collections.abc import Iterable, Sequence

from unabridged.app.events import Answer, Citation
from unabridged.ui import format as words


def answer_text(answer: Answer) -> str:
    """The answer with its marks, then its sources with full paths."""
    sources = "\n".join(_source(citation) for citation in answer.citations)
    return f"{answer.answer.strip()}\n\nSources\n{sources}\n" if sources else answer.answer.strip() + "\n"


def conversation_markdown(exchanges: Iterable[tuple[str, Answer | None, str]]) -> str:
    """Questions with their answers. Each item is (question, answer, what was said where there is no full answer)."""
    return "\n".join(_exchange(*exchange) for exchange in exchanges)


def _exchange(question: str, answer: Answer | None, said: str) -> str:
    heading = f"## {words.clean_line(question)}\n"
    if answer is None:
        return f"{heading}\n{said.strip()}\n\n*The answer is incomplete; its sources were not checked.*\n"
    lines = [heading, answer.answer.strip(), ""]
    if answer.citations:
        lines += ["**Sources**", "", *(f"- {_source(citation)}" for citation in answer.citations), ""]
    return "\n".join([*lines, "**Receipt**", "", *_bullets(words.receipt_lines(answer.receipt))]) + "\n"


def _bullets(lines: Sequence[str]) -> list[str]:
    return [f"- {line}" for line in lines]


def _source(citation: Citation) -> str:
    doubt = "" if citation.verified else " (by attention only)"
    where = f"{words.clean(citation.document)}, {words.page_name(citation.page, words.clean(citation.label))}"
    return f"[{citation.n}] {where}{doubt}: “{words.clean_line(citation.quote)}”"
