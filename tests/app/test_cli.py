"""The command line: what is printed where, and the exit codes. Real files, real library; no engine is started."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from unabridged.app import cli
from unabridged.app.commands.ask import answer_json
from unabridged.app.events import Answer, Citation, LeftOut, Receipt
from unabridged.app.output import receipt_lines

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A text, a mailbox of two messages, and a PDF that is none."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "rules.txt").write_text("Certified copies cost 15 euros each.\n")
    message = "From a@b Mon Mar  3 09:12:44 2025\nFrom: Ann <a@b.example>\nSubject: {}\n\nThe dredger is {}.\n\n"
    (folder / "box.mbox").write_text(message.format("One", "late") + message.format("Two", "early"))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4\nnothing")
    return folder


def test_add_says_what_was_not_read_and_exits_4(run: Run, papers: Path) -> None:
    code, out, error = run("add", str(papers))
    assert (code, out) == (cli.PARTLY, "")
    assert f"{papers}/broken.pdf: " in error
    assert "3 files (3 new)" in error
    assert run("add", str(papers))[2].startswith("damaged")


def test_add_of_what_is_fine_exits_0_and_json_is_a_line_a_file(run: Run, papers: Path) -> None:
    code, out, _ = run("add", str(papers), "--exclude", "*.pdf", "--json")
    assert code == 0
    *files, account = [json.loads(line) for line in out.splitlines()]
    assert {Path(file["path"]).name for file in files} == {"rules.txt", "box.mbox"}
    assert (account["files"], account["statuses"], account["ignored"]) == (2, {"read": 2}, {"--exclude *.pdf": 1})


def test_what_is_wrong_within_a_file_is_counted_and_exits_4(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "client.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("fine.txt", "It is fine.")
        archive.writestr("broken.pdf", b"%PDF-1.4\nnothing")
        archive.writestr("film.mp4", b"\0\0\0\x18ftypmp42" + bytes(64))
    for _ in range(2):  # what was read before is not forgotten
        code, _, error = run("add", str(file))
        assert code == cli.PARTLY
        assert f"read  {file}: of 3 in it 1 damaged, 1 unsupported" in error
        assert "1 files (1 " in error
        assert "of what files hold: 1 damaged, 1 unsupported (`unabridged ls --problems` names them)" in error
    code, out, _ = run("add", str(file), "--json")
    entry, account = map(json.loads, out.splitlines())
    assert (code, entry["status"], account["statuses"]) == (cli.PARTLY, "read", {"read": 1})
    assert entry["inside"] == account["inside"] == {"damaged": 1, "unsupported": 1}
    listed = run("ls", "--problems")[1].splitlines()
    assert [line.split("  ")[0] for line in listed] == ["damaged", "unsupported"]


def test_add_of_nothing_readable_fails(run: Run, papers: Path) -> None:
    assert run("add", str(papers / "broken.pdf"))[0] == cli.FAILED


def test_a_path_that_is_not_there_is_one_line(run: Run) -> None:
    code, out, error = run("add", "/no/such/folder")
    assert (code, out) == (cli.FAILED, "")
    assert error.startswith("unabridged: error: ")
    assert "/no/such/folder" in error
    assert error.count("\n") == 1


def test_ls_json_has_the_promised_keys(run: Run, papers: Path) -> None:
    run("add", str(papers))
    code, out, _ = run("ls", "--json")
    rows = {Path(row["path"]).name: row for row in map(json.loads, out.splitlines())}
    assert code == 0
    assert set(rows) == {"rules.txt", "box.mbox", "box.mbox#1", "box.mbox#2", "broken.pdf"}
    promised = {"path", "kind", "status", "reason", "pages", "tokens", "sha256", "parent"}
    assert all(promised <= set(row) for row in rows.values())
    assert rows["box.mbox#1"]["parent"] == str(papers / "box.mbox")
    assert rows["rules.txt"]["parent"] is None


def test_ls_problems_lists_reasons(run: Run, papers: Path) -> None:
    run("add", str(papers))
    _, out, _ = run("ls", "--problems")
    assert out.count("\n") == 1
    assert "broken.pdf: " in out


def test_show_by_path_name_and_number(run: Run, papers: Path) -> None:
    run("add", str(papers))
    _, listed, _ = run("ls", "rules", "--json")
    number = str(json.loads(listed)["id"])
    for name in (str(papers / "rules.txt"), "rules.txt", number):
        assert run("show", name) == (0, "Certified copies cost 15 euros each.\n\n", "")
    _, out, _ = run("show", "rules.txt", "--page", "1", "--json")
    assert set(json.loads(out)) == {"number", "label", "text", "flags"}
    assert "box.mbox#2" in run("show", "box.mbox")[1]


def test_show_of_a_name_that_two_collections_have(run: Run, papers: Path) -> None:
    other = papers / "other" / "rules.txt"
    other.parent.mkdir()
    other.write_text("Other rules.")
    run("add", str(papers / "rules.txt"))
    run("add", str(other), "-c", "case")
    assert run("show", "rules.txt")[0] == cli.FAILED
    assert run("show", "rules.txt", "-c", "case")[1] == "Other rules.\n"
    assert run("show", "rules.txt", "-c", "none")[0] == cli.FAILED


def test_show_of_what_is_not_there_or_not_clear_fails(run: Run, papers: Path) -> None:
    run("add", str(papers))
    assert run("show", "nix")[0] == cli.FAILED
    assert "say which" in run("show", "box.mbox#")[2]
    assert run("show", "rules.txt", "--page", "9")[0] == cli.FAILED


def test_search_json_has_the_promised_keys(run: Run, papers: Path) -> None:
    run("add", str(papers))
    code, out, _ = run("search", "certified", "copies", "--json")
    (hit,) = map(json.loads, out.splitlines())
    assert (code, hit["page"], hit["document"]) == (0, 1, str(papers / "rules.txt"))
    assert set(hit) == {"document", "page", "snippet", "found"}
    assert hit["found"] == "all words"
    assert run("search", "xylophone")[:2] == (0, "")


def test_search_says_what_its_list_is(run: Run, papers: Path) -> None:
    run("add", str(papers))
    _, out, error = run("search", "certified", "xylophone")
    assert out
    assert error == "no page has all words, these have some of them\n"
    assert "--from" in run("search", "from:otto", "certified")[2]
    code, out, error = run("search", "rules", "--json")
    assert (code, json.loads(out.splitlines()[0])["found"]) == (0, "name")
    assert "rules.txt, by its name" in run("search", "rules")[1]


def test_a_joint_collection_says_what_a_change_makes_it_read_again(run: Run, papers: Path) -> None:
    files = [papers / name for name in ("rules.txt", "box.mbox")]
    code, _, error = run("add", *map(str, files), "-c", "case", "--composition", "joint")
    assert code == 0
    assert "the collection is joint now: its 3 documents are read as one text" in error
    listed = [json.loads(line) for line in run("ls", "--collections", "--json")[1].splitlines()]
    assert {row["name"]: row["composition"] for row in listed} == {"case": "joint", "default": "auto"}
    (papers / "zoo.txt").write_text("Behind all others.\n")
    assert "joint" not in run("add", str(papers / "zoo.txt"), "-c", "case")[2]
    (papers / "among.txt").write_text("Before all others.\n")
    assert "4 documents are read again, from box.mbox#1 on" in run("add", str(papers / "among.txt"), "-c", "case")[2]
    assert "2 documents are read again, from rules.txt on" in run("rm", "box.mbox", "-c", "case")[2]
    assert "read again" not in run("rm", "zoo.txt", "-c", "case")[2]
    assert "1 document is read again, from rules.txt on" in run("rm", "among.txt", "-c", "case")[2]
    assert "read again" not in run("add", "-c", "case", "--composition", "composable")[2]
    (papers / "among.txt").write_text("Changed, and nothing else is read again.\n")
    assert "read again" not in run("add", str(papers / "among.txt"), "-c", "case")[2]
    assert run("add", "--composition", "apart")[0] == cli.USAGE


def test_rm_takes_out_and_leaves_the_file(run: Run, papers: Path) -> None:
    run("add", str(papers))
    assert run("rm", "rules.txt")[1] == f"{papers}/rules.txt\n"
    assert (papers / "rules.txt").exists()
    assert "rules" not in run("ls")[1]
    assert run("rm", "rules.txt")[0] == cli.FAILED
    assert run("rm")[0] == cli.USAGE


def test_rm_says_what_the_next_addition_brings_back_and_what_keeps_it_out(run: Run, papers: Path) -> None:
    run("add", str(papers))
    note = f"1 file still lies in a folder of the collection: the next `add` reads it again unless {papers}"
    assert note in " ".join(run("rm", "rules.txt")[2].split())
    (papers / ".unabridgedignore").write_text("rules.txt\n")
    assert "2 files (2 unchanged)" in run("add")[2]
    (papers / "box.mbox").unlink()
    assert "still lies" not in run("rm", "box.mbox")[2]
    run("add", str(papers / "rules.txt"), "-c", "single")
    assert "still lies" not in run("rm", "rules.txt", "-c", "single")[2]


def test_copies_are_listed_so_that_files_add_up(run: Run, papers: Path) -> None:
    (papers / "copies").mkdir()
    for name in ("broken.pdf", "rules.txt"):
        (papers / "copies" / name).write_bytes((papers / name).read_bytes())
    assert "5 files (5 new)" in run("add", str(papers))[2]
    listed = run("ls")[1].splitlines()
    assert sum(".mbox#" not in line for line in listed) == 5
    assert sorted(line.split()[-1] for line in listed if line.startswith("copy ")) == [
        f"{papers}/copies/broken.pdf",
        f"{papers}/rules.txt",
    ]
    assert run("ls", "--problems")[1].count("broken.pdf: ") == 2
    rows = [json.loads(line) for line in run("ls", "--json")[1].splitlines()]
    assert sum(1 + len(row["also"]) for row in rows if row["parent"] is None) == 5


def test_config_shows_values_with_their_origin(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("config", "set", "answer.mode", "whole")[0] == 0
    monkeypatch.setenv("UNABRIDGED_ENGINE_THREADS", "3")
    rows = {row["key"]: row for row in map(json.loads, run("config", "--json")[1].splitlines())}
    assert (rows["answer.mode"]["value"], rows["answer.mode"]["origin"]) == ("whole", "file")
    assert (rows["engine.threads"]["value"], rows["engine.threads"]["origin"]) == (3, "environment")
    assert run("config", "get", "answer.mode")[1] == "whole\n"
    assert run("config", "path")[1] == f"{tmp_path}/data/config.toml\n"
    assert run("config", "set", "answer.mod", "whole")[0] == cli.FAILED


def test_the_api_key_is_not_shown(run: Run) -> None:
    run("config", "set", "server.api_key", "hush-hush")
    assert "hush" not in run("config")[1]


def test_a_wrong_settings_file_stops_with_its_key(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "config.toml").write_text("[answer]\nmod = 1\n")
    code, _, error = run("ask", "What?")
    assert code == cli.FAILED
    assert "answer.mod" in error


def test_ask_without_a_model_exits_3_and_says_how_to_get_one(run: Run, papers: Path) -> None:
    run("add", str(papers))
    code, out, error = run("ask", "How much is a copy?")
    assert (code, out) == (cli.NO_ENGINE, "")
    assert "unabridged models add smollm2-135m" in error


def test_models_of_an_empty_registry(run: Run) -> None:
    code, out, error = run("models", "list")
    assert (code, out) == (0, "")
    assert "unabridged models add" in error
    assert run("models", "remove", "none")[0] == cli.FAILED
    assert run("models", "verify", "none")[0] == cli.FAILED


@pytest.mark.parametrize(
    "arguments", [["nope"], ["ls", "--nope"], ["ask"], ["ask", " "], ["rm", "a", "--all"], ["chat"]]
)
def test_wrong_usage_exits_2_with_one_line(run: Run, arguments: list[str]) -> None:
    code, out, error = run(*arguments)
    assert (code, out) == (cli.USAGE, "")
    assert error.startswith("unabridged: error: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["models"]])
def test_without_a_command_the_help_is_shown_as_it_is(run: Run, arguments: list[str]) -> None:
    code, out, error = run(*arguments)
    assert (code, out) == (cli.USAGE, "")
    assert error.startswith("Usage: unabridged")
    assert "\nCommands:\n" in error


def test_ls_of_nothing_says_why(run: Run, papers: Path) -> None:
    assert "unabridged add" in run("ls")[2]
    assert "unabridged add" in run("ls", "--problems")[2]
    run("add", str(papers / "rules.txt"))
    assert "in full" in run("ls", "--problems")[2]
    assert "no document matches" in run("ls", "contract")[2]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    result = CliRunner().invoke(cli.cli, [name, "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"unabridged {name}" in result.output


def test_ask_json_has_the_promised_keys() -> None:
    receipt = Receipt(
        mode="focused", why="w", model="m", engine="torch", documents=1, pages=2, tokens=3, context=4, cached=0,
        attended=4, coverage=1.0, attention="dense", completion=5, seconds_to_first_token=0.1, seconds=0.2,
        finish="length",
        left_out=tuple(LeftOut(document=f"/d/{n}.pdf", pages="3-7", reason="r") for n in range(20)),
    )  # fmt: skip
    citation = Citation(n=1, document="/d", document_id=1, page=2, label="", quote="q", start=0, end=1, verified=True)
    answer = Answer(answer="A [1]", text="A", citations=(citation,), sentences=(), receipt=receipt, conversation="c")
    shown = answer_json(answer)
    assert {"answer", "citations", "receipt"} <= set(shown)
    assert set(shown["citations"][0]) == {"n", "document", "page", "quote", "verified"}
    lines = "\n".join(receipt_lines(receipt))
    assert "left out: /d/0.pdf, pages 3-7: r" in lines
    assert "left out: 8 more" in lines
    assert "cut at the longest answer" in lines


# ------------------------------------------------------------------------------------------------------ as a process


def _process(tmp_path: Path, *arguments: str, **options: object) -> "subprocess.Popen[bytes]":
    environ = {**os.environ, "UNABRIDGED_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "unabridged", *arguments]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    process = _process(tmp_path, "config")
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate()
    assert (process.returncode, error) == (0, b"")


def test_interrupted_exits_130_without_a_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(3000):
        (folder / f"{number}.txt").write_text(f"number {number} " * 50)
    process = _process(tmp_path, "add", str(folder))
    while not (tmp_path / "data" / "library.lock").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == cli.INTERRUPTED
    assert error.decode().splitlines()[-1] == "unabridged: interrupted"
    assert b"Traceback" not in error


def test_ctrl_c_does_not_wait_for_a_reader_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A line of text.\n" * 1_500_000)
    process = _process(tmp_path, "add", str(tmp_path / "long.txt"))
    readers = _readers(process)
    for pid in readers:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=10)
    assert (process.returncode, error.decode().splitlines()[-1]) == (cli.INTERRUPTED, "unabridged: interrupted")
    assert not any(Path("/proc", str(pid)).exists() for pid in readers)


def test_terminated_ends_like_interrupted(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A line of text.\n" * 1_500_000)
    process = _process(tmp_path, "add", str(tmp_path / "long.txt"))
    readers = _readers(process)
    process.terminate()
    _, error = process.communicate(timeout=10)
    assert (process.returncode, error) == (128 + signal.SIGTERM, b"")
    assert not any(Path("/proc", str(pid)).exists() for pid in readers)


def _readers(process: "subprocess.Popen[bytes]") -> list[int]:
    """The processes that read files for an `add`, as soon as there are any."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}")
    while True:
        assert process.poll() is None
        pids = [pid for task in children.parent.iterdir() for pid in (task / "children").read_text().split()]
        found = [int(pid) for pid in pids if b"ingest.reader" in Path("/proc", pid, "cmdline").read_bytes()]
        if found:
            return found
        time.sleep(0.02)


def test_names_cannot_act_on_the_terminal(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "a\x1b]0;title\x07\x1b[31m.txt").write_text("a lease")
    (folder / "new\nline\u202e.txt").write_text("a lease")
    (folder / "broken\x1b[2J\x9b.pdf").write_bytes(b"%PDF-1.4\nnothing")
    printed = [
        *run("add", str(folder)),
        *run("ls"),
        *run("ls", "--problems"),
        *run("search", "lease"),
        *run("show", ".pdf"),
        *run("show", ".txt"),
        *run("add", "no\x1b[31m"),
        *run("rm", ".txt"),
        *run("\x1b[31m"),
    ]
    text = "".join(str(part) for part in printed)
    assert not set(text) & set("\x1b\x07\x9b\u202e")
    assert "new\nline" not in text
    assert "a\\x1b]0;title\\x07\\x1b[31m.txt" in text


@pytest.mark.parametrize("name", ["²", "", "٣", "no such"])
def test_show_takes_any_name(run: Run, papers: Path, name: str) -> None:
    run("add", str(papers))
    code, out, error = run("show", name)
    assert (code in (cli.FAILED, cli.USAGE), out, error.count("\n")) == (True, "", 1)


def test_rm_of_an_empty_name_removes_nothing(run: Run, papers: Path) -> None:
    run("add", str(papers))
    assert run("rm", "")[:2] == (cli.USAGE, "")
    assert len(run("ls")[1].splitlines()) == 5


def test_what_the_system_refuses_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, out, error = run("--data-dir", str(tmp_path / "file" / "data"), "add", str(tmp_path))
    assert (code, out, error.count("\n")) == (cli.FAILED, "", 1)
    assert error.startswith("unabridged: error: ")


def test_a_fault_of_ours_is_one_line_with_its_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unabridged.app.locations.Locations.find", lambda _: 1 / 0)
    code, _, error = run("ls")
    assert (code, error.count("\n")) == (cli.FAILED, 1)
    assert "ZeroDivisionError: division by zero at test_cli.py:" in error


@pytest.mark.parametrize("arguments", [["ls"], ["show", "rules.txt"], ["show", "none"], ["ask", "-"]])
def test_closed_streams_are_no_fault(run: Run, papers: Path, tmp_path: Path, arguments: list[str]) -> None:
    run("add", str(papers))
    line = f'"{sys.executable}" -m unabridged {" ".join(arguments)} <&- >&- 2>&-'
    environ = {**os.environ, "UNABRIDGED_DATA_DIR": str(tmp_path / "data")}
    code = subprocess.run(["sh", "-c", line], env=environ, check=False).returncode
    assert code == {"none": cli.FAILED, "-": cli.USAGE}.get(arguments[-1], 0)


def test_ctrl_c_while_modules_load_has_no_traceback(tmp_path: Path) -> None:
    for delay in (0.06, 0.09, 0.12, 0.15):
        process = _process(tmp_path, "ls")
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert process.returncode in (-signal.SIGINT, cli.INTERRUPTED, 0) or b"frozen site" in error
        assert b"click" not in error


@pytest.mark.parametrize(
    "arguments",
    [["ls"], ["search"], ["show"], ["rm"], ["ls", "-c"], ["ask"], ["add"], ["models", "add"], ["config", "get"]],
)
def test_arguments_may_be_no_utf8(run: Run, arguments: list[str]) -> None:
    _, _, error = run(*arguments, "a\udcffb")
    assert "a fault of" not in error
    assert error.count("\n") <= 1


def test_a_full_disk_is_one_line_that_names_the_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    code, _, error = run("config", "set", "answer.mode", "whole")
    assert (code, error.count("\n")) == (cli.FAILED, 1)
    assert f"{tmp_path}/data/config.toml: No space left on device (free some space" in error


def test_a_collection_needs_a_name(run: Run, papers: Path) -> None:
    assert run("add", str(papers), "--collection", "")[0] == cli.USAGE


def test_a_password_file_must_be_text(run: Run, papers: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff\xfe")
    assert run("add", str(papers), "--password-file", str(tmp_path / "secret"))[0] == cli.USAGE


def test_no_colour_where_it_is_not_wanted(tmp_path: Path) -> None:
    out, error = _process(tmp_path, "doctor").communicate()
    assert b"\x1b" not in out + error


def test_library_commands_import_no_heavy_libraries() -> None:
    code = (
        "import sys\nfrom unabridged.app import cli\n"
        "cli.run(['--help'])\n"
        "light = {'pydantic', 'rich', 'sqlite_utils', 'tokenizers', 'httpx', 'msgspec'} & set(sys.modules)\n"
        "for name in cli.COMMANDS: cli.run([name, '--help'])\n"
        "heavy = {'torch', 'fastapi', 'textual', 'transformers', 'uvicorn', 'numpy'} & set(sys.modules)\n"
        "print(sorted(light), sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[] []\n"


def test_a_model_folder_that_is_not_there_is_named(run: Run) -> None:
    code, _, error = run("models", "add", "/no/such/model")
    assert code == cli.FAILED
    assert "/no/such/model: no such folder or file" in error


def test_a_name_that_begins_like_the_home_of_nobody_is_a_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "~$lease.txt").write_text("It stands here.")
    monkeypatch.chdir(tmp_path)
    assert run("add", "~$lease.txt")[0] == 0
    assert "It stands here." in run("show", "~$lease.txt")[1]
    assert "no document '~$nothing'" in run("show", "~$nothing")[2]


def test_a_limit_that_no_index_takes_is_wrong_usage(run: Run, papers: Path) -> None:
    run("add", str(papers))
    assert run("search", "--limit", "9" * 20, "notice")[0] == 2
