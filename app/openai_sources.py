"""Sources as text, for the many clients that show nothing but the content of a message. Pure text.

Not streamed, the content is the answer with its [n] marks, then the list. Streamed, the text has gone out before
attribution at its end knew the marks, so the list repeats which sentence each source supports:

    Sources:
    [1] lease.pdf, page 4: "The deposit is 500 euros."
        supports: "The deposit is 500 euros."
    Not supported by the documents: "It is paid in cash."
    Not read: scan.pdf, all (no text)

Clients send the conversation back: `without_sources` takes list and marks off again, so that the model does not learn
to write them.
"""

import re
from pathlib import PurePath

from unabridged.app.events import Answer, Citation, LeftOut
from unabridged.app.places import place

QUOTE_CHARACTERS = 200
LEFT_OUT_LINES = 10

_BLOCK = re.compile(r"\n\nSources:(?: none\b|\n\[1\] )[\s\S]*\Z")
_MARKS = re.compile(r" (?:\[\d{1,3}\])+(?= |\n|$)| \[(?:unsupported|not found in the documents)\]")


def sources_text(answer: Answer, *, streamed: bool) -> str:
    """What is appended to the content: "" when there is nothing to say."""
    lines = [line for citation in answer.citations for line in _source(citation, answer, streamed)]
    if streamed:
        lines += [f"Not supported by the documents: {_quoted(text)}" for text in _unsupported(answer)]
    left_out = answer.receipt.left_out
    lines += [_left_out(item) for item in left_out[:LEFT_OUT_LINES]]
    if len(left_out) > LEFT_OUT_LINES:
        lines.append(f"Not read: {len(left_out) - LEFT_OUT_LINES} more, see the receipt")
    if not lines:
        return ""
    return "\n\nSources:" + ("" if answer.citations else " none") + "\n" + "\n".join(lines)


def without_sources(content: str) -> str:
    """An answer of ours as the model wrote it."""
    return _MARKS.sub("", _BLOCK.sub("", content))


def _source(citation: Citation, answer: Answer, streamed: bool) -> list[str]:
    where = place(citation.page, citation.label)
    doubt = "" if citation.verified else " (by attention only)"
    lines = [f"[{citation.n}] {_name(citation, answer)}, {where}{doubt}: {_quoted(citation.quote)}"]
    if streamed:
        lines += [f"    supports: {_quoted(text)}" for text in _supported_by(citation.n, answer)]
    return lines


def _name(citation: Citation, answer: Answer) -> str:
    """The file's name; its path where two cited files have the same name."""
    name = _last(citation.document)
    same = {other.document for other in answer.citations if _last(other.document) == name}
    return name if len(same) == 1 else citation.document


def _last(document: str) -> str:
    """ "/a/box.mbox#3/report.pdf" is "box.mbox#3/report.pdf": what a mailbox holds is named with it."""
    file, mark, inside = document.partition("#")
    return PurePath(file).name + mark + inside


def _supported_by(n: int, answer: Answer) -> list[str]:
    return [_sentence(answer, item.start, item.end) for item in answer.sentences if n in item.citations]


def _unsupported(answer: Answer) -> list[str]:
    return [_sentence(answer, item.start, item.end) for item in answer.sentences if not item.supported]


def _sentence(answer: Answer, start: int, end: int) -> str:
    return _MARKS.sub("", answer.answer[start:end])


def _left_out(item: LeftOut) -> str:
    return f"Not read: {_last(item.document)}, {item.pages} ({item.reason})"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= QUOTE_CHARACTERS else f'"{line[: QUOTE_CHARACTERS - 1].rstrip()}…"'
