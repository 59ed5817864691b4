"""Words, numbers and names; texts made comparable."""

import pytest

from unabridged.app.words import fold, number, terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("docu-\nment", "document"),
        ("Notices were given", "notice given"),
        ("the ﬁnal of\u00adfice", "final office"),
        ("Müller’s café", "muller cafe"),
        ("EUR 1,500.00", "1500 eur"),
        ("03.5 %", "03.5"),
        ("1\u202f500", "1500"),
    ],
)
def test_spellings_of_the_same_meet(one: str, other: str) -> None:
    assert (terms(one).words, terms(one).numbers) == (terms(other).words, terms(other).numbers)


@pytest.mark.parametrize(("one", "other"), [("35", "3.5"), ("04821", "4821"), ("1500", "15000"), ("10:30", "1030")])
def test_numbers_that_differ_stay_apart(one: str, other: str) -> None:
    assert number(one) != number(other)


def test_numbers_in_words_are_known() -> None:
    assert terms("within thirty (30) days").spelled == {"30"}


def test_names_are_words_with_a_capital() -> None:
    assert terms("The code of Lyon").names == terms("Lyon").words


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    assert terms("合同终止").words == {"合同", "同终", "终止"}


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("A  “well-known”\n fact", 'a "wellknown" fact'),
        ("termi-\nnation", "termination"),
        ("a – b", "a - b"),
        ("10–20", "10-20"),
        ("so\u00adft", "soft"),
        ("ﬁne", "fine"),
    ],
)
def test_folding(text: str, folded: str) -> None:
    assert fold(text).text == folded


def test_a_folded_span_leads_back() -> None:
    text = "He said “No-\ntice  of\nit”."
    folded = fold(text)
    at = folded.text.index("notice of it")
    start, end = folded.span(at, at + len("notice of it"))
    assert text[start:end] == "No-\ntice  of\nit"
