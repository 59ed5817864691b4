"""Words and figures for people: statuses, durations, counts, receipts, error lines. Pure functions over event types.

Nothing here knows of a terminal or a widget. Text that came out of a document, a file name or a model passes through
`clean` before it is shown: a document must not be able to move the cursor or change the title of the terminal.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath

from unabridged.app import places
from unabridged.app.events import Added, Citation, Fetched, LeftOut, Problem, Receipt, Stage

# Offsets into a page must survive, so each control character becomes exactly one visible character.
_VISIBLE = {code: 0x2400 + code for code in range(0x20)} | dict.fromkeys(range(127, 160), 65533)
_VISIBLE |= {0x202A + i: 0x00B7 for i in range(5)} | {0x2066 + i: 0x00B7 for i in range(4)}
_VISIBLE[0x09] = 0x20
del _VISIBLE[0x0A]

# How documents were read, where it is not each by itself.
_AS_ONE = {"composable": "", "joint": ", read as one text (joint)"}

STATUSES: Mapping[str, tuple[str, str]] = {
    "read": ("✓", "read"),
    "partial": ("◐", "partly read"),
    "needs_password": ("⊠", "needs password"),
    "no_text": ("∅", "no text"),
    "damaged": ("✗", "damaged"),
    "unsupported": ("–", "not supported"),
    "too_large": ("▲", "too large"),
}


def clean(text: str) -> str:
    """The text with control and direction-override characters made visible; same length, "\\n" kept."""
    return text.translate(_VISIBLE)


def clean_line(text: str) -> str:
    """`clean` on one line: every run of white space becomes one space."""
    return " ".join(clean(text).split())


def status(word: str) -> tuple[str, str]:
    """Glyph and words of a document's status."""
    return STATUSES.get(word, ("?", word.replace("_", " ")))


def is_problem(word: str) -> bool:
    """Whether a document of this status was not read in full."""
    return word != "read"


def count(number: int, one: str, many: str = "") -> str:
    """ "1 page", "1,200 pages"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """A short figure: 950, 12.4k, 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1e6:.1f}M" if number >= 999_950 else f"{number / 1e3:.1f}k"


def duration(seconds: float) -> str:
    """ "0.8 s", "42 s", "3 min 05 s", "2 h 10 min"."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def shorten(text: str, width: int) -> str:
    """The text in at most `width` characters, its middle left out: names differ at their ends."""
    if len(text) <= width:
        return text
    if width < 3:
        return text[:width]
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def name_of(path: str) -> str:
    """The last part of a document's path: "report.pdf", "box.mbox#3"."""
    return PurePath(path).name or path


def page_name(number: int, label: str) -> str:
    """ "page 7", "page 7 (printed iv)" where the printed label differs, or "sheet Costs, rows 2-40"."""
    if places.is_named(label):
        return label
    return f"page {number} (printed {label})" if label and label != str(number) else f"page {number}"


STAGES: Mapping[str, str] = {
    "start": "starting",
    "queue": "waiting",
    "plan": "choosing what to read",
    "restore": "loading what was read before",
    "read": "reading",
    "question": "thinking about the question",
    "files": "reading files",
}


def stage(event: Stage) -> str:
    """A line of progress: what, how far, how long still."""
    parts = [f"{duration(event.seconds_left)} left"] if event.seconds_left is not None else []
    parts.append(clean_line(event.text) or STAGES[event.name])
    if event.total and not event.text:
        parts.append(f"{event.done:,} of {event.total:,} {event.unit}".rstrip())
    return " · ".join(parts)


def error_line(message: str, hint: str = "") -> str:
    """One line: what failed, then the way out."""
    line = clean_line(message)
    return f"{line} → {clean_line(hint)}" if hint else line


def problem(event: Problem) -> str:
    """A failed stream as one line."""
    return error_line(event.message, event.hint)


def citation_line(citation: Citation) -> str:
    """ "[1] contract.pdf · p. 3 · “the passage”"."""
    label = clean(citation.label)
    place = label if places.is_named(label) else f"p. {citation.page}{f' ({label})' if label else ''}"
    doubt = "" if citation.verified else " · by attention only"
    where = f"{clean(name_of(citation.document))} · {place}"
    return f"[{citation.n}] {where}{doubt} · “{clean_line(citation.quote)}”"


def receipt_title(receipt: Receipt) -> str:
    """The receipt in one line, what was left out first among the figures."""
    parts = [receipt.mode, count(receipt.documents, "document"), count(receipt.pages, "page")]
    if receipt.left_out:
        parts.append(f"{len(receipt.left_out):,} left out")
    parts += [f"{tokens(receipt.context)} tokens", duration(receipt.seconds)]
    if receipt.finish != "stop":
        parts.append({"length": "cut at the length limit", "cancelled": "stopped"}[receipt.finish])
    return " · ".join(parts)


def fetched(found: Fetched) -> str:
    """What an answer over a context in host memory had of the bus."""
    each = found.bytes / 1e6 / max(1, found.steps)
    return (
        f"Context in host memory: the GPU had {found.keys:.1%} of the keys and {found.values:.1%} of the values that "
        f"attention chose; {each:.1f} MB a step came over the bus, in {found.waiting:,} of {found.steps:,} steps"
    )


def receipt_lines(receipt: Receipt) -> list[str]:
    """Everything that a receipt says, a line each."""
    lines = [
        f"Mode: {receipt.mode} ({clean_line(receipt.why)})" if receipt.why else f"Mode: {receipt.mode}",
        f"Model: {clean_line(receipt.model)} on {clean_line(receipt.engine)}",
        f"Documents in context: {receipt.documents:,}, with {count(receipt.pages, 'page')} "
        f"and {count(receipt.tokens, 'token')}" + _AS_ONE[receipt.composition],
        f"All of the context: {count(receipt.context, 'token')}, {receipt.cached:,} of them read before",
        f"Attention: {clean_line(receipt.attention)}, {receipt.attended:,} keys a step, "
        f"{receipt.coverage:.0%} of the attention kept",
        f"Answer: {count(receipt.completion, 'token')}, first after {duration(receipt.seconds_to_first_token)}, "
        f"all after {duration(receipt.seconds)}",
    ]
    lines += [fetched(receipt.fetched)] if receipt.fetched else []
    lines += [f"Note: {clean_line(note)}" for note in receipt.notes]
    return lines + [f"Left out: {left_out(item)}" for item in receipt.left_out]


def left_out(item: LeftOut) -> str:
    """ "report.pdf, pages 3-7: why"."""
    pages = "all of it" if item.pages == "all" else f"pages {item.pages}"
    return f"{clean(name_of(item.document))}, {pages}: {clean_line(item.reason)}"


def unread(statuses: Mapping[str, int]) -> str:
    """How many there are of each status but read: "1 needs password, 2 damaged"."""
    return ", ".join(f"{number:,} {status(word)[1]}" for word, number in statuses.items() if number and word != "read")


def added(event: Added) -> str:
    """The summary of reading files: how many, what changed, what could not be read."""
    changes = ", ".join(f"{number:,} {word}" for word, number in event.changes.items() if number)
    line = f"{count(event.files, 'file')} in {duration(event.seconds)}"
    inside = unread(event.inside)
    bad = " · ".join(filter(None, (unread(event.statuses), f"of what files hold: {inside}" if inside else "")))
    return line + (f" · {changes}" if changes else "") + (f" · {bad}" if bad else " · all files read")


def problem_count(statuses: Iterable[str]) -> str:
    """ "40 documents, 3 with problems"."""
    words = list(statuses)
    bad = sum(map(is_problem, words))
    total = count(len(words), "document")
    return f"{total}, {bad:,} with problems" if bad else total
