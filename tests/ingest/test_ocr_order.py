"""Recognised lines come in the order in which people read."""

from unabridged.ingest.ocr.order import Box, in_order


def _lines(left: float, words: str, top: float = 100, width: float = 300) -> list[tuple[Box, str]]:
    return [((left, top + 30 * n, left + width, top + 30 * n + 20), word) for n, word in enumerate(words.split())]


def _text(*groups: list[tuple[Box, str]]) -> str:
    pieces = sorted((piece for group in groups for piece in group), key=lambda piece: (piece[0][1], piece[0][0]))
    return in_order([box for box, _ in pieces], [text for _, text in pieces])


def test_columns_are_read_one_after_the_other() -> None:
    title = [((100.0, 20.0, 800.0, 60.0), "Title")]
    assert _text(title, _lines(100, "a b c d"), _lines(500, "e f g h")) == "Title\n\na\nb\nc\nd\n\ne\nf\ng\nh"


def test_pieces_of_a_line_stand_beside_each_other() -> None:
    names, sums = _lines(100, "Rent Heat Light", width=80), _lines(600, "900 120 45", width=50)
    assert _text(names, sums) == "Rent 900\nHeat 120\nLight 45"


def test_blocks_are_apart() -> None:
    assert _text(_lines(100, "one two"), _lines(100, "three four", top=400)) == "one\ntwo\n\nthree\nfour"


def test_no_lines_are_no_text() -> None:
    assert in_order([], []) == ""
