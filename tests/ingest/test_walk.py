"""The walk: every file is found or accounted for, in natural order, and links never lead in circles."""

import os
import socket
from pathlib import Path

import pytest

from unabridged.ingest.document import Status
from unabridged.ingest.errors import PathNotFound
from unabridged.ingest.ignores import Rules
from unabridged.ingest.walk import Found, Passed, Problem, walk


def _tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def _names(root: Path, **rules: object) -> list[str]:
    places = walk(root, Rules(**rules))  # type: ignore[arg-type]
    return [os.path.relpath(place.path, root) for place in places if not isinstance(place, Passed)]


def test_files_come_in_natural_order_folders_together(tmp_path: Path) -> None:
    _tree(tmp_path, "page10.txt", "page2.txt", "Page1.txt", "a/z.txt", "b.txt", "a10/x", "a9/x")
    assert _names(tmp_path) == ["a/z.txt", "a9/x", "a10/x", "b.txt", "Page1.txt", "page2.txt", "page10.txt"]


def test_hidden_files_are_left_out_unless_wanted_or_named(tmp_path: Path) -> None:
    _tree(tmp_path, ".secret/x.txt", ".y", "z")
    assert _names(tmp_path) == ["z"]
    assert _names(tmp_path, hidden=True) == [".secret/x.txt", ".y", "z"]
    assert _names(tmp_path / ".secret") == ["x.txt"]


def test_ignore_files_hold_below_their_folder_and_the_inner_one_wins(tmp_path: Path) -> None:
    _tree(tmp_path, "a.log", "b/keep.log", "b/c.txt", "build/out.txt", "d/build.txt", "top.txt", "d/top.txt")
    (tmp_path / ".unabridgedignore").write_text("# noise\n*.log\nbuild/\n/top.txt\n")
    (tmp_path / "b" / ".unabridgedignore").write_text("!keep.log\n")
    assert _names(tmp_path) == ["b/c.txt", "b/keep.log", "d/build.txt", "d/top.txt"]


def test_include_and_exclude(tmp_path: Path) -> None:
    _tree(tmp_path, "a.pdf", "b.txt", "c/d.pdf", "c/e.eml", "old/f.pdf")
    assert _names(tmp_path, include=("*.pdf", "*.eml"), exclude=("old/",)) == ["a.pdf", "c/d.pdf", "c/e.eml"]


def test_links_in_circles_end_and_linked_files_are_found(tmp_path: Path) -> None:
    _tree(tmp_path, "a/b/x.txt")
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "y.txt").symlink_to(tmp_path / "a" / "b" / "x.txt")
    places = {os.path.relpath(place.path, tmp_path): place for place in walk(tmp_path)}
    assert list(places) == ["a/b/x.txt", "self", "y.txt"]
    assert isinstance(places["self"], Problem)


def test_what_is_no_file_is_a_problem_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        places = list(walk(tmp_path))
    assert [(place.status, place.reason) for place in places if isinstance(place, Problem)] == [
        (Status.DAMAGED, "a link to nothing: nowhere"),
        (Status.UNSUPPORTED, "no file but a pipe"),
        (Status.UNSUPPORTED, "no file but a socket"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list everything")
def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path) -> None:
    _tree(tmp_path, "closed/x.txt", "open.txt")
    (tmp_path / "closed").chmod(0)
    try:
        places = list(walk(tmp_path))
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert isinstance(places[0], Problem)
    assert "Permission denied" in places[0].reason
    assert isinstance(places[1], Found)


def test_names_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    assert len(list(walk(tmp_path))) == 1


def test_a_deep_tree_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(400):
        deep /= "d"
        deep.mkdir()
    (deep / "x").write_text("x")
    assert len(list(walk(tmp_path))) == 1


def test_a_path_where_nothing_lies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PathNotFound, match="nothing lies at"):
        walk(tmp_path / "missing")
