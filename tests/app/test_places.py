"""Places in documents, as people and the model read them."""

from pathlib import Path

import pytest

from unabridged.app.cutting import sections
from unabridged.app.places import place, span
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.library import Library
from unabridged.models.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("page", "label", "expected"),
    [
        (3, "", "page 3"),
        (3, "iv", "page iv"),
        (3, "sheet Costs, rows 2-40", "sheet Costs, rows 2-40"),
        (3, "hidden slide 4", "hidden slide 4"),
        (3, "Chapter 1", "Chapter 1"),
        (3, "Rowan-3", "page Rowan-3"),
    ],
)
def test_a_place_is_named_by_its_label(page: int, label: str, expected: str) -> None:
    assert place(page, label) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("slide 1", "slide 1", "slide 1"),
        ("slide 1", "slide 4", "slide 1 to slide 4"),
        ("rows 1-40", "rows 41-80", "rows 1-80"),
        ("sheet A, row 1", "sheet A, rows 2-9", "sheet A, rows 1-9"),
        ("sheet A, rows 1-9", "sheet B, row 1", "sheet A, rows 1-9 to sheet B, row 1"),
        ("lines 1-80", "lines 81-90", "lines 1-90"),
    ],
)
def test_two_places_are_one_span(first: str, last: str, expected: str) -> None:
    assert span(first, last) == expected


def test_sections_of_a_table_name_their_rows(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "sales.csv").write_text("lot,price\n" + "".join(f"{n},{n * 37}\n" for n in range(2, 700)))
    with Library.open(tmp_path / "data" / "library.db") as library:
        for _ in add(library, [tmp_path / "sales.csv"], "default", None, AddOptions(jobs=1)):
            pass
        (document,) = library.documents("default")
        cut = sections(document, library, tokenizer, 2_000)
    heads = [tokenizer.decode(section.ids.tolist()).split("\n")[0] for section in cut]
    assert len(cut) > 1
    assert all(len(section) <= 2_000 for section in cut)
    assert heads[0].startswith("[sales.csv, rows 1-")
    assert heads[-1].endswith("-699]")
