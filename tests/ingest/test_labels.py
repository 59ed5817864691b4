"""Labels of what in a message is quoted, attributed or a signature."""

import pytest

from unabridged.ingest.document import PartKind
from unabridged.ingest.labels import label


def _labelled(text: str) -> list[tuple[str, str]]:
    return [(part.kind.value, text[part.start : part.end].strip()) for part in label(text)]


def test_quotation_attribution_and_signature_are_labelled() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026, Dana Holt wrote:\n> first\n\n> second\n\nAgreed.\n\n-- \nPavel\nMill Street 4"
    assert _labelled(text) == [
        ("attribution", "On Mon, 2 Mar 2026, Dana Holt wrote:"),
        ("quoted", "> first\n\n> second"),
        ("signature", "-- \nPavel\nMill Street 4"),
    ]


@pytest.mark.parametrize(
    "line", ["Am 3.3.2026 schrieb Dana Holt:", "Le 3 mars 2026, Dana a écrit :", "3 марта 2026 Дана <d@x.cz> написала:"]
)
def test_attributions_of_other_languages(line: str) -> None:
    assert _labelled(f"Ja.\n{line}\n> x")[0] == ("attribution", line)


def test_an_attribution_over_two_lines() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026 at 10:00 AM, Dana Holt\n<dana@example.org> wrote:\n\n> old"
    assert _labelled(text)[0][1].startswith("On Mon")


def test_what_outlook_puts_below_is_quoted() -> None:
    text = "See below.\n\n-----Original Message-----\nFrom: a@b.c\nSubject: x\n\nThe old text."
    assert _labelled(text) == [
        ("attribution", "-----Original Message-----\nFrom: a@b.c\nSubject: x"),
        ("quoted", "The old text."),
    ]


def test_the_footer_of_a_list_is_labelled() -> None:
    text = "Own text.\n\n_______________________________________________\nR-help mailing list\nhttps://example.org\n"
    assert [kind for kind, _ in _labelled(text)] == ["footer"]


def test_own_text_carries_no_label() -> None:
    assert label("Plain words.\n\nHe wrote: nothing.\na -- b\n") == []


def test_a_long_text_behind_two_dashes_is_no_signature() -> None:
    assert PartKind.SIGNATURE not in [part.kind for part in label("Intro\n-- \n" + "A line of text.\n" * 40)]
