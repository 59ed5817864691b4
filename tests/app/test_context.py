"""Documents laid out as sections, and the way back from token to page; what is read of a collection."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from unabridged.app.context import Layout, Section, ranges
from unabridged.app.cutting import header, sections
from unabridged.app.errors import NothingToRead
from unabridged.app.events import Turn
from unabridged.app.prompt import Prompt
from unabridged.app.routing import Ask, Limits, Plan, Planner
from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.errors import CollectionNotFound
from unabridged.ingest.library import Library
from unabridged.models.tokenizer import Tokenizer

LIMIT = 256
FACT = "The dredger Orca costs 38,500 euros."


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Iterator[Library]:
    """Three texts, one short and two longer than a section, the second with a fact at its end; and a broken PDF."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "short.txt").write_text("The ferry draws 3.8 metres.")
    (folder / "plain.txt").write_text("The mill turned slowly in the mist. Nobody hurried that day. " * 60)
    (folder / "long.txt").write_text("The road lay empty between the fields. " * 80 + FACT)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    with Library.open(tmp_path_factory.mktemp("data") / "library.db") as opened:
        for _ in add(opened, [folder], "default", tokenizer, AddOptions(jobs=1)):
            pass
        yield opened


def _document(library: Library, name: str):  # type: ignore[no-untyped-def]
    return next(row for row in library.documents() if row.path.endswith(name))


def _text(section: Section, library: Library) -> str:
    parts = []
    for piece in section.pieces:
        start, end = piece.characters(piece.at, piece.end)
        parts.append(library.page(section.document.id, piece.page).text[start:end])
    return "".join(parts)


def test_sections_keep_to_the_limit_and_hold_every_character_once(library: Library, tokenizer: Tokenizer) -> None:
    for name in ("short.txt", "plain.txt", "long.txt"):
        document = _document(library, name)
        cut = sections(document, library, tokenizer, LIMIT)
        assert all(len(section) <= LIMIT for section in cut)
        whole = "".join(page.text for page in library.pages(document.id))
        assert "".join("".join(_text(section, library) for section in cut).split()) == "".join(whole.split())


def test_long_pages_are_cut_behind_a_sentence(library: Library, tokenizer: Tokenizer) -> None:
    cut = sections(_document(library, "plain.txt"), library, tokenizer, LIMIT)
    assert len(cut) > 2
    assert all(_text(section, library).rstrip().endswith(".") for section in cut)


def test_a_section_begins_with_its_name(library: Library, tokenizer: Tokenizer) -> None:
    (section,) = sections(_document(library, "short.txt"), library, tokenizer, LIMIT)
    assert tokenizer.decode(section.ids.tolist()) == "[short.txt]\nThe ferry draws 3.8 metres.\n\n"
    assert header(section.document, [1]) == "[short.txt]\n"


def test_a_position_leads_to_its_characters(library: Library, tokenizer: Tokenizer) -> None:
    cut = [
        section
        for name in ("short.txt", "long.txt")
        for section in sections(_document(library, name), library, tokenizer, LIMIT)
    ]
    layout = Layout(10, cut)
    position = 10
    for section in cut:
        for at in range(len(section)):
            for place in layout.places(position + at, 1):
                text = library.page(place.document_id, place.page).text[place.start : place.end]
                assert text == tokenizer.decode([section.ids[at]])
        position += len(section)
    assert list(layout.places(0, 10)) == []
    assert list(layout.places(position, 16)) == []
    assert layout.section_at(10) is cut[0]
    assert (layout.tokens, len(layout.documents)) == (position - 10, 2)


def test_a_chunk_over_two_sections_has_places_in_both(library: Library, tokenizer: Tokenizer) -> None:
    cut = sections(_document(library, "plain.txt"), library, tokenizer, LIMIT)
    border = len(cut[0])
    places = list(Layout(0, cut).places(border - 16, 32))
    assert len(places) == 2
    assert places[0].end <= places[1].start


def test_page_ranges_are_for_people() -> None:
    assert ranges([7, 1, 2, 3, 9, 10]) == "1-3, 7, 9-10"


# ---------------------------------------------------------------------------------------------------------------- plans


def _plan(library: Library, tokenizer: Tokenizer, query: str, **changes: object) -> Plan:
    limits: dict[str, object] = {"whole": True, "window": 8192, "room": 100_000, "section": LIMIT, "focus": 1}
    ask: dict[str, object] = {"collection": "default", "where": Filter(), "query": query, "mode": "auto"}
    limits |= {key: changes[key] for key in changes if key in limits}
    ask |= {key: changes[key] for key in changes if key in ask}
    planner = Planner(library, tokenizer, {"mode": "focused"}, 135_000_000)
    return planner.plan(Ask(**ask), Limits(**limits))  # type: ignore[arg-type]


def test_focused_reads_the_section_that_matches_and_says_what_it_left(library: Library, tokenizer: Tokenizer) -> None:
    plan = _plan(library, tokenizer, "How much does the dredger Orca cost?")
    assert plan.mode == "focused"
    assert "38,500" in _text(plan.sections[-1], library)
    assert len(plan.sections) == 1
    left = {entry.document.rpartition("/")[2]: entry for entry in plan.left_out}
    assert {"long.txt", "2 other documents", "broken.pdf"} <= set(left)
    assert left["broken.pdf"].reason


def test_whole_reads_everything(library: Library, tokenizer: Tokenizer) -> None:
    plan = _plan(library, tokenizer, "anything", mode="whole")
    assert {section.document.path.rpartition("/")[2] for section in plan.sections} == {
        "short.txt",
        "plain.txt",
        "long.txt",
    }
    assert [entry.document.rpartition("/")[2] for entry in plan.left_out] == ["broken.pdf"]


def test_whole_that_does_not_fit_keeps_what_matches_and_lists_the_rest(library: Library, tokenizer: Tokenizer) -> None:
    plan = _plan(library, tokenizer, "How much does the dredger Orca cost?", mode="whole", room=700)
    assert sum(len(section) for section in plan.sections) <= 700
    assert "38,500" in "".join(_text(section, library) for section in plan.sections)
    assert any("does not fit" in entry.reason for entry in plan.left_out)
    assert plan.notes


def test_an_engine_that_cannot_read_all_is_focused_and_says_so(library: Library, tokenizer: Tokenizer) -> None:
    plan = _plan(library, tokenizer, "dredger", mode="whole", whole=False, window=512)
    assert plan.mode == "focused"
    assert "exceed" in plan.why


def test_auto_is_whole_when_focused_would_read_as_much(library: Library, tokenizer: Tokenizer) -> None:
    assert _plan(library, tokenizer, "ferry", where=Filter(patterns=("short.txt",))).mode == "whole"


def test_a_question_without_a_known_word_reads_a_beginning_and_says_so(library: Library, tokenizer: Tokenizer) -> None:
    plan = _plan(library, tokenizer, "Xylophones?", mode="focused")
    assert len(plan.sections) == 1
    assert "no word of the question occurs" in plan.notes[0]


def test_hints_are_the_sentences_with_the_rarest_words_of_the_question(library: Library, tokenizer: Tokenizer) -> None:
    query = "How much does the dredger Orca cost?"
    plan = _plan(library, tokenizer, query)
    assert Planner(library, tokenizer, {}, 1).hints(query, plan, 1) == (FACT,)
    assert Planner(library, tokenizer, {}, 1).hints("Xylophones?", plan, 2) == ()


def test_hints_of_a_large_plan_come_from_the_pages_that_match(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02}.txt").write_text(FACT if number == 41 else f"Page {number} speaks of the weather.")
    with Library.open(tmp_path / "library.db") as opened:
        for _ in add(opened, [folder], "default", tokenizer, AddOptions(jobs=1)):
            pass
        query = "How much does the dredger Orca cost?"
        plan = _plan(opened, tokenizer, query, mode="whole")
        assert len(plan.sections) == 60
        assert Planner(opened, tokenizer, {}, 1).hints(query, plan, 1) == (FACT,)


def test_hidden_text_reaches_neither_model_nor_hints(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "a.html").write_text(
        "<p>The pump costs 40 euros.</p><p style='display:none'>The pump costs 99 euros.</p><p>It is blue.</p>"
    )
    with Library.open(tmp_path / "library.db") as opened:
        for _ in add(opened, [tmp_path / "a.html"], "default", tokenizer, AddOptions(jobs=1)):
            pass
        query = "What does the pump cost?"
        plan = _plan(opened, tokenizer, query)
        assert "99" not in tokenizer.decode(plan.sections[0].ids.tolist())
        assert "99" not in " ".join(Planner(opened, tokenizer, {}, 1).hints(query, plan, 4))


def test_plans_repeat(library: Library, tokenizer: Tokenizer) -> None:
    plans = [_plan(library, tokenizer, "the road and the mill", focus=3) for _ in range(2)]
    assert [section.key for section in plans[0].sections] == [section.key for section in plans[1].sections]


def test_nothing_to_read_is_an_error_with_a_way_out(library: Library, tokenizer: Tokenizer) -> None:
    with pytest.raises(NothingToRead, match=r"nix\.doc"):
        _plan(library, tokenizer, "q", where=Filter(patterns=("nix.doc",)))
    with pytest.raises(NothingToRead, match="matches --doc broken has text"):
        _plan(library, tokenizer, "q", where=Filter(patterns=("broken",)))
    with pytest.raises(CollectionNotFound):
        _plan(library, tokenizer, "q", collection="none")


# --------------------------------------------------------------------------------------------------------------- prompt


def test_the_prefix_is_the_same_for_every_question(tokenizer: Tokenizer) -> None:
    prompt = Prompt(tokenizer)
    one = prompt.conversation([Turn("user", "What?")], 1000)
    two = prompt.conversation([Turn("system", "Be brief."), Turn("user", "And then?")], 1000)
    assert one.ids != two.ids
    full = tokenizer.decode(prompt.prefix + two.ids)
    assert "Be brief." in full
    assert full.index("documents") < full.index("Be brief.") < full.index("And then?")


def test_a_long_conversation_loses_its_oldest_exchanges_never_the_question(tokenizer: Tokenizer) -> None:
    turns = [Turn(role, f"{role} {n} " + "word " * 50) for n in range(5) for role in ("user", "assistant")]
    cut = Prompt(tokenizer).conversation([*turns, Turn("user", "the question")], 200)
    text = tokenizer.decode(cut.ids)
    assert cut.dropped == 4
    assert "the question" in text
    assert "user 4" in text
    assert "user 0" not in text
