"""The documentation says what the program does: settings, commands, versions, links, the shape of decisions and log."""

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from unabridged import __version__
from unabridged.app.cli import cli
from unabridged.app.settings import describe, keys, variable

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md"), ROOT / "engine/attention/README.md"])
PACKAGES = ("app", "engine", "ingest", "models", "ui", "tests")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", ["cli.md", "settings.md"])
def test_pages_that_the_code_writes_are_current(page: str) -> None:
    generate = runpy.run_path(str(DOCS / "generate.py"))
    assert generate["written"](page) == generate["generated"]()[page], (
        f"docs/{page} is out of date: run .venv/bin/python docs/generate.py"
    )


@pytest.mark.parametrize("key", keys())
def test_every_setting_is_documented(key: str) -> None:
    (row,) = [line for line in (DOCS / "settings.md").read_text("utf-8").splitlines() if f"`{key}`" in line]
    assert f"`{variable(key)}`" in row
    assert describe(key) in row


def test_every_environment_variable_is_documented() -> None:
    sources = [
        path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name != "test_settings.py"
    ]
    used = {found for path in sources for found in re.findall(r"\bUNABRIDGED_[A-Z_]+[A-Z]\b", path.read_text("utf-8"))}
    text = (DOCS / "settings.md").read_text("utf-8")
    assert [one for one in sorted(used) if f"`{one}`" not in text] == []


# ----------------------------------------------------------------------------------------------------------- examples


def examples() -> Iterator[tuple[str, str]]:
    """(page, command line) of every line in a code block that begins with the program's name."""
    for page in PAGES:
        blocks = _FENCE.findall(page.read_text("utf-8")) if page.name != "cli.md" else []
        lines = [line for block in blocks for line in block.splitlines()]
        lines += [line[4:] for line in page.read_text("utf-8").splitlines() if line.startswith("    ")]
        for line in lines:
            if (command := line.removeprefix("$ ")).startswith("unabridged ") and "|" not in command:
                yield name_of(page), command


@pytest.mark.parametrize(("page", "line"), sorted(set(examples())))
def test_examples_have_commands_and_options_that_exist(page: str, line: str) -> None:
    context = click.Context(cli, info_name="unabridged", **cli.context_settings)
    command: click.Command = cli
    words = shlex.split(line, comments=True)[1:]
    while True:
        _, words, _ = command.make_parser(context).parse_args(words)
        if not isinstance(command, click.Group) or not words:
            break
        name, inner = words[0], command.get_command(context, words[0])
        assert inner is not None, f"{page}: no command {name}"
        command, words = inner, words[1:]
        context = click.Context(command, info_name=name, parent=context)


# -------------------------------------------------------------------------------------------------------------- shape


def test_the_changelog_begins_with_this_version() -> None:
    found = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == __version__


def decisions() -> list[Path]:
    return [path for path in sorted((DOCS / "decisions").glob("*.md")) if path.name != "README.md"]


@pytest.mark.parametrize("path", decisions(), ids=lambda path: path.stem)
def test_every_decision_is_numbered_and_dated(path: Path) -> None:
    text = path.read_text("utf-8")
    number = re.match(r"(\d{4})-[a-z0-9-]+\.md$", path.name)
    assert number is not None
    assert text.startswith(f"# {int(number[1])}. ")
    assert _DATE.search(text.split("\n\n")[1])


def test_no_two_decisions_have_one_number() -> None:
    numbers = [path.name[:4] for path in decisions()]
    assert len(numbers) == len(set(numbers))


def test_every_entry_of_the_log_is_dated() -> None:
    heads = [line for line in (DOCS / "log.md").read_text("utf-8").splitlines() if line.startswith("## ")]
    assert heads
    assert [line for line in heads if not _DATE.match(line[3:])] == []


# -------------------------------------------------------------------------------------------------------------- links


def links() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for first, second in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
            target = first or second
            if not re.match(r"[a-z]+:", target):
                yield name_of(page), target


def anchors(page: Path) -> set[str]:
    """Names of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize(("page", "target"), sorted(set(links())))
def test_relative_links_lead_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = (ROOT / page).parent / path if path else ROOT / page
    assert found.exists()
    assert not anchor or anchor in anchors(found)
