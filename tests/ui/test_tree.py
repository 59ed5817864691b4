"""The tree of documents: folders, files, messages, attachments."""

import pytest
from msgspec.structs import replace
from tests.ui.scripted_server import ScriptedServer

from unabridged.app.client import DocumentInfo
from unabridged.ui.tree import Node, build, matching, patterns


def _shape(node: Node) -> object:
    return {child.name: _shape(child) for child in node.children} if node.children else node.document is not None


@pytest.fixture
def files(server: ScriptedServer) -> list[DocumentInfo]:
    return server.files


def test_messages_and_attachments_lie_below_what_holds_them(files: list[DocumentInfo]) -> None:
    assert _shape(build(files)) == {
        "contracts": {"lease [2024].pdf": True, "annex.pdf": True, "scan of the old inventory.pdf": True},
        "mail": {"inbox.mbox": {"1": True, "2": {"plan.pdf": True}}},
        "notes.md": True,
        "locked.pdf": True,
    }


def test_a_chain_of_folders_is_one_node(files: list[DocumentInfo]) -> None:
    deep = [files[7], *(replace(files[1], path=f"/home/ann/case/a/b/c/{n}.pdf") for n in "12")]
    assert _shape(build(deep)) == {"notes.md": True, "a/b/c": {"1.pdf": True, "2.pdf": True}}


def test_problems_and_ids_are_counted_through_all_levels(files: list[DocumentInfo]) -> None:
    root = build(files)
    assert root.problems == 2
    assert root.ids == frozenset(range(1, 10))


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [("", range(1, 10)), ("LEASE", [1]), ("needs password", [9]), ("mbox#2", [6, 7]), ("pdf annex", [2]), ("zzz", [])],
)
def test_the_filter_knows_paths_and_statuses(files: list[DocumentInfo], wanted: str, ids: list[int]) -> None:
    assert [document.id for document in matching(files, wanted)] == list(ids)


def test_a_selection_is_asked_exactly(files: list[DocumentInfo]) -> None:
    assert patterns([files[0], files[1], *files[3:7]]) == (
        "/home/ann/case/contracts/lease [[]2024].pdf",
        "/home/ann/case/contracts/annex.pd[f]",
        "/home/ann/case/mail/inbox.mbo[x]",
    )


def test_ten_thousand_messages_build_at_once(files: list[DocumentInfo]) -> None:
    box = files[3]
    many = [box, *(replace(files[4], id=n, path=f"{box.path}#{n}") for n in range(100, 10_100))]
    assert len(build(many).children[0].children) == 10_000
