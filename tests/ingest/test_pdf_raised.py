"""Raised marks stand apart from the word that they are set against; formulas stay whole."""

import pytest
from tests.ingest.made import data, pages, pdf, read


def _set(*runs: tuple[str, int, int]) -> str:
    """Content that sets pieces of text side by side: text, size, rise in points."""
    shown = "".join(f"/F1 {size} Tf {rise} Ts ({text}) Tj " for text, size, rise in runs)
    return f"BT 72 700 Td {shown}ET"


def _text(*runs: tuple[str, int, int]) -> str:
    return pages(read("a.pdf", data(pdf(_set(*runs)))))[0].text


MARK, LOWERED, PLAIN = (7, 4), (7, -3), (11, 0)


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([("1", *MARK), ("Department of Physics", *PLAIN)], "1 Department of Physics"),
        ([("12", *MARK), ("It is so", *PLAIN)], "12 It is so"),
        ([("1", *MARK), ("A word on this", *PLAIN)], "1 A word on this"),
        ([("Ada Foroutan", *PLAIN), ("1,2", *MARK), (", and others", *PLAIN)], "Ada Foroutan 1,2, and others"),
        ([("begun. ", *PLAIN), ("2", *MARK), ("Then", *PLAIN)], "begun. 2 Then"),
    ],
)
def test_a_mark_stands_apart(runs: list[tuple[str, int, int]], text: str) -> None:
    assert _text(*runs) == text


@pytest.mark.parametrize(
    "runs",
    [
        [("where x", *PLAIN), ("2", *MARK), (" is", *PLAIN)],
        [("60 km", *PLAIN), ("2", *MARK)],
        [("H", *PLAIN), ("2", *LOWERED), ("O and Titan", *PLAIN), ("2", *LOWERED)],
        [("by 10", *PLAIN), ("3", *MARK), ("metres", *PLAIN)],
        [("of ", *PLAIN), ("14", *MARK), ("C dating", *PLAIN)],
        [("area51 and 3rd, 1Password", *PLAIN)],
        [("1Password", 7, 4)],
    ],
)
def test_what_is_no_mark_stays(runs: list[tuple[str, int, int]]) -> None:
    assert _text(*runs).split() == "".join(text for text, _, _ in runs).split()


def test_characters_of_the_file_that_stand_for_marks_stay() -> None:
    from unabridged.ingest.pdf.raised import marked

    class Raised:
        def box(self, at: int) -> object:
            from unabridged.ingest.pdf.glyphs import Box

            return Box(0, 5, 4, 9, 0, 4) if at == 0 else Box(5, 10, 0, 10, 5, 0)

    assert marked(Raised(), "1Department") != "1Department"  # type: ignore[arg-type]
    assert marked(Raised(), "1Department \ufdd3") == "1Department \ufdd3"  # type: ignore[arg-type]
