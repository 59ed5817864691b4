"""Leaves out of a context the quotations whose messages are in it, and weighs less what a message only repeats.

A quotation is left out of a message when the message, and all that it quotes there, are in context from beginning to
end. So a document's sections depend on its own marks and on which of them hold here, on nothing else. Blocking.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from unabridged.app.context import Section
from unabridged.app.words import terms
from unabridged.ingest.document import Kind

if TYPE_CHECKING:
    from unabridged.ingest.catalog.repeats import Repeat
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.library import Library

Cut = Callable[["DocumentRow", "tuple[Repeat, ...]"], list[Section]]


def without_repeats(chosen: Sequence[Section], library: "Library", cut: Cut) -> list[Section]:
    """The chosen sections, in their order, those of messages cut anew without what need not be read twice. `cut`: the
    sections of a document without some of its repeats."""
    from unabridged.ingest.catalog.repeats import repeats

    there = Counter(section.document.id for section in chosen)
    documents = {section.document.id: section.document for section in chosen}
    if len(documents) < 2:
        return list(chosen)
    whole = {section.document.id for section in chosen if there[section.document.id] == section.of}
    messages = [number for number in whole if documents[number].kind is Kind.MESSAGE]
    present = {documents[number].identity for number in messages}
    anew: dict[int, list[Section]] = {}
    for number, found in repeats(library, messages).items():
        if here := tuple(one for one in found if one.sources <= present - {documents[number].identity}):
            anew[number] = cut(documents[number], here)
    out: list[Section] = []
    for section in chosen:
        number = section.document.id
        if number not in anew:
            out.append(section)
        elif there.pop(number, 0):  # where its first section stands
            out += anew[number]
    return out


def own_shares(
    query: str, hits: Sequence[tuple[int, int, float]], library: "Library", read: Mapping[int, "DocumentRow"]
) -> dict[tuple[int, int], float]:
    """Of pages (document and number) of messages that repeat what other messages of `read` say: the share of the
    question's words on them that stands outside of it. So what is asked for is found where it was written, not in ten
    answers that quote it."""
    from unabridged.ingest.catalog.repeats import repeats

    wanted = terms(query)
    sought = wanted.words | wanted.numbers
    messages = {number for number, _, _ in hits if number in read and read[number].kind is Kind.MESSAGE}
    found = repeats(library, messages)
    present = {row.identity for row in read.values()}
    shares: dict[tuple[int, int], float] = {}
    for number, page, _ in hits:
        spans = [one for one in found.get(number, ()) if one.page == page and one.sources <= present]
        if not spans:
            continue
        text = library.page(number, page).text
        there = len(sought & _words(text))
        for one in reversed(spans):
            text = text[: one.start] + "\n" + text[one.end :]
        shares[number, page] = len(sought & _words(text)) / there if there else 1.0
    return shares


def _words(text: str) -> frozenset[str]:
    found = terms(text)
    return found.words | found.numbers
