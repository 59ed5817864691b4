"""Sentence borders in answers and on pages."""

from itertools import pairwise

import pytest

from unabridged.app.sentences import answer_sentences, passages


def _of(text: str) -> list[str]:
    return [text[start:end] for start, end in answer_sentences(text)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is 3.5 m. See p. 4.", ["It is 3.5 m.", "See p. 4."]),
        (
            "Dr. J. R. Smith met her in the U.S. in 1945. Then he left!",
            ["Dr. J. R. Smith met her in the U.S. in 1945.", "Then he left!"],
        ),
        ('He said "Stop." Then "Go!" again.', ['He said "Stop."', 'Then "Go!" again.']),
        ("1. First.\n2. Second", ["1. First.", "2. Second"]),
        ("- a\n- b", ["- a", "- b"]),
        ("これは文です。次の文。", ["これは文です。", "次の文。"]),
        ("  \n", []),
        ("No end", ["No end"]),
    ],
)
def test_answers(text: str, sentences: list[str]) -> None:
    assert _of(text) == sentences


def test_lines_of_a_paragraph_are_joined_headers_and_items_are_not() -> None:
    page = "Subject: Budget\nFrom: Ann\n\nA long line of a paragraph that goes on\nhere. And ends.\n1. One\n> quoted\n"
    assert [page[start:end] for start, end in passages(page)] == [
        "Subject: Budget",
        "From: Ann",
        "A long line of a paragraph that goes on\nhere.",
        "And ends.",
        "1. One",
        "> quoted",
    ]


def test_every_word_of_a_page_is_in_one_passage() -> None:
    page = "word " * 500 + "\n\nTable\n" + "\n".join(f"{n}  {n * n}" for n in range(100))
    spans = passages(page)
    assert "".join("".join(page[start:end].split()) for start, end in spans) == "".join(page.split())
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert max(end - start for start, end in spans) <= 600
