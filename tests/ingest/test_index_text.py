"""Words of the index: what a person types finds what the page says, however it is spelled there."""

import time

import pytest

from unabridged.ingest.catalog.index_text import index_text, joined, words
from unabridged.ingest.document import Part, PartKind


def _main(text: str) -> list[str]:
    return [word.term for word in words(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The oﬃce ﬁles", ["the", "office", "file"]),
        ("naïve Ångström", ["naive", "angstrom"]),
        ("cafe\u0301", ["cafe"]),
        ("co\u00adoperate", ["cooperate"]),
        ("İstanbul Straße", ["istanbul", "strass"]),
        ("foo_bar", ["foo", "bar"]),
        ("cities and keys", ["city", "and", "key"]),
        ("हिन्दी भाषा", ["हिंदी", "भाषा"]),
        ("會議室", ["會議", "議室", "室"]),
        ("PDFファイル", ["pdf", "ファ", "ァイ", "イル", "ル"]),
        ("ｆｕｌｌ １２", ["full", "12"]),
        ("-- '' \" * ( ) ؟", []),
        ("كـتـاب کتاب", ["كتاب", "كتاب"]),
        ("٢٠٢٤ ۲۰۲۴ १२", ["2024", "2024", "12"]),
        ("boxes losses branches caches taxes", ["box", "loss", "branch", "cach", "tax"]),
        ("葛\U000e0100城", ["葛城", "城"]),
    ],
)
def test_words_are_folded(text: str, terms: list[str]) -> None:
    assert _main(text) == terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("ABC-123", ["abc123"]),
        ("well-\nknown", ["wellknown"]),
        ("well‐known", ["wellknown"]),
        ("1,234,567.50", ["1234567.50"]),
        ("3.5 on 2024-03-01", ["3.5", "2024-03-01", "20240301"]),
        ("foo_bar", ["foobar"]),
        ("a.b@example.org", ["abexampleorg"]),
        ("end. Start", []),
        ("infor- \n  mation", ["information"]),
        ("infor-\n\nmation", ["information"]),
        ("infor\u00ad\nmation", ["information"]),
        ("Müller", ["mueller"]),
        ("1\u202f234\u202f567", ["1234567"]),
        ("12,34,567", ["1234567"]),
        ("DE89 3704 0044 0532 0130 00", ["de89370400440532013000"]),
        ("V E R T R A G", ["vertrag"]),
        ("getUserName", ["get", "user", "name"]),
        ("צה״ל", ["צהל"]),
        ("٢٠٢٤-٠٣", ["2024-03", "202403"]),
    ],
)
def test_what_punctuation_holds_together_is_one_word_too(text: str, terms: list[str]) -> None:
    assert [word.term for word in joined(text)] == terms


def test_each_word_knows_its_characters() -> None:
    text = "Ein ﬁles_x well-known 会議 e\u0301t"
    assert [text[word.start : word.end] for word in words(text)] == [
        "Ein",
        "ﬁles",
        "x",
        "well",
        "known",
        "会議",
        "議",
        "e\u0301t",
    ]


def test_hidden_parts_are_not_indexed() -> None:
    main, whole = index_text("seen un-seen seen", (Part(PartKind.HIDDEN, 5, 12),))
    assert (main, whole) == ("seen seen", "")


def test_a_long_run_of_punctuation_and_letters_takes_linear_time() -> None:
    text = "a-" * 200_000
    assert len(_main(text)) == 200_000
    assert list(joined(text)) == []


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("the infor-", "information"),
        ("the infor-\n\n  17\n", "information"),
        ("the infor\u00ad\n", "information"),
        ("the infor", ""),
        ("the end.", ""),
    ],
)
def test_a_word_that_is_broken_between_two_pages_is_found_on_the_second(before: str, found: str) -> None:
    assert index_text("mation desk", before=before)[1] == found


@pytest.mark.parametrize(
    "unit", ["ä", "aB", "1 234 ", "A B ", 'א"', "AB12 ", "1-", "a\u00ad ", "葛\ufe00", "¬\n", "a\u0301"]
)
def test_whatever_is_repeated_takes_linear_time(unit: str) -> None:
    began = time.process_time()
    text = unit * (200_000 // len(unit))
    index_text(text)
    index_text("x" + text, before=text[:100])
    assert time.process_time() - began < 3.0
