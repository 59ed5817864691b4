"""Numbers as a spreadsheet shows them: "1,234.50 €", "12.5 %", "00042"; dates and times in ISO form.

Dates are not shown in the cell's own order of day and month: a cell of the usual format is shown by each machine in
its country's order, so 3/4/26 says little and 2026-04-03 everything. Pure functions.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

BUILT_IN = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    **dict.fromkeys((14, 15, 16, 17, *range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21, 32, 33, 34, 35, 45), "hh:mm:ss"),
    22: "yyyy-mm-dd hh:mm",
    37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
    46: "[h]:mm:ss",
    47: "hh:mm:ss",
    48: "##0.0E+0",
    49: "@",
}
_TOKEN = re.compile(
    r'"([^"]*)"?|\\(.)|[_*](.?)|\[\$([^\]-]*)[^\]]*\]|\[([^\]]*)\]|(AM/PM|A/P|am/pm)|(General)|(.)', re.S
)
_ELAPSED = re.compile(r"[hms]+$", re.I)
_DIGITS = re.compile(r"[0#?][0#?,]*(?:\.[0#?]*)?")
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_SECONDS_A_DAY = 86_400
_WHOLE = 1e15
_SMALL = 1e-9


@dataclass(frozen=True)
class _Section:
    """One section of a format, taken apart."""

    general: bool = False
    text: bool = False
    date: bool = False
    time: bool = False
    elapsed: bool = False
    before: str = ""
    after: str = ""
    integers: int = 0
    decimals: int = 0
    optional: int = 0  # decimals that are shown only where they are not zero
    thousands: bool = False
    divisor: int = 1
    percent: bool = False
    exponent: bool = False
    digits: bool = False
    template: str = ""  # digit places between literals, as in 000-00-0000, each place "\1"


def shown(value: float, code: str, from_1904: bool = False) -> str:
    """A number under a format code, "" being the general one."""
    sections = _sections(code)
    if not sections:
        return general(value)
    negative = value < 0 and len(sections) > 1
    index = 1 if negative else 2 if value == 0 and len(sections) > 2 else 0
    section = sections[index]
    if section.date or section.time:
        return moment(value, section.date, section.time, section.elapsed, from_1904)
    if section.general or section.text or not (section.digits or section.before or section.after):
        return general(value)
    if section.template:
        return _filled(round(abs(value)), section.template)
    number = _digits(abs(value) if negative else value, section) if section.digits else ""
    return f"{section.before}{number}{section.after}".strip()


def general(value: float) -> str:
    """A number without a format: whole ones whole, others with up to eleven digits."""
    if value == int(value) and abs(value) < _WHOLE:
        return str(int(value))
    text = f"{value:.11g}"
    return f"{value:.15f}".rstrip("0") if "e-" in text and abs(value) >= _SMALL else text


def moment(value: float, date: bool, time: bool, elapsed: bool = False, from_1904: bool = False) -> str:
    """A serial date as "2026-03-01", "2026-03-01 09:30" or "09:30"; what is none stays a number."""
    seconds = round(value * _SECONDS_A_DAY)
    if elapsed or (time and not date and abs(value) >= 1 and value < 0):
        sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
        return f"{sign}{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
    if not from_1904 and 0 < value < 60:
        seconds += _SECONDS_A_DAY  # the 29th of February 1900, which only spreadsheets had, is to come
    try:
        when = (_EPOCH_1904 if from_1904 else _EPOCH) + timedelta(seconds=seconds)
    except OverflowError:
        return general(value)
    clock = f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
    if not date:
        return clock
    day = f"{when.year:04}-{when:%m-%d}"
    return f"{day} {clock}" if time or seconds % _SECONDS_A_DAY else day


@lru_cache(maxsize=4_096)
def _sections(code: str) -> tuple[_Section, ...]:
    if not code or code.casefold() == "general":
        return ()
    return tuple(_section(part) for part in _split(code[:1_000])[:4])


def _split(code: str) -> list[str]:
    """The sections between ";" that stand outside quotation marks."""
    parts, at, quoted = [""], 0, False
    while at < len(code):
        char = code[at]
        if char == "\\" and not quoted:
            parts[-1] += code[at : at + 2]
            at += 2
            continue
        quoted ^= char == '"'
        if char == ";" and not quoted:
            parts.append("")
        else:
            parts[-1] += char
        at += 1
    return parts


def _section(part: str) -> _Section:
    """A section: literals before and after one run of digit places, or what makes it a date."""
    plain, literals = [], []
    letters = ""
    elapsed = general_ = False
    for match in _TOKEN.finditer(part):
        quoted, escaped, _, currency, bracket, noon, word, char = match.groups()
        literal = quoted if quoted is not None else escaped if escaped is not None else currency
        if literal is not None:
            plain.append("\0")
            literals.append(literal)
        elif bracket is not None and _ELAPSED.match(bracket):
            elapsed = True
            letters += bracket.lower()
        elif noon:
            letters += "h"
        elif word:
            general_ = True
        elif char is not None and bracket is None:
            letters += char.lower() if char.lower() in "ymdhsg" and char != "E" else ""
            plain.append(char)
    text = "".join(plain)
    if set(letters) & set("ymdhs"):
        time = bool(set(letters) & set("hs")) or elapsed
        return _Section(date=bool(set(letters) & set("yd")) or not time, time=time, elapsed=elapsed)
    found = _DIGITS.search(text)
    if found is None or "/" in text:
        filled = _fill(text.replace("@", ""), literals)
        return _Section(general=general_ or "/" in text, text="@" in text, before="" if "/" in text else filled)
    return _number(text, found, literals)


def _number(text: str, found: re.Match[str], literals: list[str]) -> _Section:
    before, after = text[: found.start()], text[found.end() :]
    held = before.count("\0")
    whole, _, fraction = found[0].partition(".")
    trailing = len(whole) - len(whole.rstrip(",")) if not fraction else 0
    rest = re.sub(r"^[Ee][+-]?[0#?]+", "", after)
    exponent = rest != after
    while rest.startswith(","):
        rest, trailing = rest[1:], trailing + 1
    if not fraction and not exponent and re.search("[0#?]", rest):
        return _Section(digits=True, template=_fill(re.sub("[0#?]", "\1", text), literals))
    return _Section(
        digits=True,
        before=_fill(before, literals[:held]),
        after=_fill(rest, literals[held:]),
        integers=whole.count("0"),
        decimals=len(fraction),
        optional=fraction.count("#") + fraction.count("?"),
        thousands="," in whole.rstrip(","),
        divisor=1000**trailing if trailing < 5 else 1,
        percent="%" in text,
        exponent=exponent,
    )


def _fill(text: str, literals: list[str]) -> str:
    pieces = text.split("\0")
    out = pieces[0]
    for literal, piece in zip(literals, pieces[1:], strict=False):
        out += literal + piece
    return out


def _filled(value: int, template: str) -> str:
    """The digits put into their places from the right; the first place takes all that are left."""
    places = template.count("\1")
    digits = str(value).zfill(places)
    pieces = template.split("\1")
    first = digits[: len(digits) - places + 1]
    return (
        pieces[0] + first + "".join(map("".join, zip(pieces[1:], digits[len(first) :], strict=False))) + pieces[-1]
    ).strip()


def _digits(value: float, section: _Section) -> str:
    if section.exponent:
        return f"{value:.{section.decimals}E}"
    try:
        exact = Decimal(repr(value)) * (100 if section.percent else 1) / section.divisor
        rounded = exact.quantize(Decimal(1).scaleb(-section.decimals), ROUND_HALF_UP)
    except InvalidOperation:
        return general(value)
    if not rounded:
        rounded = abs(rounded)  # no "-0"
    text = f"{rounded:,f}" if section.thousands else f"{rounded:f}"
    whole, dot, fraction = text.partition(".")
    least = section.decimals - section.optional
    while len(fraction) > least and fraction.endswith("0"):
        fraction = fraction[:-1]
    sign, whole = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    whole = whole.zfill(section.integers) if not section.thousands else whole
    return f"{sign}{whole}{dot if fraction else ''}{fraction}"
