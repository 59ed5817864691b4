"""Filters where people and programs meet them: command line, native routes, the OpenAI-compatible extension."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from unabridged.app import cli
from unabridged.app.client import Client
from unabridged.app.events import Question
from unabridged.app.openai_request import ChatRequest, question_of
from unabridged.app.settings import AnswerSettings

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with a note, and two messages of one conversation in a folder beneath it."""
    folder = tmp_path / "case"
    (folder / "harbour").mkdir(parents=True)
    (folder / "note.txt").write_text("The ferry is late.")
    head = "From: {} <{}@x.example>\nTo: p@x.example\nDate: {} Mar 2026 10:00:00 +0000\nMessage-ID: <{}@x>\n{}"
    head += "Subject: Ferry\n\n"
    (folder / "harbour" / "1.eml").write_text(head.format("Ines", "ines", "2", "1", "") + "The ferry draws 3 metres.\n")
    reply = head.format("Bob", "bob", "4", "2", "References: <1@x>\n")
    (folder / "harbour" / "2.eml").write_text(reply + "The ferry is orange.\n")
    return folder


@pytest.fixture
def run(run: Run, case: Path) -> Run:
    """Commands over a library that holds the folder."""
    assert run("add", str(case))[0] == 0
    return run


def _listed(run: Run, *arguments: str) -> list[str]:
    return [Path(json.loads(line)["path"]).name for line in run("ls", "--json", *arguments)[1].splitlines()]


def test_ls_and_search_take_filters(run: Run) -> None:
    assert _listed(run, "--from", "INES") == ["1.eml"]
    assert _listed(run, "--to", "p@x", "--since", "2026-03-03", "--until", "2026-03") == ["2.eml"]
    assert _listed(run, "--thread", "2@x") == ["1.eml", "2.eml"]
    assert _listed(run, "--tag", "harbour", "--kind", "mail", "1.eml") == ["1.eml"]
    assert _listed(run, "--doc", "note", "1.eml") == ["1.eml", "note.txt"]
    found = run("search", "ferry", "--from", "bob", "--json")[1].splitlines()
    assert [Path(json.loads(line)["document"]).name for line in found] == ["2.eml"]
    row = json.loads(run("ls", "--json", "1.eml")[1])
    assert (row["date"], row["dated"], row["tags"]) == ("2026-03-02T10:00:00+00:00", "message", ["harbour"])
    assert row["thread"] == json.loads(run("ls", "--json", "2.eml")[1])["thread"]


def test_what_means_nothing_says_why_in_a_line(run: Run) -> None:
    expected = "no document matches --from ines --since 2027 (taken alone, --from ines: 1, --since 2027: "
    for command in (("ls",), ("search", "ferry")):
        code, out, error = run(*command, "--from", "ines", "--since", "2027")
        assert (code, out, error.count("\n")) == (0, "", 1)
        assert error.startswith(expected)
    code, _, error = run("ls", "--since", "soon")
    assert (code, error.count("\n")) == (cli.FAILED, 1)
    assert "'soon' is no date (write 2024" in error


def test_tags_are_given_listed_and_taken_away(run: Run) -> None:
    assert run("tag", "privileged", "--from", "ines")[0] == 0
    assert _listed(run, "--tag", "privileged") == ["1.eml"]
    assert run("tag")[1].split() == ["2", "harbour", "1", "privileged"]
    assert run("tag", "privileged", "1.eml", "--remove")[0] == 0
    assert _listed(run, "--tag", "privileged") == []
    assert run("tag", "privileged")[0] == cli.USAGE
    assert "nobody gave the tag" in run("tag", "harbour", "1.eml", "--remove")[2]


async def test_the_routes_take_filters(client: Client, http: httpx.AsyncClient, case: Path) -> None:
    async for _ in client.add([str(case)]):
        pass

    async def names(path: str, **query: object) -> list[str]:
        reply = await http.get(path, params=query)  # type: ignore[arg-type]
        return [Path(row.get("path") or row["document"]).name for row in reply.json()["data"]]

    assert await names("/v1/documents", **{"from": "ines"}) == ["1.eml"]
    assert await names("/v1/documents", tag=["harbour"], kind=["mail"], since="2026-03-03") == ["2.eml"]
    assert await names("/v1/search", q="ferry", to="p@x", thread="1@x", until="2026-03-03") == ["1.eml"]
    assert await names("/v1/documents", pattern=["note", "1.eml"]) == ["1.eml", "note.txt"]
    refused = await http.get("/v1/documents", params={"since": "soon"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "filter_invalid")


def test_questions_and_openai_s_extension_carry_the_same_filter() -> None:
    fields = {"from": "a", "to": "b", "since": "2024", "until": "2025", "tags": ["c"], "kinds": ["pdf"], "thread": "3"}
    body = {"messages": [{"role": "user", "content": "?"}], "unabridged": {"documents": ["d"], **fields}}
    asked = question_of(msgspec.convert(body, ChatRequest), "default", AnswerSettings())
    native = msgspec.json.decode(msgspec.json.encode({"text": "?", "documents": ["d"], **fields}), type=Question)
    for name in ("documents", "sender", "recipient", "since", "until", "tags", "kinds", "thread"):
        assert getattr(asked, name) == getattr(native, name) != ""
