"""Which messages belong to one conversation, whatever order they come in and whatever goes again."""

import itertools
from pathlib import Path

import pytest
from tests.ingest.letters import add_files, letter, store, threads

from unabridged.ingest.catalog import messages
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.subject import base
from unabridged.ingest.library import Library


def _threads(library: Library) -> list[set[str]]:
    return threads(library.connection)


def test_answers_join_what_they_refer_to_in_whatever_order_they_come(tmp_path: Path) -> None:
    letters = [
        letter(1),
        letter(2, subject="Re: Dredging", references="1@x"),
        letter(3, subject="another subject", references="1@x 2@x"),
        letter(4, subject="yet another", in_reply_to="3@x"),
    ]
    for count, order in enumerate(list(itertools.permutations(letters))[::5]):
        with Library.open(tmp_path / f"{count}.db") as library:
            for each in order:
                store(library, each[0]["message_id"], [each])
            assert _threads(library) == [{"1@x", "2@x", "3@x", "4@x"}]


def test_answers_to_a_message_that_is_not_here_find_each_other(library: Library) -> None:
    store(
        library, "a", [letter(2, references="1@x", subject="a"), letter(3, in_reply_to="1@x", subject="b"), letter(9)]
    )
    assert _threads(library) == [{"2@x", "3@x"}, {"9@x"}]


def test_loops_and_a_message_that_names_itself_end(library: Library) -> None:
    store(
        library,
        "a",
        [
            letter(1, subject="a", references="2@x"),
            letter(2, subject="b", references="1@x"),
            letter(3, subject="c", references="3@x", in_reply_to="3@x"),
            letter(4, subject="d", references="5@x 6@x 4@x"),
            letter(5, subject="e", references="6@x 4@x 5@x"),
        ],
    )
    assert _threads(library) == [{"1@x", "2@x"}, {"3@x"}, {"4@x", "5@x"}]


def test_in_reply_to_counts_only_without_references_and_an_address_in_it_never(library: Library) -> None:
    ines = "ines@harbour.example"
    store(
        library,
        "a",
        [
            letter(1, subject="a"),
            letter(2, subject="b"),
            letter(3, subject="c", references="1@x", in_reply_to="2@x"),
            letter(4, subject="d", in_reply_to=ines, sender="Pavel <p@x>", to=f"Ines <{ines}>"),
            letter(5, subject="e", in_reply_to=ines, sender="Pavel <p@x>", to=f"Ines <{ines}>"),
        ],
    )
    assert _threads(library) == [{"1@x", "3@x"}, {"2@x"}, {"4@x"}, {"5@x"}]


def test_outlook_s_index_joins_by_its_first_22_bytes(library: Library) -> None:
    head = "01d0" + "ab" * 20
    store(
        library,
        "a",
        [
            letter(1, subject="a", thread_index=head),
            letter(2, subject="b", thread_index=head.upper() + "0102030405"),
            letter(3, subject="c", thread_index="ff" * 22),
        ],
    )
    assert _threads(library) == [{"1@x", "2@x"}, {"3@x"}]


def test_gmail_s_threads_join_and_stay_apart_as_gmail_says(library: Library) -> None:
    store(
        library,
        "takeout",
        [
            letter(1, subject="a", gm_thrid="77"),
            letter(2, subject="b", gm_thrid="77"),
            letter(3, subject="c", gm_thrid="88", references="1@x"),
        ],
    )
    assert _threads(library) == [{"1@x", "2@x"}, {"3@x"}]
    store(library, "other", [letter(4, subject="d", references="1@x 3@x")])
    assert _threads(library) == [{"1@x", "2@x"}, {"3@x", "4@x"}]


@pytest.mark.parametrize("prefix", ["Re", "AW", "Sv", "Odp", "RE[2]", "Antw", "RV", "R", "Ynt", "答复", "Re: AW"])
def test_an_answer_without_ids_joins_by_subject_and_people(library: Library, prefix: str) -> None:
    answer = letter(2, subject=f"{prefix}: Dredging", sender="Pavel <pavel@mill.example>", to="ines@harbour.example")
    store(library, "a", [letter(1), answer])
    assert _threads(library) == [{"1@x", "2@x"}]


def test_the_subject_alone_joins_nothing(library: Library) -> None:
    anna, bob = "A <a@a.example>", "B <b@b.example>"
    store(
        library,
        "a",
        [
            letter(1),
            letter(2),  # the same people and words, but no answer: a monthly report
            letter(3, subject="Re: Dredging", sender=anna, to=bob),  # other people
            letter(4, subject="Re: Dredging", days=200),  # too late
            letter(5, subject="Re: "),  # no subject at all
            letter(6, subject="Re:"),
            letter(7, subject="Re: Dredging", date="", sender=anna, to=bob),
        ],
    )
    assert len(_threads(library)) == 7


def test_an_answer_comes_before_what_it_answers(library: Library) -> None:
    store(
        library, "sent", [letter(2, subject="AW: Dredging", sender="Pavel <pavel@mill.example>", to="ines@x.example")]
    )
    store(library, "inbox", [letter(1)])
    assert _threads(library) == [{"1@x", "2@x"}]


def test_an_addition_leaves_other_threads_their_numbers(library: Library) -> None:
    store(library, "a", [letter(1), letter(2, subject="other")])
    before = dict(library.connection.execute("SELECT message_id, thread_id FROM messages").fetchall())
    store(library, "b", [letter(3, subject="x", references="1@x"), letter(4, subject="y", references="1@x 2@x")])
    after = dict(library.connection.execute("SELECT message_id, thread_id FROM messages").fetchall())
    assert after == {"1@x": before["1@x"], "2@x": before["1@x"], "3@x": before["1@x"], "4@x": before["1@x"]}


def test_what_goes_parts_what_it_held_together(library: Library) -> None:
    store(library, "a", [letter(1, subject="a")])
    store(library, "bridge", [letter(2, subject="b", references="1@x 3@x")])
    store(library, "c", [letter(3, subject="c")])
    assert len(_threads(library)) == 1
    library.remove(["bridge"])
    assert _threads(library) == [{"1@x"}, {"3@x"}]
    library.remove(["/case/a"])
    rest = library.connection.execute("SELECT key FROM thread_keys").fetchall()
    assert [row["key"] for row in rest] == ["i:3@x"]
    assert library.verify() == []


def test_rows_are_written_anew_for_another_version(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.db") as library:
        store(library, "a", [letter(1), letter(2, subject="x", references="1@x")])
        query = "SELECT document_id, message_id, body_hash, sender, recipients, at, subject, reply, loose FROM messages"
        before = [tuple(row) for row in library.connection.execute(query)]
        with transaction(library.connection):
            library.connection.execute("UPDATE settings SET value = '' WHERE key = 'messages_version'")
            library.connection.execute("UPDATE messages SET sender = 'old', body_hash = ''")
    with Library.open(tmp_path / "library.db") as library:
        assert [tuple(row) for row in library.connection.execute(query)] == before
        assert not messages.stale(library.connection)
        assert len(_threads(library)) == 1


def test_a_hash_that_no_reader_gave_is_the_one_that_it_would_have_given(library: Library) -> None:
    (number,) = store(library, "a", [letter(1, body="Own.\n\n> quoted\n\n-- \nInes\n____________\nthe mailing list\n")])
    row = library.connection.execute("SELECT body_hash FROM messages").fetchone()
    meta = library.document(number).meta
    assert messages.body_hash(library.connection, number, meta) == row["body_hash"] == meta["body_hash"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("Dredging", ("dredging", False)),
        ("Re: Dredging", ("dredging", True)),
        ("RE[2]: [harbour] AW: Fwd: Dredging (fwd)", ("dredging", True)),
        ("Réf : Dredging", ("dredging", True)),
        ("[harbour] Dredging", ("dredging", False)),
        ("[harbour]", ("[harbour]", False)),
        ("Re:", ("", True)),
        ("Recall: the plan", ("recall: the plan", False)),
        ("A: B", ("a: b", False)),
        ("回复：疏浚", ("疏浚", True)),
        ("Re: " * 100 + "x", ("re: " * 59 + "re: x", True)),
    ],
)
def test_subjects_lose_what_answering_puts_in_front(subject: str, expected: tuple[str, bool]) -> None:
    assert base(subject) == expected


@pytest.mark.thorough
def test_a_mailbox_is_joined_in_time_that_grows_with_it(library: Library) -> None:
    import time

    began = time.process_time()
    store(
        library,
        "a",
        (
            letter(n, subject="Re: Dredging", references=" ".join(f"{m}@x" for m in range(max(0, n - 20), n)))
            for n in range(4000)
        ),
    )
    assert len(_threads(library)) == 1
    assert time.process_time() - began < 20


def test_the_mailboxes_of_the_collection_are_joined_as_their_author_says(library: Library, shared_data: Path) -> None:
    add_files(
        library, *(shared_data / "ingest" / "made" / name for name in ("mbox_threads.mbox", "mbox_dup_msgid.mbox"))
    )
    rows = [row for row in library.documents() if row.thread is not None]
    groups: dict[int | None, list[str]] = {}
    for row in rows:
        groups.setdefault(row.thread, []).append(row.path.rpartition("/")[2].removeprefix("mbox_"))
    assert list(groups.values()) == [
        ["dup_msgid.mbox#1", "dup_msgid.mbox#2", "dup_msgid.mbox#3", "dup_msgid.mbox#4"],
        ["threads.mbox#1", "threads.mbox#2", "threads.mbox#3", "threads.mbox#4"],
        ["threads.mbox#5"],
        ["threads.mbox#6", "threads.mbox#7"],
    ]
    copies = [row.identity for row in rows[:4]]
    assert copies[0] == copies[1]
    assert len(set(copies)) == 3


def test_the_time_of_a_file_joins_no_thread_by_subject(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library.db") as library:
        undated = letter(2, subject="Re: Dredging", date_source="file time")
        ids = store(library, "a", [letter(1), undated, letter(3, subject="Re: Dredging")])
        first, second, third = (library.document(number).thread for number in ids)
    assert first == third != second
