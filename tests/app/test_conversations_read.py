"""Mail in a context: conversations together, each text once, attachments with their message."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ingest.letters import add_files, letter, store

from unabridged.app.context import Layout
from unabridged.app.cutting import header, sections
from unabridged.app.errors import NothingToRead
from unabridged.app.events import Question
from unabridged.app.routing import Ask, Limits, Plan, Planner
from unabridged.app.selection import meant
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.library import Library
from unabridged.models.tokenizer import Tokenizer

FIRST = (
    "The berth at pier four is free from Friday noon until the end of the month. Please tell me by Thursday whether "
    "the dredger Orca will come, and how deep she draws."
)
LIMITS = Limits(whole=True, window=8192, room=100_000, section=256, focus=4)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library.open(tmp_path / "library.db") as opened:
        yield opened


def _answer(number: int, body: str) -> tuple[dict[str, str], str]:
    return letter(number, subject="Re: Dredging", references="1@x", sender="Pavel <p@x>", body=body)


BELOW = f"She draws 3.8 metres.\n\nOn Mon, 2 Mar 2026, Ines Vega <i@x> wrote:\n> {FIRST}\n"


def _plan(library: Library, tokenizer: Tokenizer, query: str = "", mode: str = "whole", **where: object) -> Plan:
    planner = Planner(library, tokenizer, {}, 1)
    return planner.plan(Ask("default", Filter(**where), query, mode), LIMITS)  # type: ignore[arg-type]


def _texts(plan: Plan, tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.decode(section.ids.tolist()) for section in plan.sections]


def test_a_quotation_is_left_out_where_its_message_is_read(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "box", [letter(1, body=FIRST), _answer(2, BELOW)])
    plan = _plan(library, tokenizer)
    first, second = _texts(plan, tokenizer)
    assert FIRST in first
    assert second.rstrip().endswith("She draws 3.8 metres.\n\nOn Mon, 2 Mar 2026, Ines Vega <i@x> wrote:\n\n[...]")
    repeated = sum(section.repeated for section in plan.sections)
    assert repeated == pytest.approx(len(tokenizer.encode(FIRST)), abs=4)
    assert f"{repeated:,} tokens of quotations were left out" in " ".join(plan.notes)


def test_a_quotation_is_read_where_its_message_is_not(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "box", [letter(1, body=FIRST), _answer(2, BELOW)])
    (text,) = _texts(_plan(library, tokenizer, sender="pavel"), tokenizer)
    assert FIRST in text
    assert _plan(library, tokenizer, sender="pavel").notes == ()


def test_tokens_around_what_was_left_out_lead_to_their_characters(library: Library, tokenizer: Tokenizer) -> None:
    between = f"Before it.\n\n> {FIRST}\n\nBetween them.\n\n> {FIRST}\n"
    _, two = store(library, "box", [letter(1, body=FIRST), _answer(2, between)])
    plan = _plan(library, tokenizer)
    layout = Layout(10, plan.sections)
    text, seen, position = library.page(two, 1).text, "", 10
    for section in plan.sections:
        for at in range(len(section)):
            for place in layout.places(position + at, 1):
                page = library.page(place.document_id, place.page).text
                assert page[place.start : place.end] == tokenizer.decode([section.ids[at]])
                seen += page[place.start : place.end] if place.document_id == two else ""
        position += len(section)
    assert "Before it." in seen
    assert "Between them." in seen
    assert len(seen) < len(text) - len(FIRST)


def test_what_is_added_beside_a_message_leaves_its_tokens(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "box", [letter(1, body=FIRST), _answer(2, BELOW), letter(3, subject="Ferry")])
    before = {section.document.path: section.ids for section in _plan(library, tokenizer).sections}
    store(library, "new", [_answer(4, "It rained."), letter(5, subject="Mill")])
    after = {section.document.path: section.ids for section in _plan(library, tokenizer).sections}
    assert {path: after[path] for path in before} == before
    assert len(after) == 5


def test_a_message_that_is_there_twice_is_read_once_and_its_variant_too(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "a", [letter(1, body=FIRST)])
    store(
        library,
        "b",
        [letter(1, body=FIRST + "\n____________________\nthe mailing list\n"), letter(1, body="Other text.")],
    )
    plan = _plan(library, tokenizer)
    assert [section.document.path for section in plan.sections] == ["/case/a#1", "/case/b#2"]
    (copy,) = plan.left_out
    assert (copy.document, copy.reason) == ("/case/b#1", "the same message as a#1, which is read")
    assert plan.found == 2


def test_hidden_text_that_is_not_read_is_named(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "a", [letter(1, body=FIRST), letter(2, subject="Mill", body="The mill stands still.")])
    assert _plan(library, tokenizer).notes == ()
    library.connection.execute(
        """UPDATE pages SET parts = '[{"kind":"hidden","start":0,"end":4}]' WHERE text LIKE '%Mill%'"""
    )
    notes = " ".join(_plan(library, tokenizer).notes)
    assert "hidden text of 1 document was not read" in notes


def test_a_copy_is_said_to_be_read_elsewhere_only_where_it_is(library: Library, tokenizer: Tokenizer) -> None:
    for name in ("a", "b"):
        store(library, name, [letter(1, body=FIRST), letter(2, subject="Mill", body="The mill stands still.")])
    plan = _plan(library, tokenizer, "How deep does the dredger Orca draw?", "focused")
    assert [section.document.path for section in plan.sections] == ["/case/a#1"]
    left = {entry.document: entry.reason for entry in plan.left_out}
    assert left["/case/b#1"] == "the same message as a#1, which is read"
    assert left["1 copy"] == "what they are copies of is not read either"
    assert "/case/b#2" not in left


def test_of_copies_the_one_outside_of_an_archive_is_read(
    library: Library, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "z.txt").write_text(FIRST)
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("client/z.txt", FIRST)
    add_files(library, folder)
    plan = _plan(library, tokenizer)
    assert [section.document.path for section in plan.sections] == [f"{folder}/z.txt"]
    (copy,) = plan.left_out
    assert (copy.document, copy.reason) == (f"{folder}/a.zip/client/z.txt", "the same file as z.txt, which is read")


def test_a_quotation_of_a_copy_is_left_out_as_well(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "a", [letter(1, body=FIRST)])
    store(library, "b", [letter(1, body=FIRST), _answer(2, BELOW)])
    assert sum(FIRST in text for text in _texts(_plan(library, tokenizer), tokenizer)) == 1
    assert sum(FIRST in text for text in _texts(_plan(library, tokenizer, patterns=("/b",)), tokenizer)) == 1


def test_a_conversation_is_read_together_by_date(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "inbox", [letter(1), letter(9, subject="Ferry"), _answer(5, "Fifth.")])
    store(library, "sent", [_answer(3, "Third."), letter(8, subject="Mill")])
    found = [section.document.meta["message_id"] for section in _plan(library, tokenizer).sections]
    assert found == ["1@x", "3@x", "5@x", "9@x", "8@x"]


def test_focused_reads_what_matches_of_a_conversation_by_date(library: Library, tokenizer: Tokenizer) -> None:
    store(
        library,
        "box",
        [
            _answer(5, "The dredger is orange."),
            letter(1, body="The dredger is orange."),
            letter(7, subject="Mill", body="The mill."),
        ],
    )
    plan = _plan(library, tokenizer, "Which colour has the orange dredger?", "focused")
    assert [section.document.meta["message_id"] for section in plan.sections] == ["1@x", "5@x"]


def test_focused_finds_a_fact_where_it_was_written_not_where_it_is_quoted(
    library: Library, tokenizer: Tokenizer
) -> None:
    quoting = [_answer(number, f"Thanks, {number}.\n\n> {FIRST}\n") for number in range(2, 12)]
    store(library, "box", [*quoting, letter(1, body=FIRST), letter(20, subject="Depth", body="Orca draws 3.8 metres.")])
    planner = Planner(library, tokenizer, {}, 1)
    limits = Limits(whole=True, window=8192, room=100_000, section=64, focus=2)
    plan = planner.plan(Ask("default", Filter(), "How deep does the dredger Orca draw?", "focused"), limits)
    found = {section.document.meta["message_id"] for section in plan.sections}
    assert found == {"1@x", "20@x"}


def test_what_is_attached_names_its_message_and_what_goes_on_its_sender(tmp_path: Path, tokenizer: Tokenizer) -> None:
    long = "The road lay empty between the fields. " * 60
    (tmp_path / "a.eml").write_text(
        "From: Ines Vega <ines@x.example>\nTo: p@x.example\nDate: Mon, 2 Mar 2026 10:00:00 +0000\nMessage-ID: <a@x>\n"
        'Subject: Lease\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n'
        f'Content-Type: text/plain\n\n{long}\n--b\nContent-Type: text/plain; name="note.txt"\n'
        'Content-Disposition: attachment; filename="note.txt"\n\nThe note.\n--b--\n'
    )
    with Library.open(tmp_path / "library.db") as library:
        add_files(library, tmp_path / "a.eml")
        message, note = library.documents()
        cut = sections(message, library, tokenizer, 256)
        begins = [tokenizer.decode(section.ids.tolist()).split("\n")[0] for section in cut]
        assert begins[0] == "[a.eml]"
        assert set(begins[1:]) == {"[a.eml, continued, from Ines Vega, 2026-03-02]"}
        assert all(len(section) <= 256 for section in cut)
        (section,) = sections(note, library, tokenizer, 256)
        line = tokenizer.decode(section.ids.tolist()).split("\n")[0]
        assert line == "[a.eml/note.txt, attached to Lease, from Ines Vega, 2026-03-02]"
    assert header(note, [1]) == "[a.eml/note.txt]\n"


def test_a_filter_that_means_nothing_is_an_error_with_a_way_out(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "box", [letter(1)])
    with pytest.raises(NothingToRead, match="matches --from nobody --since 2030") as error:
        _plan(library, tokenizer, sender="nobody", since="2030")
    assert error.value.hint == "taken alone, --from nobody: 0, --since 2030: 0"


def test_what_a_date_cannot_mean_is_said(library: Library, tokenizer: Tokenizer) -> None:
    store(library, "box", [letter(1), letter(2, subject="Ferry", date="")])
    (left_out,) = _plan(library, tokenizer, since="2026").left_out
    assert left_out.document == "/case/box#2"
    assert "no date is known" in left_out.reason


def test_a_question_s_fields_are_the_filter_s() -> None:
    question = Question(
        text="?",
        documents=("a",),
        sender="b",
        recipient="c",
        since="d",
        until="e",
        tags=("f",),
        kinds=("g",),
        thread="h",
    )
    assert meant(question) == Filter(
        patterns=("a",), sender="b", recipient="c", since="d", until="e", tags=("f",), kinds=("g",), thread="h"
    )
