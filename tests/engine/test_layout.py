"""Positions with and without the filler between entries."""

import pytest

from unabridged.engine.layout import Layout, filled


def test_pages_of_one_slot_change_nothing() -> None:
    layout = Layout((3, 5), 1)
    assert (layout.tokens, layout.slots) == (8, 8)
    assert [layout.position(slot) for slot in range(10)] == list(range(10))


def test_filler_has_no_position_and_what_follows_begins_on_a_page() -> None:
    layout = Layout((9, 16, 17), 16)
    assert (layout.tokens, layout.slots) == (42, 64)
    assert [layout.place(entry) for entry in range(4)] == [0, 16, 32, 64]
    assert [layout.position(slot) for slot in (0, 8, 9, 15, 16, 31, 32, 48, 49, 63)] == [
        *(0, 8, None, None, 9, 24, 25, 41, None, None)
    ]


def test_the_conversation_counts_on_behind_all_entries() -> None:
    assert Layout((9, 17), 16).position(48 + 5) == 26 + 5
    assert Layout((), 16).position(7) == 7


@pytest.mark.parametrize(("tokens", "slots"), [(0, 0), (1, 16), (16, 16), (17, 32)])
def test_pages_are_filled_up(tokens: int, slots: int) -> None:
    assert filled(tokens, 16) == slots
