"""Cutting text into pages."""

import random

import pytest

from unabridged.ingest.texts.pages import cut


@pytest.mark.parametrize("seed", range(20))
def test_pages_put_together_are_the_text(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(
        rng.choice(["word ", "\n", "\n\n", "x" * rng.randrange(400), ". "]) for _ in range(rng.randrange(600))
    )
    pages = list(cut(text, 500))
    assert "".join(pages) == text
    assert max(map(len, pages)) <= 625


def test_a_page_ends_at_a_paragraph_where_there_is_one() -> None:
    text = "\n\n".join(["A paragraph of some words."] * 50)
    assert all(page.endswith("\n\n") for page in list(cut(text, 300))[:-1])


def test_a_line_of_a_million_letters_is_cut_by_size() -> None:
    assert len(list(cut("a" * 1_000_000, 3_000))) == 334
