"""Words of the index: what a person types finds what the page says, however it is spelled there."""

import pytest

from unabridged.ingest.document import Part, PartKind
from unabridged.ingest.index_text import index_text, joined, words


def _main(text: str) -> list[str]:
    return [word.term for word in words(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The oﬃce ﬁles", ["the", "office", "file"]),
        ("naïve Ångström", ["naive", "angstrom"]),
        ("cafe\u0301", ["cafe"]),
        ("co\u00adoperate", ["cooperate"]),
        ("İstanbul Straße", ["istanbul", "strasse"]),
        ("foo_bar", ["foo", "bar"]),
        ("cities and keys", ["city", "and", "key"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("會議室", ["會議", "議室", "室"]),
        ("PDFファイル", ["pdf", "ファ", "ァイ", "イル", "ル"]),
        ("ｆｕｌｌ １２", ["full", "12"]),
        ("-- '' \" * ( ) ؟", []),
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
        ("3.5 on 2024-03-01", ["3.5", "2024-03-01"]),
        ("foo_bar", ["foobar"]),
        ("a.b@example.org", ["abexampleorg"]),
        ("end. Start", []),
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
