"""Which documents are meant: by path, sender, recipient, date, tag, kind and thread.

All parts of a filter must hold; of several patterns or kinds one must, of several tags all. What a filter says of a
message holds for what is attached to it. Dates are those that the documents show, in their own time zones: a message
of "2024-03-15T23:30-05:00" is of 15 March. Pure: works on rows.
"""

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta

import msgspec

from unabridged.ingest.catalog.rows import DocumentRow
from unabridged.ingest.catalog.subject import fold
from unabridged.ingest.document import Kind
from unabridged.ingest.errors import FilterInvalid
from unabridged.ingest.paths import Patterns

_AGO = re.compile(r"(\d{1,4})\s*([dwmy])", re.IGNORECASE)
_DAYS = {"d": 1, "w": 7, "m": 30.44, "y": 365.25}
_DATE = re.compile(r"(\d{4})(?:[-/.]?(\d{1,2})(?:[-/.]?(\d{1,2}))?)?")
_KINDS = {"mail": Kind.MESSAGE, "email": Kind.MESSAGE, "document": Kind.WORD, "table": Kind.SHEET, "zip": Kind.ARCHIVE}
_CONTAINERS = (Kind.MAILBOX, Kind.ARCHIVE)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; everything empty means all documents.

    `patterns`: globs or parts of a path. `sender`, `recipient`: words that all occur in name or address, without regard
    to case and accents. `since`, `until`: 2024, 2024-03, 2024-03-15, today, yesterday, or an age (30d, 2w, 6m, 1y);
    both days are included. `thread`: a number as `ls --json` shows it, a Message-ID, or a part of a message's path.
    """

    patterns: tuple[str, ...] = ()
    sender: str = ""
    recipient: str = ""
    since: str = ""
    until: str = ""
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    thread: str = ""

    @classmethod
    def of(cls, where: "Filter | Sequence[str]") -> "Filter":
        """A filter from patterns alone, or the filter itself."""
        return where if isinstance(where, Filter) else cls(patterns=tuple(where))

    def also(self, patterns: Sequence[str]) -> "Filter":
        """The filter with these patterns beside its own."""
        return msgspec.structs.replace(self, patterns=(*self.patterns, *patterns))

    def __bool__(self) -> bool:
        return self != Filter()

    @property
    def parts(self) -> "list[tuple[str, Filter]]":
        """Its parts, as the command line spells them, each as a filter of its own."""
        names = {"sender": "from", "recipient": "to", "patterns": "doc", "tags": "tag", "kinds": "kind"}
        found = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value:
                words = value if isinstance(value, tuple) else (value,)
                said = " ".join(f"--{names.get(name, name)} {word}" for word in words)
                found.append((said, Filter(**{name: value})))
        return found

    def __str__(self) -> str:
        return " ".join(said for said, _ in self.parts)


def select(rows: Sequence[DocumentRow], where: Filter) -> list[DocumentRow]:
    """The rows that a filter means; parents stand before what they hold. Raises FilterInvalid."""
    if not where:
        return list(rows)
    tests = [_by_path(where), _by_mail(where, rows), _by_date(where), _by_tag(where), _by_kind(where)]
    # Each test sees every row: what holds for a document holds for what is in it.
    kept = [{row.id for row in rows if test(row)} for test in tests if test is not None]
    return [row for row in rows if all(row.id in ids for ids in kept)]


def undated(rows: Sequence[DocumentRow], where: Filter) -> list[DocumentRow]:
    """What a filter leaves out only because it has no date."""
    if not (where.since or where.until):
        return []
    rest = msgspec.structs.replace(where, since="", until="")
    return [row for row in select(rows, rest) if not row.date and row.kind not in _CONTAINERS]


def explain(rows: Sequence[DocumentRow], where: Filter) -> str:
    """Why a filter means none of these rows: how many each of its parts means by itself."""
    if len(where.parts) < 2:
        return "`unabridged ls --json` shows senders, dates, tags and threads"
    counts = [f"{said}: {len(select(rows, alone)):,}" for said, alone in where.parts]
    return f"taken alone, {', '.join(counts)}"


Test = Callable[[DocumentRow], bool]


def _by_path(where: Filter) -> Test | None:
    if not where.patterns:
        return None
    patterns = Patterns(where.patterns)
    return _and_within(lambda row: any(patterns.match(path) for path in (row.path, *row.also)))


def _and_within(own: Test) -> Test:
    """A test that holds for what lies in a document as well; it is to see parents first."""
    taken: set[int] = set()

    def test(row: DocumentRow) -> bool:
        if row.parent_id in taken or own(row):
            taken.add(row.id)
            return True
        return False

    return test


def _by_mail(where: Filter, rows: Sequence[DocumentRow]) -> Test | None:
    if not (where.sender or where.recipient or where.thread):
        return None
    senders, recipients = fold(where.sender).split(), fold(where.recipient).split()
    threads = _threads(where.thread, rows) if where.thread else None

    def own(row: DocumentRow) -> bool:
        if row.kind is not Kind.MESSAGE or (threads is not None and row.thread not in threads):
            return False
        return _holds(row, ("from", "reply_to"), senders) and _holds(row, ("to", "cc", "bcc"), recipients)

    return _and_within(own)


def _holds(row: DocumentRow, keys: Sequence[str], words: Sequence[str]) -> bool:
    if not words:
        return True
    said = fold(" ".join(row.meta.get(key, "") for key in keys))
    return all(word in said for word in words)


def _threads(name: str, rows: Sequence[DocumentRow]) -> set[int]:
    if name.isascii() and name.isdigit():
        return {int(name)}
    patterns, bare = Patterns((name,)), name.strip("<>")
    return {
        row.thread
        for row in rows
        if row.thread is not None and (row.meta.get("message_id", "").strip("<>") == bare or patterns.match(row.path))
    }


def _by_date(where: Filter) -> Test | None:
    if not (where.since or where.until):
        return None
    since = first_day(where.since) if where.since else "0000-00-00"
    until = last_day(where.until) if where.until else "9999-12-31"
    if since > until:
        raise FilterInvalid(f"--since {where.since} is behind --until {where.until}", "exchange them")

    def test(row: DocumentRow) -> bool:
        day = row.date[:10]
        return bool(day) and row.kind not in _CONTAINERS and day <= until and day + "-99-99"[len(day) - 4 :] >= since

    return test


def _by_tag(where: Filter) -> Test | None:
    wanted = {fold(tag) for tag in where.tags}
    return (lambda row: wanted <= {fold(tag) for tag in row.tags}) if wanted else None


def _by_kind(where: Filter) -> Test | None:
    if not where.kinds:
        return None
    kinds = {_kind(name) for name in where.kinds}
    return lambda row: row.kind in kinds


def _kind(name: str) -> Kind:
    word = name.strip().casefold()
    try:
        return _KINDS.get(word) or Kind(word)
    except ValueError:
        raise FilterInvalid(f"no kind of document is called {name!r}", f"there is: mail, {', '.join(Kind)}") from None


def first_day(text: str, today: date | None = None) -> str:
    """The first day that a date or an age means, as 2024-03-01. Raises FilterInvalid."""
    return _days(text, today)[0]


def last_day(text: str, today: date | None = None) -> str:
    """The last day that a date or an age means, as 2024-03-31. Raises FilterInvalid."""
    return _days(text, today)[1]


def _days(text: str, today: date | None) -> tuple[str, str]:
    word, now = text.strip().casefold(), today or date.today()
    try:
        if word in ("today", "yesterday"):
            day = now - timedelta(days=word == "yesterday")
            return day.isoformat(), day.isoformat()
        if match := _AGO.fullmatch(word):
            day = now - timedelta(days=round(int(match[1]) * _DAYS[match[2]]))
            return day.isoformat(), day.isoformat()
        if match := _DATE.fullmatch(word):
            return _period(match)
    except (ValueError, OverflowError):
        pass
    raise FilterInvalid(f"{text!r} is no date", "write 2024, 2024-03, 2024-03-15, or an age such as 30d, 2w, 6m, 1y")


def _period(match: "re.Match[str]") -> tuple[str, str]:
    year, month, day = int(match[1]), match[2], match[3]
    if day:
        exact = date(year, int(month), int(day)).isoformat()
        return exact, exact
    first = date(year, int(month or 1), 1)
    behind = date(year + 1, 1, 1) if not month or int(month) == 12 else date(year, int(month) + 1, 1)
    return first.isoformat(), (behind - timedelta(days=1)).isoformat()
