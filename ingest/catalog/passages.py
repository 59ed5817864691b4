"""The stretch of a page that best fits the words of a query, and what to show of it. Pure functions over text."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unabridged.ingest.catalog.index_text import Word, begins_pair, joined, terms, words
from unabridged.ingest.catalog.query import Unit

_WINDOW_WORDS = 40
_BEFORE = 60
_SNIPPET = 240


@dataclass(frozen=True)
class Passage:
    """`text[start:end]` holds words worth `coverage` (0 to 1) of the query; the whole page holds `page_coverage`."""

    start: int
    end: int
    coverage: float
    page_coverage: float
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class _Match:
    """A word of the query in the text; `order` counts the words of the page."""

    term: str
    order: int
    start: int
    end: int


def has_all(text: str, units: Sequence[Unit]) -> bool:
    """Whether the text has everything that was typed."""
    every = list(terms(text))
    there, run = set(every), f" {' '.join(every)} "

    def has(unit: Unit) -> bool:
        begun = tuple(filter(None, (unit.beginning, *filter(begins_pair, unit.terms))))
        return (
            not there.isdisjoint(unit.terms)
            or bool(unit.pieces and f" {' '.join(unit.pieces)} " in run)
            or any(term.startswith(begun) for term in every)
        )

    missing = [unit for unit in units if not has(unit)]
    if not missing:
        return True
    held = {word.term for word in joined(text)}
    return all(not held.isdisjoint(unit.terms) for unit in missing)


def best_passage(text: str, weights: dict[str, float], wholes: Sequence[Unit] = ()) -> Passage:
    """The window of 40 words that holds most of the query by weight, the closest together where several do. `wholes`
    are found as one word each."""
    total = sum(weights.values())
    matches = _matches(text, weights, wholes)
    if not matches or not total:
        return Passage(0, 0, 0.0, 0.0, ())
    first, last, value = _best_window(matches, weights)
    inside = matches[first : last + 1]
    everywhere = sum(weights[term] for term in {match.term for match in matches})
    return Passage(
        start=inside[0].start,
        end=max(match.end for match in inside),
        coverage=value / total,
        page_coverage=everywhere / total,
        marks=_merged(matches),
    )


def _matches(text: str, weights: dict[str, float], wholes: Sequence[Unit]) -> list[_Match]:
    """The words of the query in the text, in order."""
    beginnings = tuple(term for term in weights if begins_pair(term))
    found: list[_Match] = []
    every = list(words(text))
    starts = [word.start for word in every]
    for order, word in enumerate(every):
        if word.term in weights:
            found.append(_Match(word.term, order, word.start, word.end))
        elif beginnings and word.term.startswith(beginnings):
            found.append(_Match(word.term[0], order, word.start, word.start + 1))
    for whole in joined(text):
        names = [whole.term] if whole.term in weights else []
        names += [unit.name for unit in wholes if whole.term in unit.terms]
        found += [_Match(name, bisect_left(starts, whole.start), whole.start, whole.end) for name in names]
    for unit in wholes:
        found += _runs(every, unit)
    return sorted(found, key=lambda match: (match.order, match.start))


def _runs(every: Sequence[Word], unit: Unit) -> Iterator[_Match]:
    """Where the pieces of a unit stand behind each other, or a word begins as it says."""
    length = len(unit.pieces)
    for order, word in enumerate(every):
        if unit.beginning and word.term.startswith(unit.beginning):
            yield _Match(unit.name, order, word.start, word.end)
        elif length and word.term == unit.pieces[0]:
            run = every[order : order + length]
            if tuple(one.term for one in run) == unit.pieces:
                yield _Match(unit.name, order, word.start, run[-1].end)


def _best_window(matches: list[_Match], weights: dict[str, float]) -> tuple[int, int, float]:
    """Two pointers over the matches: first and last of the best window, and its weight."""
    inside: Counter[str] = Counter()
    value, first, best = 0.0, 0, (0, 0, -1.0)
    for last, match in enumerate(matches):
        inside[match.term] += 1
        value += weights[match.term] if inside[match.term] == 1 else 0.0
        # Shrink from the left: out of the window, or said again further right.
        while match.order - matches[first].order > _WINDOW_WORDS or inside[matches[first].term] > 1:
            inside[matches[first].term] -= 1
            value -= weights[matches[first].term] if not inside[matches[first].term] else 0.0
            first += 1
        score = value * _closeness(match.order - matches[first].order, len(inside))
        if score > best[2]:
            best = (first, last, score)
    return best


def _closeness(spread: int, terms: int) -> float:
    """1 for neighbours, 0.8 for a full window."""
    return 1.0 - 0.2 * max(0, spread - terms) / _WINDOW_WORDS


def _merged(matches: list[_Match]) -> tuple[tuple[int, int], ...]:
    """Spans of the matches, those that touch as one."""
    spans: list[tuple[int, int]] = []
    for match in sorted(matches, key=lambda match: (match.start, match.end)):
        if spans and match.start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], match.end))
        else:
            spans.append((match.start, match.end))
    return tuple(spans)


def snippet(text: str, passage: Passage) -> tuple[int, int]:
    """What to show: `text[start:end]` around the passage, about 240 characters, cut where words end."""
    start = _word_start(text, max(0, passage.start - _BEFORE))
    end = min(len(text), max(start + _SNIPPET, min(passage.end, start + 2 * _SNIPPET)))
    return _strip(text, start, _word_end(text, end, passage.start))


def _word_start(text: str, at: int) -> int:
    space = max(text.rfind(" ", 0, at), text.rfind("\n", 0, at))
    return space + 1 if at and at - space < 30 else at


def _word_end(text: str, at: int, least: int) -> int:
    if at == len(text):
        return at
    space = max(text.rfind(" ", least, at), text.rfind("\n", least, at))
    return space if at - space < 30 else at


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
