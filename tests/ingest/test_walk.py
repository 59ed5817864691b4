"""The walk: every file is found or accounted for, in natural order, and links never lead in circles."""

import os
import socket
from pathlib import Path

import pytest

from unabridged.ingest.adding.ignores import Rules
from unabridged.ingest.adding.walk import Found, Passed, Problem, Scope, walk
from unabridged.ingest.document import Status
from unabridged.ingest.errors import PathNotFound, PatternInvalid


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


def test_what_programs_leave_beside_files_is_left_out_and_counted(tmp_path: Path) -> None:
    left = ["~$lease.docx", "Thumbs.db", "desktop.ini", ".DS_Store", "._lease.docx", ".~lock.lease.odt#"]
    _tree(tmp_path, *left, "lease.docx", "~$notes", "~$old.doc/x.txt", "thumbs.dbx")
    places = list(walk(tmp_path, Rules(hidden=True)))
    passed = {os.path.relpath(place.path, tmp_path): place.rule for place in places if isinstance(place, Passed)}
    assert passed == dict.fromkeys(left, "a file that Office or the system keeps for itself")
    assert sorted(_names(tmp_path)) == ["lease.docx", "thumbs.dbx", "~$notes", "~$old.doc/x.txt"]
    assert _names(tmp_path / "Thumbs.db") == ["."]  # named, it is read


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
    assert list(places) == ["a/b/x.txt", "self", "y.txt", "a/b/up"]
    assert isinstance(places["a/b/up"], Passed)
    assert isinstance(places["self"], Problem)


def test_a_folder_is_found_where_it_lies_and_a_link_to_it_is_counted(tmp_path: Path) -> None:
    _tree(tmp_path, "top/z/x.txt", "outside/y.txt")
    (tmp_path / "top" / "a").symlink_to("z")
    (tmp_path / "top" / "b").symlink_to(tmp_path / "outside")
    (tmp_path / "top" / ".git").mkdir()
    _tree(tmp_path, "top/.git/hook.txt")
    (tmp_path / "top" / "c").symlink_to(".git")
    places = {os.path.relpath(place.path, tmp_path / "top"): place for place in walk(tmp_path / "top")}
    assert list(places) == [".git", "z/x.txt", "a", "b/y.txt", "c/hook.txt"]
    assert places["a"] == Passed(str(tmp_path / "top" / "a"), "a way to a folder that is walked elsewhere", 1)
    scope = Scope.of([str(tmp_path / "top" / "a"), str(tmp_path / "top" / "b")])
    found = [os.path.relpath(place.path, tmp_path / "top") for place in walk(tmp_path / "top", scope=scope)]
    assert found == ["b/y.txt"]


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


def test_found_problems_and_passed_add_up_to_all_there_is(tmp_path: Path) -> None:
    _tree(
        tmp_path, "a.txt", "b.log", ".git/x/1", ".git/x/2", ".git/3", "old/1", "old/deep/2", "own/library.db", "d/e.log"
    )
    (tmp_path / ".unabridgedignore").write_text("*.log\n")
    (tmp_path / "gone").symlink_to("nowhere")
    places = list(walk(tmp_path, Rules(exclude=("old/",)), own=tmp_path / "own"))
    passed = {os.path.relpath(place.path, tmp_path): place for place in places if isinstance(place, Passed)}
    assert {name: (place.rule, place.files) for name, place in passed.items()} == {
        ".git": ("hidden", 3),
        ".unabridgedignore": ("hidden", 1),
        "b.log": (".unabridgedignore: *.log", 1),
        "d/e.log": (".unabridgedignore: *.log", 1),
        "old": ("--exclude old/", 2),
        "own": ("unabridged's own data", 1),
    }
    everything = sum(not path.is_dir() for path in tmp_path.rglob("*"))
    assert everything == len(places) - len(passed) + sum(place.files for place in passed.values())


def test_gitignore_holds_where_it_is_wanted_and_ours_decides(tmp_path: Path) -> None:
    _tree(tmp_path, "a.pyc", "b.log", "keep.log", "sub/c.pyc", "sub/d.log")
    (tmp_path / ".gitignore").write_text("*.pyc\n*.log\n")
    (tmp_path / ".unabridgedignore").write_text("!keep.log\n")
    (tmp_path / "sub" / ".gitignore").write_text("!d.log\n")
    assert _names(tmp_path) == ["a.pyc", "b.log", "keep.log", "sub/c.pyc", "sub/d.log"]
    assert _names(tmp_path, gitignore=True) == ["keep.log", "sub/d.log"]


@pytest.mark.parametrize("content", ["!", "*.log\n\\\n", "x" * (1 << 21), None])
def test_an_ignore_file_that_makes_no_sense_is_said_and_hides_nothing(tmp_path: Path, content: str | None) -> None:
    _tree(tmp_path, "a.log")
    ignore = tmp_path / ".unabridgedignore"
    os.mkfifo(ignore) if content is None else ignore.write_text(content)
    problem, found = walk(tmp_path)
    assert isinstance(problem, Problem)
    assert problem.reason.startswith("not heeded as an ignore file: ")
    assert isinstance(found, Found)


def test_an_ignore_file_may_begin_with_a_mark_and_hold_any_bytes(tmp_path: Path) -> None:
    _tree(tmp_path, "a.log", "b.txt")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    (tmp_path / ".unabridgedignore").write_bytes(b"\xef\xbb\xbf*.log\r\ncaf\xe9.txt\r\n")
    assert _names(tmp_path) == ["b.txt"]


def test_a_pattern_without_a_meaning_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(PatternInvalid, match="--exclude: '!' is no pattern"):
        walk(tmp_path, Rules(exclude=("*.log", "!")))
