"""Contact cards (.vcf) as text: a block of lines for each person, pictures left out."""

import re
from collections.abc import Iterator

from unabridged.ingest.document import Item, Kind, Status
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.content_lines import Line, lines
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "vcard 1"
_LABELS = {
    "FN": "Name",
    "N": "Name",
    "NICKNAME": "Called",
    "ORG": "Organisation",
    "TITLE": "Title",
    "ROLE": "Role",
    "EMAIL": "E-mail",
    "TEL": "Phone",
    "IMPP": "Chat",
    "ADR": "Address",
    "LABEL": "Address",
    "URL": "Link",
    "BDAY": "Born",
    "ANNIVERSARY": "Anniversary",
    "CATEGORIES": "Categories",
    "RELATED": "Related",
    "MEMBER": "Member",
    "NOTE": "Note",
}
_STRUCTURED = frozenset({"N", "ORG", "ADR"})
_QUIET = frozenset({"pref", "internet", "voice"})
_LINES = 1_000  # of one card


def read(source: Source, reading: Reading, place: Place, kind: Kind = Kind.TEXT) -> Iterator[Item]:
    """The document of a file of cards. Raises Unreadable for one without any."""
    cards = _cards(source)
    if not cards:
        raise Unreadable(Status.NO_TEXT, "no contact card in it")
    ref = reading.ref()
    yield source.opened(
        ref,
        place,
        kind,
        cards[0][0].partition(": ")[2] if len(cards) == 1 and cards[0] else "",
        {"contacts": str(len(cards))},
    )
    pager = Pager(ref, reading.limits, EXTRACTOR)
    for number, card in enumerate(cards, 1):
        pager.label = f"contact {number}" if len(cards) > 1 else ""
        pager.add("\n".join(card), "\n\n")
        yield from pager.take()
    pager.close()
    yield from pager.take()
    yield pager.ended()


def _cards(source: Source) -> list[list[str]]:
    """The lines of each card."""
    cards: list[list[str]] = []
    for line in lines(source.data, source.charset):
        if line.name == "BEGIN" and line.text.upper() == "VCARD":
            cards.append([])
        elif cards and line.name in _LABELS and len(cards[-1]) < _LINES:
            _put(cards[-1], line)
    return [card for card in cards if card]


def _put(card: list[str], line: Line) -> None:
    """Adds a line to a card; of a person's two names the one that is written out stays."""
    shown = _shown(line)
    known = next((at for at, other in enumerate(card) if other.startswith("Name: ")), None)
    if not shown or (line.name == "N" and known is not None):
        return
    if line.name == "FN" and known is not None:
        card[known] = shown
    else:
        card.append(shown)


def _shown(line: Line) -> str:
    pieces = [one_line(piece) for piece in line.pieces()] if line.name in _STRUCTURED else []
    if line.name == "N":  # family; given; more; before; behind
        pieces = [piece for at in (3, 1, 2, 0, 4) for piece in pieces[at : at + 1]]
    value = (" " if line.name == "N" else ", ").join(filter(None, pieces)) if pieces else line.text
    kinds = [word for word in re.split(r"[,;]", line.parameters.get("TYPE", "").lower()) if word and word not in _QUIET]
    label = _LABELS[line.name] + (f" ({', '.join(kinds)})" if kinds else "")
    return f"{label}: {value}" if value else ""
