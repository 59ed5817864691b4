"""Which passage supports a sentence: by overlap of content words, numbers and names, guided by where attention looked.

Deterministic and torch-free. A sentence is verified by one to three consecutive passages of a page when
- every number in it stands in them,
- every name in it stands in them, or just before them or in the document's title while no other name competes,
- they hold most of its content words (rare words count more), and most of what the question did not already say.
Elliptic answers ("48213.") are read together with their question. A wrong "unsupported" costs the reader a look; a
wrong "verified" costs his trust: when in doubt this says unsupported.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from unabridged.app.sentences import passages
from unabridged.app.sources import Look, Source
from unabridged.app.words import Terms, terms

# Shares of the claim's weight. Chosen on page sentences with one fact exchanged (tests/app/test_support.py): every
# exchanged number and name is refused, and an answer that leaves out or rephrases a third is still accepted.
_COVERED = 0.6
_NOVEL = 0.6
_NEAREST = 0.3
_FEW_CAPITALS = 0.4
_ABOUT_IT = 0.3
_WINDOW = 3
_LONGER = 0.1
_BEFORE = 4
_ELLIPTIC = 3
_ATTENTION = 0.5
_ENUMERATOR = re.compile(r"^\s*(?:[-*•‣–]|\(?\d{1,3}[.)]|#{1,6}|>)\s+")
_HEADER = re.compile(r"[A-Z][\w-]{0,20}: ")
# Words with a capital that name nobody: calendar and mail headers.
_NOT_NAMES = terms(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mon Tue Wed Thu Fri Sat Sun January February March April "
    "June July August September October November December Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec "
    "From To Cc Bcc Subject Date Sent Reply Re Fwd Attachment Page Chapter Section Table Figure Part Note"
).words
_NO_FREE_NUMBER = frozenset({"0", "1"})


@dataclass(frozen=True)
class Passage:
    """One to three consecutive sentences of a source."""

    source: Source
    start: int
    end: int
    parts: tuple[Terms, ...]
    terms: Terms
    """Of all parts together."""
    before: frozenset[str]
    """Words of the sentences just before, and of the document's name and title."""

    @property
    def size(self) -> int:
        """How many sentences."""
        return len(self.parts)

    @property
    def is_header(self) -> bool:
        """Whether it is lines such as "Date: ..."."""
        return all(_HEADER.match(line) for line in self.source.text[self.start : self.end].split("\n"))


@dataclass(frozen=True)
class Support:
    """A passage for a sentence. `verified` is False for the nearest one when none supports it."""

    passage: Passage
    verified: bool
    score: float


@dataclass(frozen=True)
class _Claim:
    """What has to be found."""

    words: frozenset[str]
    novel: frozenset[str]
    names: frozenset[str]
    capitals: frozenset[str]
    """Words with a capital inside the sentence, which must stand somewhere near though they may name nobody."""
    numbers: frozenset[str]
    restates: bool
    """Whether it says something of its own, if only the question's words: "Yes." does not."""
    weights: dict[str, float]

    def weight(self, words: Iterable[str]) -> float:
        return sum(self.weights[word] for word in words)


class Evidence:
    """The passages that an answer can rest on."""

    def __init__(self, sources: Sequence[Source], question: str, looks: Sequence[Look] = ()) -> None:
        self._looks = looks
        self._question = terms(question)
        self._question_names = _inner_names(question)
        self._passages = [passage for source in sources for passage in _windows(source)]
        self._frequency = Counter(word for passage in self._passages for word in passage.terms.words)
        self._common = self._ordinary() | (self._question.words - self._question.names) | _NOT_NAMES
        self._names = frozenset(word for passage in self._passages for word in passage.terms.names) - self._common

    def _ordinary(self) -> frozenset[str]:
        """Words that are written small at least as often as with a capital: no names, or none that tell."""
        alone = [passage.terms for passage in self._passages if passage.size == 1]
        capital = Counter(word for one in alone for word in one.names)
        small = Counter(word for one in alone for word in one.words - one.names)
        return frozenset(word for word, count in small.items() if count >= capital[word])

    def find(self, sentence: str, start: int, end: int) -> Support | None:
        """The best passage for `sentence`, which is `answer[start:end]`; None when nothing comes near."""
        claim = self._claim(_ENUMERATOR.sub("", sentence))
        if not claim.words and not claim.numbers:
            return None
        looked = self._looked(start, end)
        best: Support | None = None
        for passage, attention in zip(self._passages, looked, strict=True):
            covered = self._covered(claim, passage)
            if covered < _NEAREST:
                continue
            score = covered + _ATTENTION * attention - _LONGER * (passage.size - 1)
            support = Support(passage, self._verifies(claim, passage, covered), score)
            if best is None or (support.verified, support.score) > (best.verified, best.score):
                best = support
        return best

    def _claim(self, sentence: str) -> _Claim:
        said = terms(sentence)
        capitals = _inner_names(sentence)
        names = (capitals | (said.names & self._names)) - self._common
        words, novel = said.words, said.words - self._question.words
        if len(said.words) + len(said.numbers) <= _ELLIPTIC:
            words |= self._question.words
            names |= self._question_names - self._common
        numbers = said.numbers | (said.spelled - _NO_FREE_NUMBER)
        # Where few words have a capital it means something even on a word that is ordinary elsewhere: "the King".
        meant = len(capitals) <= _FEW_CAPITALS * len(said.words)
        weights = {word: self._weight(word, said) for word in words | novel}
        return _Claim(
            words=words,
            novel=novel,
            names=names,
            capitals=capitals - self._question.words - _NOT_NAMES if meant else frozenset(),
            numbers=numbers,
            restates=bool(said.words),
            weights=weights,
        )

    def _weight(self, word: str, said: Terms) -> float:
        """Rare words tell more. A word that stands nowhere in view tells as much as a middling one: it may be the
        model's wording of what stands there. Words of the question count half where the sentence leaves them out."""
        total, frequency = 1 + len(self._passages), self._frequency[word]
        weight = log(1 + total / (1 + frequency)) if frequency else log(2 + total) / 2
        if word in said.words:
            return weight
        return weight / 2 if frequency else 0.0

    def _covered(self, claim: _Claim, passage: Passage) -> float:
        """The share of the claim's weight that the passage holds; numbers weigh like the rarest word."""
        rare = log(2 + len(self._passages))
        here = claim.weight(claim.words & passage.terms.words)
        numbers = len(claim.numbers & (passage.terms.numbers | passage.terms.spelled))
        if not here and not numbers:
            return 0.0
        around = claim.weight((claim.words & passage.before) - passage.terms.words) / 2
        whole = claim.weight(claim.words) + rare * len(claim.numbers)
        return min(1.0, (here + around + rare * numbers) / whole)

    def _verifies(self, claim: _Claim, passage: Passage, covered: float) -> bool:
        here = passage.terms
        if (
            not (claim.novel or claim.numbers or claim.restates)
            or covered < _COVERED
            or not claim.numbers <= here.numbers | here.spelled
        ):
            return False
        if not self._names_agree(claim, passage) or not self._numbers_belong(claim, passage):
            return False
        rare = log(2 + len(self._passages))
        novel = claim.weight(claim.novel) + rare * len(claim.numbers)
        if not novel:
            # It repeats the question: the passage must hold all of that.
            return claim.words <= here.words
        return claim.weight(claim.novel & here.words) + rare * len(claim.numbers) >= _NOVEL * novel

    def _names_agree(self, claim: _Claim, passage: Passage) -> bool:
        """Names may stand just before the passage, but never while its telling sentence is about somebody else."""
        if not (claim.names | claim.capitals) - passage.terms.words <= passage.before:
            return False
        for part in passage.parts:
            telling = claim.numbers & (part.numbers | part.spelled) if claim.numbers else claim.novel & part.words
            competing = (part.names & self._names) - claim.words - self._question.words
            if telling and competing and not claim.names <= part.words:
                return False
        return True

    def _numbers_belong(self, claim: _Claim, passage: Passage) -> bool:
        """Each number stands in a sentence about the same thing, not in a neighbour's. A mail's header lines belong
        to each other as they are."""
        if passage.size == 1 or passage.is_header:
            return True
        least = _ABOUT_IT * claim.weight(claim.words)
        about = [part for part in passage.parts if claim.weight(claim.words & part.words) >= least]
        return all(any(number in part.numbers | part.spelled for part in about) for number in claim.numbers)

    def _looked(self, start: int, end: int) -> list[float]:
        """Attention on each passage while `answer[start:end]` was generated; 1 for the most looked-at."""
        places: dict[tuple[int, int], list[Look]] = {}
        for look in self._looks:
            if look.start < end and look.end > start:
                places.setdefault((look.document_id, look.page), []).append(look)
        masses = [_mass(passage, places) for passage in self._passages]
        most = max(masses, default=0.0)
        return [mass / most for mass in masses] if most else masses


def _mass(passage: Passage, places: dict[tuple[int, int], list[Look]]) -> float:
    """Per sentence, so that a longer passage is not better for being longer."""
    looks = places.get((passage.source.document_id, passage.source.page), ())
    return sum(look.share for look in looks if look.first < passage.end and look.last > passage.start) / passage.size


def _windows(source: Source) -> list[Passage]:
    """All runs of up to three consecutive sentences, shorter ones first."""
    spans = [
        (source.start + start, source.start + end) for start, end in passages(source.text[source.start : source.end])
    ]
    alone = [terms(source.text[start:end]) for start, end in spans]
    about = terms(source.about).words
    return [
        Passage(
            source=source,
            start=spans[first][0],
            end=spans[first + size - 1][1],
            parts=tuple(alone[first : first + size]),
            terms=_union(alone[first : first + size]),
            before=about.union(*(one.words for one in alone[max(0, first - _BEFORE) : first])),
        )
        for size in range(1, _WINDOW + 1)
        for first in range(len(spans) - size + 1)
    ]


def _union(parts: Sequence[Terms]) -> Terms:
    return Terms(
        words=frozenset().union(*(part.words for part in parts)),
        names=frozenset().union(*(part.names for part in parts)),
        numbers=frozenset().union(*(part.numbers for part in parts)),
        spelled=frozenset().union(*(part.spelled for part in parts)),
    )


def _inner_names(sentence: str) -> frozenset[str]:
    """Words with a capital that do not merely begin the sentence."""
    first = re.search(r"\w+", sentence)
    return terms(sentence[first.end() :]).names if first else frozenset()
