"""The self-test: its facts, its judgement, its figures."""

import pytest

from unabridged.app.recall import Recall, documents, facts, right, wilson


def test_facts_look_alike_and_differ_in_name_and_number() -> None:
    made = facts(64)
    assert len({fact.number for fact in made}) == len({fact.question for fact in made}) == 64
    assert facts(64) == made


def test_every_fact_stands_in_one_document() -> None:
    made = facts(16)
    texts = documents(made)
    assert len(texts) == 8
    assert all(sum(fact.text in text for text in texts) == 1 for fact in made)


@pytest.mark.parametrize(
    ("answer", "found"), [("It is 12345.", True), ("12345 or 54321", False), ("123456", False), ("I don't know", False)]
)
def test_only_the_number_and_no_other_counts(answer: str, found: bool) -> None:
    assert right(answer, "12345") is found


def test_wilson_interval() -> None:
    low, high = wilson(30, 32)
    assert (round(low, 3), round(high, 3)) == (0.799, 0.983)
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_better_mode_becomes_the_default_and_focused_wins_a_tie() -> None:
    assert Recall(model="m", facts=16, tokens=1, found={"whole": 9, "focused": 8}).defaults["mode"] == "whole"
    tie = Recall(model="m", facts=16, tokens=1, found={"whole": 8, "focused": 8})
    assert tie.defaults["mode"] == "focused"
    assert "8 of 16 (28% to 72%)" in "\n".join(tie.lines())
