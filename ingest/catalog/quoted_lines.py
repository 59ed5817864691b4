"""The lines of quotations that stand word for word, one after the other, in an earlier message.

Only whole lines count, and only where all their words follow each other in the text of one message in the same order:
one figure or one "not" that differs, and the line is none. Two stretches that follow each other here but not there are
parted by what stays of both, since together they may say what nobody wrote; before a line that stays, and before an
answer, some words stay, since "Yes." means nothing without its question.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from unabridged.ingest.catalog.quoted_text import Message, Quote, last_words

_RUN = 5  # words: fewer than that are read again
_PLACES = 8  # that are remembered for words in a row
_KEPT = 12  # words in front of an answer


@dataclass(frozen=True)
class Covered:
    """`text[start:end]` of the message stands in the message `source`."""

    start: int
    end: int
    source: int


@dataclass
class _Run:
    """Lines of a quotation, from `first` up to `stop`, and the message that has them."""

    first: int
    stop: int
    source: int


class Places:
    """Where words of messages stand. Only words in a row with which a line of a quotation begins are kept."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._places: dict[int, list[tuple[int, list[str], int]] | None] = {}
        for message in messages:
            for quote in message.quotes:
                words, begins = _joined(quote)
                for begin in begins:
                    if (sought := words[begin : begin + _RUN]) and len(sought) == _RUN:
                        self._places[hash(tuple(sought))] = None

    def covered(self, message: Message) -> list[Covered]:
        """What the message quotes of those that were put in."""
        return [found for quote in message.quotes for found in self._of(message.text, quote)]

    def put(self, message: Message, left_out: Iterable[Covered]) -> None:
        """A message, as it is without what is left out of it, can be quoted by those that follow."""
        for words in message.shown((one.start, one.end) for one in left_out):
            runs = zip(*(words[offset:] for offset in range(_RUN)), strict=False)
            for at, run in enumerate(map(hash, runs)):
                if run in self._places:
                    known = self._places[run] = self._places[run] or []
                    if len(known) < _PLACES:
                        known.append((message.id, words, at))

    def _of(self, text: str, quote: Quote) -> list[Covered]:
        runs = self._runs(quote)
        found = []
        for index, run in enumerate(runs):
            behind = runs[index + 1] if index + 1 < len(runs) else None
            start, end = quote.lines[run.first].start, quote.lines[run.stop - 1].end
            if _seam(quote, run, behind) or _is_answered(quote, run, behind):
                end -= last_words(text[start:end], _KEPT)
            elif behind is not None and behind.first == run.stop:
                end = quote.lines[behind.first].start
            if index and _seam(quote, runs[index - 1], run):
                if run.first + 1 == run.stop:
                    continue
                start = quote.lines[run.first + 1].start
            if end > start and len(text[start:end].split()) >= _RUN:
                found.append(Covered(start, end, run.source))
        return found

    def _runs(self, quote: Quote) -> list[_Run]:
        """The longest stretches of lines, in order."""
        words, begins = _joined(quote)
        runs: list[_Run] = []
        line = 0
        while line < len(quote.lines):
            reach, source = self._longest(words, begins[line]) if quote.lines[line].words else (0, 0)
            stop = line
            while stop < len(quote.lines) and begins[stop] + len(quote.lines[stop].words) <= begins[line] + reach:
                stop += 1
            while stop > line and not quote.lines[stop - 1].words:
                stop -= 1
            if stop > line:
                runs.append(_Run(line, stop, source))
            line = max(stop, line + 1)
        return runs

    def _longest(self, words: list[str], begin: int) -> tuple[int, int]:
        """How many of the words from there on stand in one place, and in which message; (0, 0) for none."""
        best = (0, 0)
        for source, there, at in self._places.get(hash(tuple(words[begin : begin + _RUN]))) or ():
            count, most = 0, min(len(words) - begin, len(there) - at)
            while count < most and words[begin + count] == there[at + count]:
                count += 1
            if count > best[0] and count >= _RUN:
                best = (count, source)
        return best


def _joined(quote: Quote) -> tuple[list[str], list[int]]:
    """All words of a quotation, and where the words of each line begin among them."""
    words: list[str] = []
    begins = []
    for line in quote.lines:
        begins.append(len(words))
        words += line.words
    return words, begins


def _between(quote: Quote, run: _Run, behind: _Run | None) -> list[int]:
    """The lines with words that stay behind a run, up to the next."""
    stop = behind.first if behind is not None else len(quote.lines)
    return [index for index in range(run.stop, stop) if quote.lines[index].words]


def _seam(quote: Quote, run: _Run, behind: _Run | None) -> bool:
    """Whether a run meets the next one in text that is quoted as often, with nothing in between."""
    if behind is None or _between(quote, run, behind):
        return False
    return quote.lines[run.stop - 1].depth == quote.lines[behind.first].depth


def _is_answered(quote: Quote, run: _Run, behind: _Run | None) -> bool:
    """Whether what follows a run may be an answer to it."""
    between = _between(quote, run, behind)
    if between:
        return not quote.lines[between[0]].names
    return behind is None and quote.answered
