"""Adding files: what is read, what is not read again, and that the account is complete."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from unabridged.ingest.adding.add import AddOptions, add
from unabridged.ingest.catalog.database import connect
from unabridged.ingest.catalog.rows import FileDone, Progress
from unabridged.ingest.errors import CollectionNotFound, IngestError, LibraryBusy, PathNotFound
from unabridged.ingest.library import Library

Adder = Callable[..., dict[str, FileDone]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of several kinds."""
    root = tmp_path / "case"
    (root / "letters").mkdir(parents=True)
    (root / "contract.txt").write_text("The contract ends on 31 May.")
    (root / "notes.md").write_text("# Notes\n\nRing Alice.")
    (root / "page.html").write_text("<html><body><p>A page about rivers.</p></body></html>")
    (root / "letters" / "first.txt").write_text("Dear Bob, thanks.")
    (root / "empty.txt").touch()
    (root / "data.bin").write_bytes(bytes(range(256)) * 40)
    return root


def _changes(done: dict[str, FileDone]) -> dict[str, str]:
    return {name: item.change for name, item in done.items()}


def _mailbox(path: Path) -> Path:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "alice@example.org", "bob@example.org", "The plan"
    message.set_content("The plan is attached.")
    message.add_attachment("Buy the mill.", filename="plan.txt")
    message.add_attachment("Sell the mill.", filename="plan.txt")
    plain = EmailMessage()
    plain["From"], plain["To"], plain["Subject"] = "bob@example.org", "alice@example.org", "Re: The plan"
    plain.set_content("Agreed, the mill it is.")
    stamp = b"From alice@example.org Mon Jan  1 00:00:00 2024\n"
    path.write_bytes(b"".join(stamp + bytes(one) + b"\n" for one in (message, plain)))
    return path


def test_every_file_of_a_folder_is_accounted_for(library: Library, added: Adder, folder: Path) -> None:
    done = added(folder)
    assert {name: item.status for name, item in done.items()} == {
        "contract.txt": "read",
        "data.bin": "unsupported",
        "empty.txt": "no_text",
        "first.txt": "read",
        "notes.md": "read",
        "page.html": "read",
    }
    assert set(_changes(done).values()) == {"new"}
    assert all(item.reason for item in done.values() if item.status != "read")
    assert [Path(row.path).name for row in library.documents()] == list(done)
    assert library.counts().files == 6
    assert library.verify() == []


def test_a_second_addition_reads_nothing(added: Adder, reads: list[str], folder: Path) -> None:
    added(folder)
    assert len(reads) == 6
    reads.clear()
    assert set(_changes(added(folder)).values()) == {"unchanged"}
    assert reads == []


def test_only_what_changed_is_read_again(library: Library, added: Adder, reads: list[str], folder: Path) -> None:
    added(folder)
    reads.clear()
    (folder / "contract.txt").write_text("The contract ends on 30 June.")
    done = added(folder)
    assert reads == ["contract.txt"]
    assert done["contract.txt"].change == "changed"
    assert library.search("June")
    assert not library.search("May")
    assert library.verify() == []


def test_a_file_that_was_only_touched_is_not_read(added: Adder, reads: list[str], folder: Path) -> None:
    added(folder)
    reads.clear()
    os.utime(folder / "contract.txt", (1, 1))
    assert _changes(added(folder))["contract.txt"] == "unchanged"
    assert reads == []


def test_removed_files_leave_the_collection_and_their_text_goes(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    (folder / "contract.txt").unlink()
    assert _changes(added(folder))["contract.txt"] == "removed"
    assert not library.search("contract")
    assert library.connection.execute("SELECT COUNT(*) FROM pages WHERE text LIKE '%contract%'").fetchone()[0] == 0
    assert library.verify() == []


def test_a_moved_file_is_recognised_and_not_read(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    added(folder)
    before = next(row for row in library.documents() if row.path.endswith("contract.txt"))
    reads.clear()
    shutil.move(folder / "contract.txt", folder / "letters" / "renamed.txt")
    done = added(folder)
    assert reads == []
    assert done["renamed.txt"].change == "moved"
    assert "contract.txt" not in done
    assert library.document(before.id).path == str(folder / "letters" / "renamed.txt")


def test_the_same_content_is_stored_once_and_listed_with_both_places(
    library: Library, added: Adder, folder: Path
) -> None:
    shutil.copy(folder / "contract.txt", folder / "copy.txt")
    done = added(folder)
    assert done["copy.txt"].change == "new"
    (row,) = library.documents(patterns=["contract.txt"])
    assert (row.path, row.also) == (str(folder / "contract.txt"), (str(folder / "copy.txt"),))
    assert library.documents(patterns=["copy.txt"]) == [row]
    assert len(library.search("contract")) == 1
    (folder / "contract.txt").unlink()
    added(folder)
    assert library.document(row.id).path == str(folder / "copy.txt")
    assert library.search("contract")


def test_a_mailbox_holds_messages_that_hold_attachments(library: Library, added: Adder, tmp_path: Path) -> None:
    box = _mailbox(tmp_path / "box.mbox")
    done = added(box)["box.mbox"]
    assert (done.kind, done.documents) == ("mailbox", 5)
    rows = {row.path.removeprefix(str(box)): row for row in library.documents()}
    assert list(rows) == ["", "#1", "#1/plan.txt", "#1/plan.txt (2)", "#2"]
    assert rows["#1/plan.txt"].parent == f"{box}#1"
    assert rows["#1"].title == "The plan"
    assert [hit.document.path.removeprefix(str(box)) for hit in library.search("sell")] == ["#1/plan.txt (2)"]
    assert library.documents(patterns=["*.mbox"]) == list(rows.values())


def test_a_file_in_two_collections_is_read_once_and_stays_while_one_holds_it(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    added(folder)
    reads.clear()
    assert _changes(added(folder / "contract.txt", collection="other")) == {"contract.txt": "new"}
    assert reads == []
    library.remove(["contract.txt"], "default")
    assert not library.search("contract", "default")
    assert library.search("contract", "other")
    library.remove_collection("other")
    assert library.connection.execute("SELECT COUNT(*) FROM files WHERE path LIKE '%contract%'").fetchone()[0] == 0
    with pytest.raises(CollectionNotFound, match="other"):
        library.documents("other")


def test_a_damaged_file_is_not_tried_again_until_it_changes_or_is_forced(
    added: Adder, reads: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.4\n" + b"nonsense " * 50)
    assert added(path)["broken.pdf"].status == "damaged"
    added(path)
    assert len(reads) == 1
    assert _changes(added(path, force=True)) == {"broken.pdf": "changed"}
    assert len(reads) == 2


def test_a_password_opens_what_needed_one(library: Library, added: Adder, reads: list[str], tmp_path: Path) -> None:
    from pypdf import PdfWriter

    path = tmp_path / "locked.pdf"
    with PdfWriter() as writer:
        writer.add_blank_page(100, 100)
        writer.encrypt("secret", algorithm="AES-256")
        writer.write(path)
    assert added(path)["locked.pdf"].status == "needs_password"
    assert added(path)["locked.pdf"].change == "unchanged"
    done = added(path, passwords=("secret",))["locked.pdf"]
    assert (done.status, done.change, len(reads)) == ("no_text", "changed", 2)
    assert len(library.documents()) == 1


def test_an_unreadable_file_keeps_what_was_read_before(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    (folder / "contract.txt").unlink()
    (folder / "contract.txt").symlink_to("nowhere")
    item = added(folder)["contract.txt"]
    assert item.status == "damaged"
    assert "a link to nothing" in item.reason
    assert "kept" in item.reason
    assert library.search("contract")


def test_a_place_that_is_no_file_is_listed_with_its_reason(library: Library, added: Adder, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert added(folder)["pipe"].change == "new"
    (row,) = library.documents(patterns=["pipe"])
    assert (row.status, row.reason) == ("unsupported", "no file but a pipe")
    assert added(folder)["pipe"].change == "unchanged"
    (folder / "pipe").unlink()
    (folder / "pipe").write_text("now a file")
    assert added(folder)["pipe"].status == "read"
    assert library.verify() == []


def test_a_file_that_changes_while_it_is_read_is_read_again(
    library: Library, added: Adder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "contract.txt"
    with _touching(path, monkeypatch, times=1) as versions:
        item = added(path)["contract.txt"]
    assert (item.status, item.reason, len(versions)) == ("read", "", 1)
    assert library.search("version1")


def test_a_file_that_never_stands_still_is_kept_with_a_reason(
    library: Library, added: Adder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "contract.txt"
    with _touching(path, monkeypatch, times=9):
        item = added(path)["contract.txt"]
    assert "changed while it was read" in item.reason
    item = added(path)["contract.txt"]
    assert (item.change, item.reason) == ("changed", "")
    assert len(library.documents()) == 1
    assert library.verify() == []


def test_an_empty_folder_that_had_files_is_taken_for_an_unmounted_disk(
    library: Library, added: Adder, folder: Path
) -> None:
    added(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(IngestError, match="is empty now, but 6 files"):
        added(folder)
    assert library.search("contract")


def test_patterns_that_leave_everything_out_take_nothing_out(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    assert added(folder, include=("*.pdf",)) == {}
    assert library.counts().files == 6


def test_one_of_two_places_can_be_taken_out(library: Library, added: Adder, folder: Path) -> None:
    shutil.copy(folder / "contract.txt", folder / "copy.txt")
    added(folder)
    assert library.remove(["copy.txt"]) == [str(folder / "copy.txt")]
    (row,) = library.documents(patterns=["contract.txt"])
    assert row.also == ()


def test_no_paths_means_all_folders_of_the_collection(added: Adder, folder: Path) -> None:
    added(folder)
    (folder / "new.txt").write_text("news")
    assert _changes(added())["new.txt"] == "new"


def test_a_moved_folder_is_recognised_and_looked_at_in_its_new_place(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    added(folder)
    reads.clear()
    folder.rename(folder.with_name("closed"))
    done = added(folder.with_name("closed"))
    assert set(_changes(done).values()) == {"moved"}
    assert reads == []
    assert _changes(added()) == dict.fromkeys(done, "unchanged")


def test_a_folder_that_was_taken_out_does_not_come_back(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    library.remove(["/case/"])
    assert library.collections()[0].roots == ()
    assert added() == {}


def test_a_full_disk_is_said_and_loses_nothing(
    library: Library, added: Adder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(folder / "contract.txt")
    (folder / "long.txt").write_text("\n".join(f"line {number} of a long text" for number in range(40_000)))

    def small_disk(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
        return connection

    monkeypatch.setattr("unabridged.ingest.adding.add.connect", small_disk)
    with pytest.raises(IngestError, match="is full"):
        added(folder)
    monkeypatch.undo()
    assert library.verify() == []
    assert library.search("contract")
    assert added(folder)["long.txt"].status == "read"


def test_a_folder_that_is_gone_is_named_when_all_are_looked_at(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    shutil.rmtree(folder)
    with pytest.raises(PathNotFound, match=r"case.*unabridged rm"):
        added()
    assert library.search("contract")


def test_a_missing_path_is_an_error_before_anything_is_read(library: Library, added: Adder, folder: Path) -> None:
    with pytest.raises(PathNotFound):
        added(folder, folder / "missing")
    assert library.documents() == []


def test_the_second_writer_is_refused(library: Library, folder: Path) -> None:
    first = add(library, [folder], options=AddOptions(jobs=1))
    next(first)
    with Library.open(library.path) as other:
        with pytest.raises(LibraryBusy, match=str(os.getpid())):
            next(add(other, [folder]))
        with pytest.raises(LibraryBusy):
            other.remove(["x"])
        assert other.documents() == []
    first.close()
    assert len(list(add(library, [folder]))) > 6


def test_closing_in_the_middle_keeps_the_files_that_were_reported(library: Library, folder: Path) -> None:
    items = add(library, [folder], options=AddOptions(jobs=2))
    first = next(item for item in items if isinstance(item, FileDone))
    items.close()
    assert first.path in [row.path for row in library.documents()]
    assert library.verify() == []


def test_progress_counts_files(library: Library, folder: Path) -> None:
    steps = [item for item in add(library, [folder]) if isinstance(item, Progress)]
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert {step.total for step in steps} == {6}


def test_names_that_are_not_utf8_are_added_and_listed(library: Library, added: Adder, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("coffee")
    assert added(folder)["caf\\xe9.txt"].status == "read"
    assert added(folder)["caf\\xe9.txt"].change == "unchanged"
    assert [row.path for row in library.documents()] == [f"{folder}/caf\\xe9.txt"]


def test_the_users_files_are_not_touched(added: Adder, folder: Path) -> None:
    before = {path: path.stat() for path in sorted(folder.rglob("*"))}
    added(folder)
    added(folder, force=True)
    after = {path: path.stat() for path in sorted(folder.rglob("*"))}
    assert {path: (was.st_mtime_ns, was.st_mode, was.st_size) for path, was in before.items()} == {
        path: (now.st_mtime_ns, now.st_mode, now.st_size) for path, now in after.items()
    }


class _touching:
    """Rewrites a file right after each time it was read, `times` times."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        from unabridged.ingest.worker import Workers

        self.versions: list[str] = []
        real = Workers.read

        def read(workers: Workers, file: Path, *arguments: object, **named: object) -> Iterator[object]:
            yield from real(workers, file, *arguments, **named)  # type: ignore[arg-type]
            if len(self.versions) < times:
                self.versions.append(f"version{len(self.versions) + 1}")
                path.write_text(self.versions[-1] + " of the text" * len(self.versions))

        self._patch = monkeypatch
        self._read = read
        self._workers = Workers

    def __enter__(self) -> list[str]:
        self._patch.setattr(self._workers, "read", self._read)
        return self.versions

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def test_a_log_that_was_rotated_is_found_again_without_reading(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    """The old content is at a new name, and another one at its own, which comes first."""
    added(folder)
    before = next(row.id for row in library.documents() if row.path.endswith("contract.txt"))
    reads.clear()
    (folder / "contract.txt").rename(folder / "contract.txt.1")
    (folder / "contract.txt").write_text("A new contract begins.")
    done = added(folder)
    assert reads == ["contract.txt"]
    assert (done["contract.txt"].change, done["contract.txt.1"].change) == ("changed", "new")
    assert library.document(before).path == str(folder / "contract.txt.1")
    assert library.verify() == []


def test_two_files_that_swap_names_are_not_read(library: Library, added: Adder, reads: list[str], folder: Path) -> None:
    added(folder)
    reads.clear()
    (folder / "contract.txt").rename(folder / "x")
    (folder / "notes.md").rename(folder / "contract.txt")
    (folder / "x").rename(folder / "notes.md")
    done = added(folder)
    assert reads == []
    assert {done["contract.txt"].change, done["notes.md"].change} == {"changed"}
    assert library.search("Alice")[0].document.path == str(folder / "contract.txt")
    assert library.verify() == []


def test_what_moves_from_one_folder_to_another_is_not_read(
    library: Library, added: Adder, reads: list[str], folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.txt").write_text("Another text.")
    added(folder, other)
    reads.clear()
    (folder / "contract.txt").rename(other / "contract.txt")
    done = added(folder, other)
    assert reads == []
    assert done["contract.txt"].change == "moved"
    assert len(library.documents()) == 7


def test_a_name_that_is_only_spelled_otherwise_is_the_same_file(
    library: Library, added: Adder, reads: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that does not tell capitals apart: the old name leads to the file, too."""
    added(folder)
    reads.clear()
    (folder / "contract.txt").rename(folder / "Contract.txt")
    real = os.lstat

    def lstat(path: object, **named: object) -> os.stat_result:
        return real(str(path).replace("contract.txt", "Contract.txt"))

    monkeypatch.setattr(os, "lstat", lstat)
    assert added(folder)["Contract.txt"].change == "moved"
    assert reads == []
    assert len(library.documents()) == 6


def test_a_folder_that_is_named_twice_or_lies_in_another_is_read_once(
    library: Library, added: Adder, reads: list[str], folder: Path
) -> None:
    items = [
        item
        for item in add(library, [folder, folder, folder / "letters"], options=AddOptions(jobs=1))
        if isinstance(item, FileDone)
    ]
    assert len(items) == len({item.path for item in items}) == 6
    assert sorted(reads) == sorted(Path(item.path).name for item in items)


def test_patterns_hold_for_a_folder_until_others_are_given(added: Adder, folder: Path) -> None:
    assert "notes.md" not in added(folder, exclude=("*.md",))
    assert "notes.md" not in added(folder)
    assert "notes.md" not in added()
    assert added(folder, exclude=())["notes.md"].change == "new"
    (folder / ".gitignore").write_text("*.html\n")
    assert "page.html" not in added(folder, gitignore=True)


def test_only_some_paths_can_be_looked_at(library: Library, added: Adder, folder: Path) -> None:
    added(folder)
    (folder / "letters" / "first.txt").write_text("Dear Bob, no thanks.")
    (folder / "notes.md").unlink()
    (folder / "contract.txt").write_text("It never ends.")
    (folder / ".secret").write_text("never")
    only = frozenset(str(folder / name) for name in ("letters", "notes.md", ".secret", "never-there"))
    assert _changes(added(folder, only=only)) == {"first.txt": "changed", "notes.md": "removed"}
    assert library.search("31 May")


def test_the_librarys_own_folder_is_passed_over(library: Library, added: Adder, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text")
    assert list(added(tmp_path)) == ["a.txt"]
