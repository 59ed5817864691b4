"""A calendar file (.ics, .vcs) to pages: each event, task or note as the lines that an invitation shows.

The reader of events is `calendar_event`. A page that holds several is labelled with the number of its first.
"""

from collections.abc import Iterator

from unabridged.ingest.document import Item, Kind
from unabridged.ingest.pdf.extra import safe_name
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import calendar_event, text
from unabridged.ingest.texts.calendar_event import Entry
from unabridged.ingest.texts.content_lines import Line, lines
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "calendar 1"
_ENTRIES = frozenset({"VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY"})
_MOST = 200_000  # entries of one file
_METHODS = {"REQUEST": "invitation", "CANCEL": "cancellation", "REPLY": "reply", "COUNTER": "counter-proposal"}


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document of a calendar and the files in it; one without entries is read as the text that it is. Raises
    Unreadable."""
    top: dict[str, str] = {}
    entries, more = _entries(source, top)
    if not entries:
        yield from text.read(source, reading, place)
        return
    ref = reading.ref()
    yield source.opened(
        ref, place, Kind.CALENDAR, top.get("X-WR-CALNAME") or entries[0].first("SUMMARY"), _meta(top, entries)
    )
    pager = Pager(ref, reading.limits, EXTRACTOR)
    for number, entry in enumerate(entries, 1):
        pager.label = f"event {number}" if len(entries) > 1 else ""
        pager.add(calendar_event.shown(entry, top.get("METHOD", "")), "\n\n")
        yield from pager.take()
    pager.close()
    yield from pager.take()
    notes = [f"more than {_MOST:,} entries: {more:,} not read"] if more else []
    yield from _files(entries, reading, Place(parent=ref, depth=place.depth + 1), notes)
    yield pager.ended(notes)


def _entries(source: Source, top: dict[str, str]) -> tuple[list[Entry], int]:
    """The entries, and how many more there are; what the calendar says of itself goes to `top`."""
    entries: list[Entry] = []
    more = 0
    stack: list[str] = []
    for line in lines(source.data, source.charset):
        if line.name == "BEGIN":
            stack.append(line.text.upper())
            if stack[-1] in _ENTRIES:
                more += len(entries) >= _MOST
                if len(entries) < _MOST:
                    entries.append(Entry(stack[-1]))
        elif line.name == "END":
            stack = stack[: _last(stack, line.text.upper())]
        elif stack and stack[-1] in _ENTRIES and not more:
            entries[-1].put(line)
        elif len(stack) <= 1:
            top.setdefault(line.name, one_line(line.text))
    return entries, more


def _last(stack: list[str], name: str) -> int:
    """How much of the stack stays when `name` ends; an end without its beginning ends nothing."""
    return next((at for at in range(len(stack) - 1, max(-1, len(stack) - 50), -1) if stack[at] == name), len(stack))


def _meta(top: dict[str, str], entries: list[Entry]) -> dict[str, str]:
    """What people look for: the day, the organizer, what is asked of them."""
    first = entries[0]
    meta = {
        "events": str(len(entries)),
        "method": _METHODS.get(top.get("METHOD", "").upper(), ""),
        "date": calendar_event.iso(first.line("DTSTART") or first.line("DUE")),
        "from": calendar_event.person(first.line("ORGANIZER")),
        "uid": first.first("UID"),
        "created_by": top.get("PRODID", ""),
    }
    return {key: value for key, value in meta.items() if value}


def _files(entries: list[Entry], reading: Reading, place: Place, notes: list[str]) -> Iterator[Item]:
    """The files that entries carry."""
    for entry in entries:
        for line in entry.all("ATTACH"):
            if line.data:
                name = safe_name(_name(line)) or "attachment"
                if why := reading.refuses(len(line.data), place.depth):
                    notes.append(f"attachment {name} not read: {why}")
                else:
                    yield from reading.child(Source(name, line.data), reading, place)


def _name(line: Line) -> str:
    return next(
        (line.parameters[key] for key in ("FILENAME", "X-FILENAME", "X-ORACLE-FILENAME") if key in line.parameters), ""
    )
