"""Quotations looked up by string match."""

import pytest

from unabridged.app.quotes import Finder, quotations, stands_in
from unabridged.app.sources import Source


def test_all_kinds_of_marks_are_quotations() -> None:
    text = 'He “one two” and „drei vier“ and «cinq» and "six"; 5" wide, "".'
    assert [one.text for one in quotations(text)] == ["one two", "drei vier", "cinq", "six"]


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ("the quick brown fox", True),
        ("The quick-brown fox,", False),
        ("quick ... over", True),
        ("over … quick", False),
        ("ick brown", False),
        ("lazy dog.", True),
    ],
)
def test_match(quote: str, stands: bool) -> None:
    assert stands_in(quote, "The quick brown\nfox jumps over the la-\nzy dog") is stands


def test_a_quotation_over_a_page_border_is_found_on_the_first() -> None:
    first, second = "It ends with the words", "of another page."
    sources = [Source(1, "/a", 1, "", first, 0, len(first)), Source(1, "/a", 2, "", second, 0, len(second))]
    found = Finder(sources).find("the words of another page")
    assert found is not None
    assert (found.source.page, first[found.start : found.end]) == (1, "the words")
