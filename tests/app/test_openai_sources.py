"""The list of sources as text: complete for clients that show only content, and removable again."""

from unabridged.app.events import Answer, Citation, LeftOut, Receipt, Sentence
from unabridged.app.openai_sources import sources_text, without_sources


def citation(n: int, document: str, page: int, quote: str, *, label: str = "", verified: bool = True) -> Citation:
    return Citation(
        n=n, document=document, document_id=n, page=page, label=label, quote=quote, start=0, end=len(quote),
        verified=verified,
    )  # fmt: skip


def receipt(left_out: tuple[LeftOut, ...] = ()) -> Receipt:
    return Receipt(
        mode="whole", why="it fits", model="m", engine="torch", documents=1, pages=2, tokens=100, context=150,
        cached=20, attended=120, coverage=1.0, attention="dense", completion=9, seconds_to_first_token=0.1, seconds=0.2,
        finish="stop", left_out=left_out,
    )  # fmt: skip


def answer(
    marked: str, text: str, sentences: list[tuple[int, int, tuple[int, ...], bool]], *citations: Citation,
    left_out: tuple[LeftOut, ...] = (),
) -> Answer:  # fmt: skip
    return Answer(
        answer=marked,
        text=text,
        citations=citations,
        sentences=tuple(Sentence(start=s, end=e, citations=c, supported=ok) for s, e, c, ok in sentences),
        receipt=receipt(left_out),
        conversation="",
    )


MARKED = "It is 500 euros. [1] It is blue. [unsupported]"
PLAIN = "It is 500 euros. It is blue."
SPANS = [(0, 20, (1,), True), (21, 46, (), False)]


def test_a_source_names_file_page_and_quote() -> None:
    given = answer(MARKED, PLAIN, SPANS, citation(1, "/home/me/lease.pdf", 4, "a deposit of\n500 euros", label="iv"))
    assert sources_text(given, streamed=False) == '\n\nSources:\n[1] lease.pdf, page iv: "a deposit of 500 euros"'


def test_a_streamed_answer_says_which_sentence_each_source_supports() -> None:
    given = answer(MARKED, PLAIN, SPANS, citation(1, "/home/me/lease.pdf", 4, "500 euros"))
    assert sources_text(given, streamed=True).splitlines()[2:] == [
        "Sources:",
        '[1] lease.pdf, page 4: "500 euros"',
        '    supports: "It is 500 euros."',
        'Not supported by the documents: "It is blue."',
    ]


def test_files_of_the_same_name_are_told_apart_by_path() -> None:
    given = answer(
        "A. [1][2]", "A.", [(0, 9, (1, 2), True)], citation(1, "/a/x.pdf", 1, "q"), citation(2, "/b/x.pdf", 1, "q")
    )
    text = sources_text(given, streamed=False)
    assert "[1] /a/x.pdf, page 1" in text
    assert "[2] /b/x.pdf, page 1" in text


def test_what_lies_in_a_mailbox_is_named_with_it() -> None:
    given = answer("A. [1]", "A.", [(0, 6, (1,), True)], citation(1, "/a/box.mbox#3/report.pdf", 2, "q"))
    assert "[1] box.mbox#3/report.pdf, page 2" in sources_text(given, streamed=False)


def test_doubt_is_said() -> None:
    given = answer("A. [1]", "A.", [(0, 6, (1,), True)], citation(1, "/a.txt", 1, "q", verified=False))
    assert "(by attention only)" in sources_text(given, streamed=False)


def test_what_was_left_out_is_said_even_without_citations() -> None:
    left_out = tuple(LeftOut(document=f"/a/{n}.pdf", pages="all", reason="no text") for n in range(12))
    text = sources_text(answer("Hm?", "Hm?", [], left_out=left_out), streamed=False)
    assert text.startswith("\n\nSources: none\nNot read: 0.pdf, all (no text)\n")
    assert text.endswith("Not read: 2 more, see the receipt")


def test_nothing_is_appended_when_there_is_nothing_to_say() -> None:
    assert sources_text(answer("Hello!", "Hello!", []), streamed=True) == ""


def test_what_clients_send_back_is_as_the_model_wrote_it() -> None:
    source = citation(1, "/home/me/lease.pdf", 4, "500 euros")
    given = answer(MARKED, PLAIN, SPANS, source)
    assert without_sources(given.answer + sources_text(given, streamed=False)) == PLAIN
    assert without_sources(given.text + sources_text(given, streamed=True)) == PLAIN
    left_out = (LeftOut(document="/a.pdf", pages="1", reason="no text"),)
    unsupported = answer("B. [unsupported]", "B.", [(0, 16, (), False)], left_out=left_out)
    assert without_sources(unsupported.text + sources_text(unsupported, streamed=True)) == "B."


def test_other_texts_stay_as_they_are() -> None:
    for text in ("", "See a[0] and b[i].", "Sources: many.\n\nSources:\nbooks", "x = [1, 2]"):
        assert without_sources(text) == text
