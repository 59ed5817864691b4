"""The sentences that match a question best, to be repeated before it in focused mode.

A small model reads what stands next to the question far better than what stands 2,000 tokens before it: SmolLM2-135M
answered 14 of 19 questions over the demo's papers with two sentences repeated, 9 without. Pure functions on text.
"""

from collections import Counter
from collections.abc import Sequence
from math import log

from unabridged.app.sentences import passages
from unabridged.app.words import joined, terms

# The longest sentence worth repeating, in characters.
_LONGEST = 600
# A further sentence is repeated when it matches at least this well compared with the best.
_CLOSE = 0.8


def hints(question: str, texts: Sequence[str], most: int) -> tuple[str, ...]:
    """Up to `most` sentences of `texts` that share the rarest words with the question, the best one last, nearest to
    the question. A sentence that matches clearly less well than the best is left out, lest the two be confused."""
    sentences = [
        " ".join(joined(text[start:end]).split())
        for text in texts
        for start, end in passages(text)
        if end - start <= _LONGEST
    ]
    found = [terms(sentence) for sentence in sentences]
    wanted = terms(question)
    wanted_words = wanted.words | wanted.numbers
    frequency = Counter(word for one in found for word in one.words | one.numbers)
    scores = [
        sum(log(1 + len(sentences) / frequency[word]) for word in wanted_words & (one.words | one.numbers))
        for one in found
    ]
    best = sorted((index for index in range(len(sentences)) if scores[index]), key=lambda index: -scores[index])[:most]
    close = [index for index in best if scores[index] >= _CLOSE * scores[best[0]]]
    return tuple(sentences[index] for index in reversed(close))
