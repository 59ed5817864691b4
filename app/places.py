"""How a place in a document is named to people and to the model: "page iv", "sheet Costs, rows 2-40", "slide 4"."""

import re

_NAMED = re.compile(r"(?:hidden )?(?:sheet|slide|chapter|part|section|cells?|lines?|rows?)\b", re.I)
_RANGE = re.compile(r"(.*?\b(?:row|line|cell)s?) (\d+)(?:-(\d+))?")


def is_named(label: str) -> bool:
    """Whether a page's label says where it is; else it is the number that is printed on it."""
    return _NAMED.match(label) is not None


def place(page: int, label: str) -> str:
    """A page by its label, or by its printed or own number."""
    return label if is_named(label) else f"page {label or page}"


def span(first: str, last: str) -> str:
    """Two labels and what lies between: "sheet Costs, rows 2-80", "slide 1 to slide 4"."""
    if first == last or not last:
        return first
    begin, end = _RANGE.fullmatch(first), _RANGE.fullmatch(last)
    if begin and end and begin[1].rstrip("s") == end[1].rstrip("s"):
        return f"{begin[1].rstrip('s')}s {begin[2]}-{end[3] or end[2]}"
    return f"{first} to {last}"
