"""Settings: where a value comes from, and what is said about one that cannot be used."""

from pathlib import Path

import pytest

from unabridged.app.errors import SettingsInvalid
from unabridged.app.settings import describe, keys, load, save, value_of, variable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file that is not there yet."""
    return tmp_path / "config.toml"


def test_flag_beats_environment_beats_file_beats_default(file: Path) -> None:
    file.write_text("[answer]\nmode = 'whole'\nmax_tokens = 10\ntop_p = 0.5\n")
    environ = {"UNABRIDGED_ANSWER_MODE": "focused", "UNABRIDGED_ANSWER_MAX_TOKENS": "20"}
    loaded = load(file, {"answer.mode": "auto", "answer.temperature": None}, environ)
    answer = loaded.settings.answer
    assert (answer.mode, answer.max_tokens, answer.top_p, answer.temperature) == ("auto", 20, 0.5, 0.0)
    origins = loaded.origins
    assert [origins[f"answer.{name}"] for name in ("mode", "max_tokens", "top_p", "temperature")] == [
        "flag",
        "environment",
        "file",
        "default",
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[answer]\nmod = 'whole'", "answer.mod"),
        ("[anwser]\nmode = 'whole'", "anwser.mode"),
        ("[anwser]", "anwser"),
        ("mode = 'whole'", "mode"),
        ("[answer]\nmode = 'some'", "answer.mode"),
        ("[engine]\nthreads = -1", "engine.threads"),
        ("[engine", "config.toml"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_key(file: Path, text: str, named: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsInvalid, match=named) as caught:
        load(file, environ={})
    assert str(file) in str(caught.value)
    assert caught.value.hint


def test_a_misspelt_variable_of_a_known_group_is_an_error(file: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"engine\.thread"):
        load(file, environ={"UNABRIDGED_ENGINE_THREAD": "2"})


def test_variables_of_others_are_left_alone(file: Path) -> None:
    assert load(file, environ={"UNABRIDGED_DATA_DIR": "/x", "UNABRIDGED_TEST_DATA": "/y", "ENGINE_THREADS": "x"})


def test_an_unknown_key_is_answered_with_the_nearest(file: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"did you mean answer\.max_tokens"):
        save(file, "answer.max_token", "3")


def test_save_keeps_the_other_keys_and_refuses_wrong_values(file: Path) -> None:
    save(file, "answer.mode", "whole")
    save(file, "server.origins", "http://a, http://b")
    before = file.read_text()
    with pytest.raises(SettingsInvalid, match=r"server\.port"):
        save(file, "server.port", "70000")
    assert file.read_text() == before
    settings = load(file, environ={}).settings
    assert settings.answer.mode == "whole"
    assert settings.server.origins == ("http://a", "http://b")


def test_settings_are_frozen(file: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(file, environ={}).settings.answer.mode = "whole"


def test_every_setting_has_a_line_a_variable_and_a_round_trip(file: Path) -> None:
    settings = load(file, environ={}).settings
    for key in keys():
        assert describe(key).endswith("."), key
        value = value_of(settings, key)
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        assert value_of(load(file, environ={variable(key): text}).settings, key) == value
