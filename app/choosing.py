"""Which sections of a plan are taken: the best that fit, a conversation together; and what is not.

Pure functions of sections and their scores.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unabridged.app.context import Key, Section, ranges
from unabridged.app.events import LeftOut
from unabridged.app.selection import conversation, when

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import PageRow

# Short sections (mails) share the room of one long one, while they match at least this well compared with the best.
_CLOSE = 0.85
_TIED = 0.97
# The engine hands out memory in blocks; each section may waste most of one.
_BLOCK = 64


def shown_text(section: Section, page: "PageRow") -> str:
    """What of the page stands in the section. Hidden text does not: people cannot see it, so the model must not."""
    from unabridged.ingest.catalog.tokens import visible

    pieces = [piece.characters(piece.at, piece.end) for piece in section.pieces if piece.page == page.number]
    shown = list(visible(page.text, page.parts))
    spans = [(max(first, start), min(last, end)) for first, last in pieces for start, end in shown]
    return "\n".join(page.text[start:end] for start, end in spans if start < end)


def size(chosen: Sequence[Section]) -> int:
    """Tokens with what the engine's blocks waste."""
    return sum(len(section) + _BLOCK - 1 for section in chosen)


def fitting(wanted: Sequence[Section], room: int) -> set[Key]:
    """Keys of the first sections that fit together."""
    kept: set[Key] = set()
    for section in wanted:
        room -= len(section) + _BLOCK - 1
        if room < 0:
            break
        kept.add(section.key)
    return kept


def nearest(ranked: Sequence[tuple[Section, float]], focus: int, longest: int) -> list[Section]:
    """The best sections: `focus` of them, more short ones that match nearly as well, and twice as many where the
    ranking cannot tell them apart. In ascending order: the best stands next to the question."""
    room, best = focus * longest, ranked[0][1]
    chosen: list[Section] = []
    for section, score in ranked:
        fits = score >= _CLOSE * best and len(section) <= room
        tied = score >= _TIED * best and len(chosen) < 2 * focus
        if len(chosen) >= focus and not fits and not tied:
            break
        chosen.append(section)
        room -= len(section)
    return chosen[::-1]


def together(chosen: Sequence[Section]) -> list[Section]:
    """The sections of one conversation together, by date, where the best of them, the last, stands."""
    best = {conversation(section.document): index for index, section in enumerate(chosen)}

    def key(numbered: tuple[int, Section]) -> tuple[int, ...]:
        index, section = numbered
        at = best[conversation(section.document)]
        if section.document.thread is None:
            return at, index
        return at, when(section.document), section.document.id, section.pages[0], index

    return [section for _, section in sorted(enumerate(chosen), key=key)]


def not_chosen(every: Sequence[Section], chosen: Sequence[Section], reason: str) -> list[LeftOut]:
    """What of `every` is not in `chosen`, by document."""
    kept = {section.key for section in chosen}
    gone: dict[int, list[Section]] = {}
    for section in every:
        if section.key not in kept:
            gone.setdefault(section.document.id, []).append(section)
    read = {section.document.id: set[int]() for section in chosen}
    for section in chosen:
        read[section.document.id].update(section.pages)
    out = []
    for document_id, missing in gone.items():
        pages = {page for section in missing for page in section.pages} - read.get(document_id, set())
        whole = document_id not in read
        name = "all" if whole else ranges(sorted(pages)) or "part of a page"
        out.append(LeftOut(document=missing[0].document.path, pages=name, reason=reason))
    return out
