import pytest

from unabridged.engine.textstop import StopText


def run(stops: tuple[str, ...], *pieces: str) -> tuple[list[str], bool]:
    text = StopText(stops)
    out = [text.push(piece)[0] for piece in pieces]
    return [*out, text.flush()], text.stopped


def test_without_stop_strings_text_passes_at_once() -> None:
    assert run((), "a", "", "b") == (["a", "", "b", ""], False)
    assert run(("",), "a") == (["a", ""], False)


def test_what_may_become_a_stop_string_is_held_until_it_is_certain() -> None:
    assert run(("END",), "an E", "N", "d") == (["an ", "", "ENd", ""], False)
    assert run(("END",), "an E", "N") == (["an ", "", "EN"], False)


def test_the_answer_ends_before_the_stop_string_however_it_is_cut() -> None:
    for cut in range(1, 11):
        text = "an END. no"
        out, stopped = run(("END",), text[:cut], text[cut:])
        assert "".join(out) == "an "
        assert stopped


def test_the_earliest_of_several_stop_strings_wins() -> None:
    assert run(("\n\n", "Q:"), "one Q: two\n\n") == (["one ", ""], True)


@pytest.mark.parametrize("stop", ["aab", "aaab"])
def test_repeated_beginnings_do_not_hide_the_stop_string(stop: str) -> None:
    out, stopped = run((stop,), *"aaaab")
    assert "".join(out) == "aaaab"[: -len(stop)]
    assert stopped
