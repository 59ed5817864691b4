"""Search and ranking: what is spelled otherwise is found, snippets are the stored characters, rare words decide."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from unabridged.ingest.catalog.audit import audit
from unabridged.ingest.catalog.database import transaction
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.catalog.findings import Finding
from unabridged.ingest.catalog.hidden import hiding
from unabridged.ingest.catalog.query import not_understood
from unabridged.ingest.catalog.storing import ContentWriter
from unabridged.ingest.catalog.writes import Seen, attach, drop_orphans, ensure_collection
from unabridged.ingest.document import Closed, Kind, Opened, Page, Part, PartKind, Status
from unabridged.ingest.errors import CollectionNotFound
from unabridged.ingest.library import Library


def _store(library: Library, name: str, pages: Iterable[str | Page], collection: str = "default") -> None:
    """A document of these pages, as an addition would leave it."""
    with transaction(library.connection) as connection:
        writer = ContentWriter(connection, name, 1)
        writer.put(Opened(ref=0, parent=None, name=name, kind=Kind.TEXT))
        for number, page in enumerate(pages, 1):
            writer.put(page if isinstance(page, Page) else Page(ref=0, number=number, text=page))
        writer.put(Closed(ref=0, status=Status.READ))
        writer.finish()
        attach(connection, Seen(f"/d/{name}", 1, 1), writer.content, ensure_collection(connection, collection))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the oﬃce is closed", "office"),
        ("the office is closed", "oﬃce"),
        ("an infor-\nmation desk", "information"),
        ("a well-known man", "wellknown"),
        ("a wellknown man", "well-known"),
        ("co\u00adoperate", "cooperate"),
        ("naïve café", "naive CAFE"),
        ("plain cafe", "café"),
        ("次の会議室は三階です", "会議"),
        ("次の会議室は三階です", "会議室"),
        ("次の会議室は三階です", "議室"),
        ("次の会議室は三階です", "階"),
        ("次の会議室は三階です", '"会議室は三階"'),
        ("계약서를 보냅니다", "계약서"),
        ("สัญญาเช่าบ้าน", "เช่า"),
        ("die Straße", "strasse"),
        ("Ελλάδα", "ΕΛΛΑΔΑ"),
        ("order KX-4711/b now", "KX-4711/b"),
        ("order KX-4711/b now", "kx4711b"),
        ("order KX-4711/b now", "4711"),
        ("he paid 1,250.00 euros", "1250.00"),
        ("write to jo.doe@example.org", "jo.doe@example.org"),
        ("the parties' agreements", "party agreement"),
        ("to be or not to be", '"to be or not"'),
        ("to be or not to be", "not"),
        ("Herr Müller", "Mueller"),
        ("Herr Mueller", "Müller"),
        ("infor-\n\nmation desk", "information"),
        ("أحمد من المدرسة", "احمد المدرسه"),
        ("سنة ٢٠٢٤", "2024"),
        ("צה״ל", 'צה"ל'),
        ("1\u202f234\u202f567 Euro", "1234567"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("getUserName()", "user name"),
        ("हिन्दी में", "हिंदी"),
        ("がくせい", "か\u3099くせい"),
        ("taxes due", "tax"),
    ],
)
def test_what_is_spelled_otherwise_is_found(library: Library, text: str, query: str) -> None:
    _store(library, "other.txt", ["nothing of the kind here", "日本の経済"])
    _store(library, "it.txt", [text])
    assert [hit.document.path for hit in library.search(query)] == ["/d/it.txt"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        '"',
        '""',
        "*",
        "a*",
        "(",
        ")",
        "NEAR(",
        "AND",
        "x AND",
        "-",
        "col:x",
        "^x",
        "'; DROP",
        "\\",
        "“”",
        "\x00",
    ],
)
def test_any_punctuation_is_accepted(library: Library, query: str) -> None:
    _store(library, "a.txt", ["some text"])
    assert library.search(query) == []
    assert library.rank(query) == []


def test_a_word_that_is_broken_between_two_pages_is_found(library: Library) -> None:
    _store(library, "a.txt", ["It was the informa-", "tion desk that", "was closed"])
    assert [hit.page for hit in library.search("information")] == [2]
    assert [step for step in audit(library, ("index",)) if isinstance(step, Finding)] == []
    library.connection.execute("DELETE FROM collection_files")
    library.connection.execute("DELETE FROM files")
    with transaction(library.connection):
        drop_orphans(library.connection)
    assert library.connection.execute("SELECT COUNT(*) FROM page_terms").fetchone()[0] == 0


def test_quoted_words_must_stand_together(library: Library) -> None:
    _store(library, "a.txt", ["the red house", "the house is red"])
    assert [hit.page for hit in library.search('"red house"')] == [1]
    assert {hit.page for hit in library.search("red house")} == {1, 2}


def test_pages_with_all_words_come_first(library: Library) -> None:
    _store(
        library,
        "a.txt",
        ["mill mill mill mill", "the mill was sold by the miller in a very long sentence", "sold sold"],
    )
    assert library.search("mill sold")[0].page == 2


def test_a_page_with_all_words_comes_before_any_other_and_says_so(library: Library) -> None:
    _store(library, "a.txt", ["roof " * 40, f"a light {'and more ' * 200} on the roof", "the well-known roof light"])
    hits = library.search("roof light")
    assert [(hit.page, hit.all_words) for hit in hits] == [(3, True), (2, True), (1, False)]
    assert [hit.page for hit in library.search("the wellknown light roof") if hit.all_words] == [3]
    assert [hit.page for hit in library.search("well-known light") if hit.all_words] == [3]


@pytest.mark.parametrize(
    ("query", "pages"),
    [
        ("27,315", {1, 2}),
        ("27.315", {1, 2}),
        ("45,000", {3}),
        ("2024-03-01", {5}),
        ("1.5", {6}),
        ("sum 27,315", {1, 2, 4}),
        ("27,315 sum", {1, 2, 4}),
        ("315", {1, 2, 4}),
    ],
)
def test_a_number_is_looked_for_whole(library: Library, query: str, pages: set[int]) -> None:
    _store(
        library,
        "a.txt",
        [
            "It costs 27,315 euros",
            "27 315.50 in all",
            "45.000 or 000",
            "a sum of 315 and of 27",
            "on 2024-03-01",
            "a factor of 1.5",
            "5 or 1 or 2024",
        ],
    )
    hits = library.search(query)
    assert {hit.page for hit in hits} == pages
    assert all(hit.marks for hit in hits)


def test_the_beginning_of_a_word_finds_what_goes_on(library: Library) -> None:
    _store(library, "a.txt", ["he may terminate it", "contract termination", "the terminal", "a term"])
    hits = library.search("terminat*")
    assert {hit.page for hit in hits} == {1, 2}
    assert {hit.snippet[first - hit.start : last - hit.start] for hit in hits for first, last in hit.marks} == {
        "terminate",
        "termination",
    }
    assert [hit.page for hit in library.search("terminat* contract") if hit.all_words] == [2]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("from:otto lease", "--from"),
        ("lease NOT draft", "NOT"),
        ("lease -draft", "-draft"),
        ("lease terminat* ABC-123 https://x.example/to:me 5 -3", ""),
        ('"this OR that"', ""),
    ],
)
def test_what_looks_like_more_than_words_is_named(query: str, named: str) -> None:
    said = not_understood(query)
    assert named in said
    assert bool(said) == bool(named)


def test_a_snippet_is_the_stored_text_around_the_words(library: Library) -> None:
    text = "Begin. " * 100 + "Here the oﬃce\u00adkey lies on the ta-\nble. " + "End. " * 100
    _store(library, "a.txt", [text])
    (hit,) = library.search("key table officekey")
    assert hit.snippet == text[hit.start : hit.end]
    assert "oﬃce\u00adkey lies on the ta-\nble" in hit.snippet
    assert [text[start:end] for start, end in hit.marks] == ["oﬃce\u00adkey", "ta-\nble"]
    assert len(hit.snippet) < 500


def test_hidden_text_is_not_found(library: Library) -> None:
    page = Page(ref=0, number=1, text="seen secret seen", parts=(Part(PartKind.HIDDEN, 5, 11),))
    _store(library, "a.txt", [page])
    assert library.search("secret") == []
    assert library.search("seen")[0].marks == ((0, 4), (12, 16))


def test_pages_that_hide_the_words_are_named_apart(library: Library) -> None:
    page = Page(ref=0, number=1, text="seen secret notes seen", parts=(Part(PartKind.HIDDEN, 5, 17),))
    _store(library, "a.txt", [page, "secret"])
    assert library.hidden("secret note") == [("/d/a.txt", 1)]
    assert library.hidden("seen") == []
    (document,) = library.documents()
    assert hiding(library.connection, [document.id]) == 1
    assert hiding(library.connection, []) == 0


def test_documents_are_found_by_their_names(library: Library) -> None:
    for name in ("Side letter.pdf", "Side letters 2.txt", "Müller, Nachtrag.txt", "lease.txt"):
        _store(library, name, ["nothing of it"])
    assert [row.path for row in library.named('"side letter"')] == ["/d/Side letter.pdf", "/d/Side letters 2.txt"]
    assert [row.path for row in library.named("nachtrag Mueller")] == ["/d/Müller, Nachtrag.txt"]
    assert [row.path for row in library.named("leas*")] == ["/d/lease.txt"]
    assert [row.path for row in library.named("side letter", where=Filter(patterns=("2.txt",)))] == [
        "/d/Side letters 2.txt"
    ]
    assert library.named("side lease") == library.named("") == library.named("side", where=Filter(tags=("x",))) == []


def test_a_search_stays_in_its_collection_and_documents(library: Library) -> None:
    _store(library, "a.txt", ["the mill"], "one")
    _store(library, "b.txt", ["the mill"], "two")
    first = library.search("mill", "one")[0].document
    assert first.path == "/d/a.txt"
    assert len(library.search("mill", None)) == 2
    assert [hit.document.id for hit in library.search("mill", None, documents=[first.id])] == [first.id]
    assert len(library.search("mill", None, limit=1)) == 1
    with pytest.raises(CollectionNotFound, match="three"):
        library.search("mill", "three")


def test_the_page_that_answers_is_ranked_first_among_look_alikes(library: Library) -> None:
    """24 people, 4 facts a page in 6 documents; names share their parts."""
    firsts = ("Alice", "Bruno", "Clara", "David")
    lasts = ("Abbott", "Becker", "Castle", "Dunn", "Evans", "Frost")
    people = [f"{first} {last}" for last in lasts for first in firsts]
    filler = "The weather was fine and the key people of the town met for a pass of time. " * 8
    facts = [f"The pass key for {name} is {71_000 + 37 * n}." for n, name in enumerate(people)]
    for n in range(6):
        _store(library, f"{n}.txt", [filler.join(("", *facts[4 * n : 4 * n + 4], ""))])
    for n, name in enumerate(people):
        document, page, _ = library.rank(f"What is the pass key for {name}?")[0]
        assert f"{71_000 + 37 * n}" in library.page(document, page).text


def test_a_rare_word_outweighs_many_common_ones(library: Library) -> None:
    pages = ["the delivery date of the order is in the delivery list of orders"] * 20
    _store(library, "a.txt", [*pages, "QX-93 has come late"])
    assert library.rank("What is the delivery date of the order QX-93?")[0][1] == 21


def test_rank_without_any_known_word_is_empty(library: Library) -> None:
    _store(library, "a.txt", ["some text"])
    assert library.rank("Where is Waldo?") == []


def test_the_index_is_built_anew_when_its_version_changes(library: Library, tmp_path: Path) -> None:
    from unabridged.ingest.catalog.reindex import refresh_index

    _store(library, "a.txt", ["some text"])
    library.connection.execute("UPDATE settings SET value = '0' WHERE key = 'index_version'")
    library.connection.execute("INSERT INTO page_index (page_index) VALUES ('delete-all')")
    assert library.verify() == ["1 pages are missing in the search index"]
    assert list(refresh_index(library.connection)) == [(0, 1), (1, 1)]
    assert list(refresh_index(library.connection)) == []
    assert library.verify() == []
    assert library.search("text")
