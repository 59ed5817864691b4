"""Which quotations stand in other messages; what is nowhere else is never among them."""

import pytest
from tests.ingest.letters import letter, store

from unabridged.ingest.catalog.repeats import Repeat, repeats
from unabridged.ingest.library import Library

FIRST = (
    "The berth at pier four is free from Friday noon until the end of the month.\n"
    "Please tell me by Thursday whether the dredger Orca will come, and how deep she draws.\n"
    "The harbour office wants the papers in advance, with the seal of the owner."
)


def _quoted(text: str, mark: str = "> ") -> str:
    return "\n".join(mark + line for line in text.split("\n"))


def _answer(number: int, body: str, to: str = "1@x") -> tuple[dict[str, str], str]:
    return letter(number, subject="Re: Dredging", references=to, body=body)


def _sources(library: Library, found: dict[int, tuple[Repeat, ...]]) -> dict[int, set[int]]:
    """The documents in which the repeats of each stand."""
    of = {row.identity: row.id for row in library.documents() if row.identity}
    return {number: {of[name] for one in each for name in one.sources} for number, each in found.items()}


def _texts(library: Library, found: dict[int, tuple[Repeat, ...]]) -> dict[int, list[str]]:
    return {
        number: [library.page(number, one.page).text[one.start : one.end].strip() for one in each]
        for number, each in found.items()
    }


def test_a_quotation_of_a_message_that_is_here_is_a_repeat(library: Library) -> None:
    below = f"She comes.\n\nOn Mon, 2 Mar 2026, Ines Vega <i@x> wrote:\n{_quoted(FIRST)}\n"
    one, two = store(library, "a", [letter(1, body=FIRST), _answer(2, below)])
    assert repeats(library, [one]) == {}
    found = repeats(library, [one, two])
    assert _texts(library, found) == {two: [_quoted(FIRST)]}
    assert _sources(library, found) == {two: {one}}
    assert repeats(library, [one, two]) == found  # as stored


def test_other_line_breaks_and_marks_make_no_difference(library: Library) -> None:
    words = FIRST.split()
    wrapped = "\n".join(">> " + " ".join(words[at : at + 5]) for at in range(0, len(words), 5))
    outlook = f"Yes.\n\nFrom: Ines Vega\nSent: Monday\nTo: Pavel\nSubject: Dredging\n\n{' '.join(words)}\n"
    one, two, three = store(library, "a", [letter(1, body=FIRST), _answer(2, f"Yes.\n{wrapped}"), _answer(3, outlook)])
    found = repeats(library, [one, two, three])
    assert _sources(library, found) == {two: {one}, three: {one}}


def test_a_quotation_of_what_is_not_here_or_was_changed_is_none(library: Library) -> None:
    other = "I ask again for the second time what the ferry costs in winter, and who pays for the fuel.\n"
    changed = " ".join("never" if index % 3 == 0 else word for index, word in enumerate(FIRST.split()))
    ids = store(
        library, "a", [letter(1, body=FIRST), _answer(2, f"Yes.\n\n> {other}"), _answer(3, f"Yes.\n\n> {changed}")]
    )
    assert repeats(library, ids) == {}


def test_short_quotations_stay(library: Library) -> None:
    asked = "Can you quote for the roof? Yes or no?"
    ids = store(library, "a", [letter(1, body=asked), _answer(2, "> Yes or no?\n\nYes.")])
    assert repeats(library, ids) == {}


TERMS = (
    "We confirm the following terms for the harbour lease agreed with the council last week.",
    "The yearly rent is 500 pounds, payable in advance on the first day of January each year.",
    "The tenant may not sublet the quay without written consent of the owner.",
    "Repairs to the wall are for the owner, and repairs to the cranes for the tenant.",
    "Either side may end this lease with six months of notice in writing.",
)


def _fed(library: Library, quoting: list[tuple[str, str]], body: str = "") -> list[str]:
    """What is left of answers that quote with (attribution, quotation), where a message with `body` is in context."""
    body = body or "\n".join(TERMS)
    letters = [letter(1, body=body)]
    letters += [_answer(at, f"Agreed.\n\n{over}\n{quoted}\n") for at, (over, quoted) in enumerate(quoting, 2)]
    ids = store(library, "a", letters)
    found, fed = repeats(library, ids), []
    for number in ids[1:]:
        text = library.page(number, 1).text
        for one in reversed(found.get(number, ())):
            text = f"{text[: one.start]}[...]{text[one.end :]}"
        fed.append(text)
    return fed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("500", "900"),
        ("500", "500.5"),
        ("may not", "may"),
        ("500 pounds, payable", "500 pounds payable"),
        ("six", "Six"),
        ("wall are", "wallare"),
    ],
)
def test_a_line_that_differs_in_one_word_is_read(library: Library, old: str, new: str) -> None:
    changed = [line.replace(old, new) for line in TERMS]
    (fed,) = _fed(library, [("On Mon, 3 Mar 2025 Ann wrote:", _quoted("\n".join(changed)))])
    assert next(line for line in changed if line not in TERMS) in fed
    assert "[...]" in fed
    assert len(fed) < len("".join(TERMS))


def test_an_answer_within_an_unmarked_quotation_is_read_with_the_words_in_front_of_it(library: Library) -> None:
    over = "-----Original Message-----\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: Lease\n"
    (fed,) = _fed(library, [(over, "\n".join((*TERMS[:2], "NO, ELEVENTEEN", *TERMS[2:])))])
    assert "January each year.\nNO, ELEVENTEEN" in fed
    assert "harbour lease" not in fed
    assert "in writing" not in fed


def test_what_is_joined_only_in_the_quotation_is_read(library: Library) -> None:
    body = "The tenant of the old quay may under this lease\nin no case and at no time\nsublet the quay to anyone else."
    lines = body.split("\n")
    (fed,) = _fed(library, [("On Mon, 3 Mar 2025 Ann wrote:", f"> {lines[0]}\n> {lines[2]}")], body)
    assert f"may under this lease\n> {lines[2]}" in fed


def test_lines_broken_elsewhere_are_the_same(library: Library) -> None:
    body = "The long-term lease of the “old” quay ends on 2026-03-31 at noon, and nobody asked why it does."
    broken = (
        '> The long-\n> term lease of the "old" quay ends on 2026-03-31\n> at noon, and nobody asked\n> why it does.'
    )
    other = broken.replace("2026-03-31", "2026-03- 31")
    over = "On Mon, 3 Mar 2025 Ann wrote:"
    same, differs = _fed(library, [(over, broken), (over, other)], body)
    assert "noon" not in same
    assert "2026-03- 31" in differs


def test_a_quotation_within_a_quotation_has_both_messages_as_sources(library: Library) -> None:
    second = "She draws three metres and eighty, and the owner will send his papers with the pilot."
    nested = f"Thanks.\n\nOn 3 Mar 2026, Pavel <p@x> wrote:\n> {second}\n>\n> On 2 Mar 2026, Ines <i@x> wrote:\n"
    nested += _quoted(FIRST, ">> ")
    one, two, three = store(
        library,
        "a",
        [letter(1, body=FIRST), _answer(2, f"{second}\n\n{_quoted(FIRST)}"), _answer(3, nested, "1@x 2@x")],
    )
    found = repeats(library, [one, two, three])
    assert _sources(library, found) == {two: {one}, three: {one, two}}


def test_the_first_that_quotes_what_is_not_here_is_the_source_of_the_others(library: Library) -> None:
    one, two = store(
        library,
        "a",
        [
            letter(2, subject="a", references="1@x", body=f"Yes.\n\n{_quoted(FIRST)}"),
            letter(3, subject="b", references="1@x 2@x", body=f"No.\n\n{_quoted(FIRST, '>> ')}"),
        ],
    )
    assert _sources(library, repeats(library, [one, two])) == {two: {one}}


def test_between_answers_the_last_words_of_quotations_stay(library: Library) -> None:
    between = f"{_quoted(FIRST)}\n\nThey have it.\n\n> whether the dredger Orca will come\n\nShe will."
    below = f"{_quoted(FIRST)}\n\nThey have it."
    one, two, three = store(library, "a", [letter(1, body=FIRST), _answer(2, between), _answer(3, below)])
    found = _texts(library, repeats(library, [one, two, three]))
    assert found[three] == [_quoted(FIRST)]
    (left_out,) = found[two]
    assert left_out.startswith("> The berth")
    assert "seal of the owner" not in left_out


def test_a_message_that_is_passed_on_is_found_in_another_thread(library: Library) -> None:
    passed = f"See.\n\n---------- Forwarded message ---------\nFrom: Ines\nSubject: Dredging\n\n{FIRST}\n"
    one, two = store(
        library,
        "a",
        [
            letter(1, body=FIRST),
            letter(2, subject="Fwd: Dredging", body=passed, to="Z <z@z.example>", sender="Q <q@q.example>"),
        ],
    )
    assert _sources(library, repeats(library, [one, two])) == {two: {one}}


def test_a_message_that_comes_later_is_compared_with_what_quotes_it(library: Library) -> None:
    (two,) = store(library, "b", [_answer(2, f"She comes.\n\n{_quoted(FIRST)}")])
    assert repeats(library, [two]) == {}
    (one,) = store(library, "a", [letter(1, body=FIRST)])
    assert _sources(library, repeats(library, [two])) == {two: {one}}
    library.remove(["/case/a"])
    assert repeats(library, [two]) == {}


def test_a_thread_that_quotes_all_of_itself_takes_time_that_grows_with_it(library: Library) -> None:
    import time

    body, letters = FIRST, []
    for number in range(1, 61):
        letters.append(_answer(number, body, f"{number - 1}@x"))
        body = f"Answer number {number} is that nothing has changed since then.\n\n{_quoted(body)}"
    ids = store(library, "a", letters)
    began = time.process_time()
    assert len(repeats(library, ids)) == 59
    assert time.process_time() - began < 5
