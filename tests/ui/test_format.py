"""Words for people, safe for a terminal."""

import msgspec
import pytest

from unabridged.app.events import Added, Answer, Problem, Stage
from unabridged.ui import format as words
from unabridged.ui.export import answer_text, conversation_markdown
from unabridged.ui.place import Place
from unabridged.ui.widgets.status import bar


def test_control_characters_become_visible_and_offsets_hold() -> None:
    text = "a\x1b]0;title\x07b\tc\nd\x9be\u202ef"
    cleaned = words.clean(text)
    assert len(cleaned) == len(text)
    assert "\x1b" not in cleaned
    assert "\u202e" not in cleaned
    assert cleaned.count("\n") == 1


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0, "0.0 s"), (9.99, "10 s"), (59.4, "59 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")]
)
def test_durations_read_as_people_say_them(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(("number", "said"), [(950, "950"), (12_410, "12.4k"), (999_960, "1.0M"), (3_100_000, "3.1M")])
def test_token_counts_are_short(number: int, said: str) -> None:
    assert words.tokens(number) == said


@pytest.mark.parametrize("width", range(0, 12))
def test_shortened_names_fit_and_keep_their_end(width: int) -> None:
    short = words.shorten("a-long-name.pdf", width)
    assert len(short) == width
    if width > 8:
        assert short.endswith(".pdf")


def test_progress_says_what_how_far_and_how_long() -> None:
    stage = Stage(name="read", done=3, total=12, unit="pages", seconds_left=75)
    assert words.stage(stage) == "1 min 15 s left · reading · 3 of 12 pages"
    assert words.stage(Stage(name="queue", text="waiting behind 2 others")) == "waiting behind 2 others"
    assert bar(1, 4, 8) == "━━╌╌╌╌╌╌"
    assert bar(5, 0, 4) == "╌╌╌╌"


def test_an_error_is_one_line_with_its_hint() -> None:
    line = words.problem(Problem(code="x", message="the engine\ndied", hint="ask again"))
    assert line == "the engine died → ask again"


def test_the_receipt_lists_everything_left_out(answer: Answer) -> None:
    lines = words.receipt_lines(answer.receipt)
    assert "Left out: scan of the old inventory.pdf, all of it: no text: the pages are images" in lines
    assert words.receipt_title(answer.receipt) == "focused · 2 documents · 13 pages · 1 left out · 12.4k tokens · 4.2 s"


def test_the_receipt_says_when_documents_were_read_as_one_text(answer: Answer) -> None:
    joint = msgspec.structs.replace(answer.receipt, composition="joint")
    assert any(line.endswith("tokens, read as one text (joint)") for line in words.receipt_lines(joint))
    assert not any("one text" in line for line in words.receipt_lines(answer.receipt))


def test_reading_files_ends_in_a_summary_of_problems() -> None:
    done = Added(
        collection="c", files=3, statuses={"read": 2, "needs_password": 1}, changes={"new": 3, "changed": 0}, seconds=2
    )
    assert words.added(done) == "3 files in 2.0 s · 3 new · 1 needs password"
    within = msgspec.structs.replace(done, statuses={"read": 3}, inside={"damaged": 2})
    assert words.added(within) == "3 files in 2.0 s · 3 new · of what files hold: 2 damaged"


def test_a_copied_answer_carries_its_sources(answer: Answer) -> None:
    text = answer_text(answer)
    assert "a month [1]" in text
    assert "[1] /home/ann/case/contracts/lease [2024].pdf, page 3 (printed ii): “The monthly rent" in text
    assert "(by attention only): “The deposit was paid" in text


def test_an_exported_conversation_says_which_answers_are_incomplete(answer: Answer) -> None:
    text = conversation_markdown([("Rent?", answer, ""), ("And then?", None, "The lease")])
    assert text.startswith("## Rent?")
    assert "**Receipt**" in text
    assert "The lease\n\n*The answer is incomplete" in text


def test_a_cited_passage_is_found_where_it_moved_to(answer: Answer) -> None:
    place = Place.of(answer.citations[1])
    assert place.spans(place.quote) == [(0, len(place.quote))]
    assert place.spans("something else") == []


def test_search_words_are_marked_whatever_their_case() -> None:
    assert Place(document_id=1, path="a", words=("rent", "(c)")).spans("Rent (C) x rent") == [(0, 4), (5, 8), (11, 15)]
