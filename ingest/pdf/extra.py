"""Facts of a PDF that are no text: title, author, dates; and names made safe. Pure functions of strings."""

import re

from unabridged.ingest.texts.normalise import normalise, one_line

_DATE = re.compile(r"D?:?\s*(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?\s*(?:([+-])(\d\d)'?(\d\d)?|(Z))?")


def metadata(found: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Title and the other facts of a document information dictionary ("Title", "Author", "CreationDate", ...)."""
    meta = {}
    for key, name in (("Author", "author"), ("Subject", "subject"), ("Keywords", "keywords")):
        if value := one_line(found.get(key) or ""):
            meta[name] = value
    for key, name in (("CreationDate", "created"), ("ModDate", "modified")):
        if value := iso_date(found.get(key) or ""):
            meta[name] = value
    return one_line(found.get("Title") or ""), meta


def iso_date(text: str) -> str:
    """ "D:20100802090958-05'00'" as "2010-08-02T09:09:58-05:00"; as much of it as is there, "" for none."""
    match = _DATE.match(text.strip())
    if not match:
        return ""
    year, month, day, hour, minute, second, sign, off_hour, off_minute, zulu = match.groups()
    if not (month and day):
        return "-".join(filter(None, (year, month)))
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return ""
    zone = "+00:00" if zulu else f"{sign}{off_hour}:{off_minute or '00'}" if sign else ""
    return f"{year}-{month}-{day}" + (f"T{hour}:{minute or '00'}:{second or '00'}{zone}" if hour else "")


def safe_name(name: str) -> str:
    """A name without the folders that it may claim to lie in."""
    last = re.split(r"[/\\]", normalise(name).strip())[-1]
    return "" if set(last) <= {"."} else one_line(last, 200)
