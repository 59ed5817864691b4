"""One entry of a calendar as lines for people: what, when, where, who."""

import re
from dataclasses import dataclass, field

from unabridged.ingest.texts.content_lines import Line
from unabridged.ingest.texts.normalise import one_line

_KINDS = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Note", "VFREEBUSY": "Busy"}
_STAMP = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})(?:T(\d{2}):?(\d{2}):?(\d{2})?(Z|[+-]\d{2}:?\d{2})?)?")
_MORE = ("RECURRENCE-ID", "DTSTART", "DTEND", "DUE", "COMPLETED")
_LABELS = {
    "RECURRENCE-ID": "Instance of",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "COMPLETED": "Completed",
    "DURATION": "Duration",
    "RRULE": "Repeats",
    "RDATE": "Also on",
    "EXDATE": "Not on",
    "FREEBUSY": "Busy",
    "LOCATION": "Location",
    "GEO": "Place",
    "STATUS": "Status",
    "PRIORITY": "Priority",
    "PERCENT-COMPLETE": "Percent complete",
    "CATEGORIES": "Categories",
    "CONTACT": "Contact",
    "URL": "Link",
    "COMMENT": "Comment",
}
_ANSWERS = {"ACCEPTED": "accepted", "DECLINED": "declined", "TENTATIVE": "tentative", "DELEGATED": "delegated"}
_METHODS = {"REQUEST": "Invitation", "CANCEL": "Cancelled", "REPLY": "Reply to the invitation", "COUNTER": "Proposal"}
_PEOPLE = 500  # whose names are listed
_PROPERTIES = 5_000


@dataclass
class Entry:
    """An entry with its lines by name."""

    kind: str
    found: dict[str, list[Line]] = field(default_factory=dict)
    count: int = 0

    def put(self, line: Line) -> None:
        """Takes a line."""
        self.count += 1
        if self.count <= _PROPERTIES:
            self.found.setdefault(line.name, []).append(line)

    def all(self, name: str) -> list[Line]:
        """All lines of that name."""
        return self.found.get(name, [])

    def line(self, name: str) -> Line | None:
        """The first line of that name."""
        return next(iter(self.all(name)), None)

    def first(self, name: str) -> str:
        """The text of the first line of that name, as one line."""
        line = self.line(name)
        return one_line(line.text) if line else ""


def shown(entry: Entry, method: str) -> str:
    """The text of an entry."""
    head = _METHODS.get(method.upper(), "")
    out = [
        f"{head}: {entry.first('SUMMARY')}".strip(": ") if head else f"{_KINDS[entry.kind]}: {entry.first('SUMMARY')}"
    ]
    for name, label in _LABELS.items():
        values = [value for line in entry.all(name) if (value := _value(name, line))]
        if values:
            out.append(f"{label}: {'; '.join(values)}")
    if organizer := person(entry.line("ORGANIZER")):
        out.append(f"Organizer: {organizer}")
    people = [_attendee(line) for line in entry.all("ATTENDEE")[:_PEOPLE]]
    if people:
        more = len(entry.all("ATTENDEE")) - len(people)
        out.append(f"Attendees: {', '.join(people)}" + (f" and {more:,} more" if more else ""))
    links = [line.text for line in entry.all("ATTACH") if line.value]
    out += [f"Attached: {one_line(link)}" for link in links]
    for description in entry.all("DESCRIPTION"):
        out += ["", description.text]
    if entry.count > _PROPERTIES:
        out.append(f"[{entry.count - _PROPERTIES:,} more lines of this entry were not read]")
    return "\n".join(out)


def _value(name: str, line: Line) -> str:
    if name in _MORE:
        return moment(line)
    if name in ("RDATE", "EXDATE", "FREEBUSY"):
        return ", ".join(_stamped(piece, line) for piece in line.value.split(",")[:500])
    if name == "RRULE":
        return ", ".join(part.replace("=", " ", 1).lower() for part in line.value.split(";") if part)
    return one_line(line.text, 2_000)


def moment(line: Line | None) -> str:
    """A time as people read it, with its zone: "2026-04-12 10:00 (Europe/Prague)"."""
    return _stamped(line.value, line) if line else ""


def _stamped(value: str, line: Line) -> str:
    def spoken(match: re.Match[str]) -> str:
        year, month, day, hour, minute, _, zone = match.groups()
        if hour is None:
            return f"{year}-{month}-{day}"
        named = line.parameters.get("TZID", "")
        shown_zone = " UTC" if zone == "Z" else f" {zone}" if zone else f" ({one_line(named, 80)})" if named else ""
        return f"{year}-{month}-{day} {hour}:{minute}{shown_zone}"

    return _STAMP.sub(spoken, one_line(value, 300))


def iso(line: Line | None) -> str:
    """A time as ISO 8601; without an offset where it is named by a place."""
    match = _STAMP.match(line.value.strip()) if line else None
    if match is None:
        return ""
    year, month, day, hour, minute, second, zone = match.groups()
    if hour is None:
        return f"{year}-{month}-{day}"
    zone = "+00:00" if zone == "Z" else zone or ""
    return f"{year}-{month}-{day}T{hour}:{minute}:{second or '00'}{zone}"


def person(line: Line | None) -> str:
    """ "Dana Holt <dana@example.org>"."""
    if line is None:
        return ""
    address = re.sub(r"(?i)^mailto:", "", one_line(line.text, 300))
    name = one_line(line.parameters.get("CN", ""), 200)
    return f"{name} <{address}>" if name and name != address else address


def _attendee(line: Line) -> str:
    answer = _ANSWERS.get(line.parameters.get("PARTSTAT", line.parameters.get("STATUS", "")).upper(), "")
    return person(line) + (f" ({answer})" if answer else "")
