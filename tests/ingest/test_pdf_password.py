"""Passwords of PDFs: which of several opens a file, in which form."""

import pytest
from tests.ingest.made import data, end, line, pdf, read, text

from unabridged.ingest.pdf.password import opening, prepared


def _locked(user: str, owner: str | None = None, algorithm: str = "AES-256") -> bytes:
    writer = pdf(line("Locked text."))
    writer.encrypt(user, owner, algorithm=algorithm)
    return data(writer)


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_the_user_s_and_the_owner_s_password_open(algorithm: str) -> None:
    locked = _locked("kestrel", "heron", algorithm)
    assert [opening(locked, [password]) for password in ("kestrel", "heron", "crow")] == ["kestrel", "heron", None]
    assert text(read("a.pdf", locked, passwords=("crow", "heron"))) == "Locked text."


def test_a_file_that_only_its_owner_may_change_opens_without() -> None:
    locked = _locked("", "heron")
    assert opening(locked, ["heron"]) is None
    assert text(read("a.pdf", locked)) == "Locked text."


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("pass\u00adword", "password"), ("a\u00a0b", "a b"), ("\uff4b\uff45\uff59", "key"), ("ﬁrst", "first")],
)
def test_what_was_typed_is_prepared_as_the_standard_says(typed: str, stored: str) -> None:
    assert prepared(typed) == stored
    assert opening(_locked(stored), [typed]) == stored


def test_letters_beyond_ascii_open_old_files_and_new_ones() -> None:
    assert opening(_locked("Straße", algorithm="AES-256"), ["Straße"]) == "Straße"
    assert opening(_locked("Straße", algorithm="AES-128"), ["Straße"]) == "Straße"


def test_none_of_several_is_said_so() -> None:
    assert end(read("a.pdf", _locked("kestrel"), passwords=("one", "two"))).reason == "no password given opens it"
