"""The keys in the documentation are those of the program."""

from pathlib import Path

from unabridged.ui.screens.help import keys_markdown
from unabridged.ui.tui import key_sections

KEYS = Path(__file__).resolve().parents[2] / "docs" / "keys.md"


def test_the_documentation_lists_the_keys_as_they_are() -> None:
    assert KEYS.read_text("utf-8").endswith(keys_markdown(key_sections()) + "\n"), "docs/keys.md is out of date"


def test_every_binding_has_an_id_and_a_tooltip() -> None:
    for _, bindings in key_sections():
        for binding in bindings:
            assert not isinstance(binding, tuple)
            assert binding.id
            assert binding.tooltip
