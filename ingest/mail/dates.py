"""Dates of mail to ISO 8601 with their zone. A date that no calendar has is none."""

import re
from datetime import UTC, datetime, timedelta, timezone

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = dict(zip(_NAMES, range(1, 13), strict=True))
# German, French, Spanish, Italian, Portuguese and Dutch, where old programs wrote the day in the user's language.
_MONTHS |= {
    "jän": 1,
    "ene": 1,
    "gen": 1,
    "fév": 2,
    "fev": 2,
    "mär": 3,
    "mrz": 3,
    "mrt": 3,
    "maa": 3,
    "avr": 4,
    "abr": 4,
}
_MONTHS |= {"mai": 5, "mag": 5, "mei": 5, "juin": 6, "giu": 6, "juil": 7, "lug": 7, "aoû": 8, "aou": 8, "ago": 8}
_MONTHS |= {"set": 9, "okt": 10, "ott": 10, "out": 10, "déc": 12, "dez": 12, "dic": 12}
_ZONES = {"UT": 0, "GMT": 0, "UTC": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6}
_ZONES |= {"PST": -8, "PDT": -7, "CET": 1, "CEST": 2, "MET": 1, "MEST": 2, "BST": 1, "EET": 2, "EEST": 3, "JST": 9}
_ZONES |= {"WET": 0, "WEST": 1, "SAST": 2, "MSK": 3, "HKT": 8, "SGT": 8, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12}
_ZONES |= {"NZDT": 13, "AKST": -9, "AKDT": -8, "HST": -10}
_COMMENT = re.compile(r"\([^()]*\)")
_RFC = re.compile(
    r"(\d{1,2})\.?[ \-]+([^\W\d_]{3,10})\.?,?[ \-]+(\d{2,5}),?\s+(\d{1,2})\s*[:.]\s*(\d{2})"
    r"(?:\s*[:.]\s*(\d{2}))?(?:\.\d+)?\s*(?:(?:GMT|UTC)?([+-])\s?(\d{2}):?(\d{2})|([A-Za-z]{1,5}))?"
)
_ASCTIME = re.compile(
    r"([A-Za-z]{3})\s+(\d{1,2})\s+(\d{1,2}):(\d{2})(?::(\d{2}))?\s+(?:([A-Z]{1,5})\s+)?(\d{4})(?:\s*([+-])(\d{2})(\d{2}))?"
)
_ISO = re.compile(
    r"(\d{4})[-/.](\d{2})[-/.](\d{2})[T ](\d{2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?\s*(?:([+-])(\d{2}):?(\d{2})|(Z))?"
)


def iso(text: str) -> tuple[str, str]:
    """ "Tue, 3 Mar 2026 09:15:00 +0100" as ("2026-03-03T09:15:00+01:00", "header"). The second word says more where
    the zone was missing ("header, no zone") or unknown ("header, zone unknown"). ("", "") for no date."""
    text = " ".join(_COMMENT.sub(" ", text[:300]).split())
    found = _rfc(text) or _iso(text) or _asctime(text)
    return found or ("", "")


def _rfc(text: str) -> tuple[str, str] | None:
    match = _RFC.search(text)
    month = _month(match[2]) if match else 0
    if not match or not month:
        return None
    day, _, year, hour, minute, second, sign, off_hour, off_minute, name = match.groups()
    numbers = (_year(year), month, int(day), int(hour), int(minute), int(second or 0))
    return _stamp(numbers, sign, off_hour, off_minute, name)


def _iso(text: str) -> tuple[str, str] | None:
    match = _ISO.search(text)
    if not match:
        return None
    *numbers, sign, off_hour, off_minute, zulu = match.groups()
    year, month, day, hour, minute, second = (int(n or 0) for n in numbers)
    return _stamp((year, month, day, hour, minute, second), sign, off_hour, off_minute, zulu)


def _asctime(text: str) -> tuple[str, str] | None:
    match = _ASCTIME.search(text)
    if not match or match[1].lower() not in _MONTHS:
        return None
    month, day, hour, minute, second, name, year, sign, off_hour, off_minute = match.groups()
    numbers = (int(year), _MONTHS[month.lower()], int(day), int(hour), int(minute), int(second or 0))
    return _stamp(numbers, sign, off_hour, off_minute, name)


def _month(name: str) -> int:
    """The number of a month by the beginning of its name, 0 for none."""
    name = name.lower()
    return _MONTHS.get(name[:3]) or _MONTHS.get(name[:4], 0)


def _year(digits: str) -> int:
    """Years of two and three digits, as RFC 5322 section 4.3 reads them."""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 else year


def _stamp(
    numbers: tuple[int, int, int, int, int, int],
    sign: str | None,
    off_hour: str | None,
    off_minute: str | None,
    name: str | None,
) -> tuple[str, str] | None:
    zone, source = _zone(sign, off_hour, off_minute, name)
    year, month, day, hour, minute, second = numbers
    if not 1970 <= year <= 2200:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone)
    except ValueError:
        return None
    return moment.isoformat(), source


def _zone(sign: str | None, hour: str | None, minute: str | None, name: str | None) -> tuple[timezone | None, str]:
    if sign and hour and minute:
        if int(hour) > 14 or int(minute) > 59:
            return None, "header, no such zone"
        if sign == "-" and int(hour) == int(minute) == 0:
            return UTC, "header, zone unknown"
        offset = timedelta(hours=int(hour), minutes=int(minute))
        return timezone(-offset if sign == "-" else offset), "header"
    if name and name.upper() in _ZONES:
        return timezone(timedelta(hours=_ZONES[name.upper()])), "header"
    return None, "header, no zone"
