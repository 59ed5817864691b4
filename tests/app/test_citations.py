"""Every sentence of an answer gets the passage that supports it, or a mark."""

from unabridged.app.citations import Cited, cite
from unabridged.app.sources import Look, Source

LEASE = """The access code of the Lyon office is 48213. The access code of the Paris
office is 51002.

Notice of termi-
nation shall be given by the supplier within thirty (30) days. The penalty is EUR 1,500."""
MAIL = """Subject: Budget
From: Ann Lee <ann@x.org>
To: Bob Ray
Date: Mon, 3 May 2021

Dear Bob, the budget for the harbour is 2.5 million. I will come on Tuesday."""
PAGES = (LEASE, MAIL)


def _source(number: int, text: str) -> Source:
    return Source(number, f"/d/{number}.txt", 1, "", text, 0, len(text), f"{number}.txt")


def _cite(answer: str, question: str = "What does it say?", looks: tuple[Look, ...] = ()) -> Cited:
    return cite(answer, question, [_source(number, text) for number, text in enumerate(PAGES, 1)], looks)


def test_a_sentence_is_given_its_passage_verbatim() -> None:
    cited = _cite("The supplier must give notice of termination within 30 days.")
    assert cited.answer == "The supplier must give notice of termination within 30 days. [1]"
    (citation,) = cited.citations
    assert citation.quote == "Notice of termi-\nnation shall be given by the supplier within thirty (30) days."
    assert LEASE[citation.start : citation.end] == citation.quote
    assert citation.verified


def test_a_wrong_number_is_unsupported_and_the_nearest_place_is_named() -> None:
    cited = _cite("The supplier must give notice within 40 days.")
    assert cited.answer.endswith("days. [1] [unsupported]")
    assert not cited.citations[0].verified
    assert not cited.sentences[0].supported


def test_the_neighbours_fact_does_not_support_it() -> None:
    question = "What is the access code of Lyon?"
    assert _cite("The access code for Lyon is 48213.", question).sentences[0].supported
    assert not _cite("The access code for Lyon is 51002.", question).sentences[0].supported


def test_a_bare_answer_is_read_with_its_question() -> None:
    question = "What is the access code of the Lyon office?"
    assert _cite("48213.", question).sentences[0].supported
    assert not _cite("51002.", question).sentences[0].supported


def test_header_lines_of_a_mail_support_together() -> None:
    cited = _cite("Ann Lee wrote to Bob on 3 May 2021.", "Who wrote about the budget?")
    assert cited.sentences[0].supported
    assert "From: Ann Lee" in cited.citations[0].quote


def test_a_sentence_over_two_places_cites_both() -> None:
    answer = "The access code of the Paris office is 51002, and the budget for the harbour is 2.5 million."
    assert _cite(answer).answer == f"{answer} [1][2]"


def test_the_same_passage_has_the_same_number() -> None:
    cited = _cite("The penalty is 1500 EUR. As said, the penalty is EUR 1,500.")
    assert cited.answer == "The penalty is 1500 EUR. [1] As said, the penalty is EUR 1,500. [1]"
    assert len(cited.citations) == 1


def test_attention_decides_between_equal_passages() -> None:
    twin = "The penalty is EUR 900."
    sources = [_source(1, twin), _source(2, twin)]
    looks = [Look(0, 23, 2, 1, 0, 23, 0.5)]
    assert cite("The penalty is EUR 900.", "?", sources).citations[0].document_id == 1
    assert cite("The penalty is EUR 900.", "?", sources, looks).citations[0].document_id == 2


def test_attention_alone_verifies_nothing() -> None:
    cited = _cite("The moon is made of cheese.", looks=(Look(0, 27, 1, 1, 0, 40, 1.0),))
    assert cited.answer == "The moon is made of cheese. [unsupported]"


def test_a_quotation_is_found_over_hyphens_line_breaks_and_kinds_of_quotes() -> None:
    cited = _cite("It says “notice of termination shall be given”.")
    assert "not found" not in cited.answer
    assert cited.citations[0].quote.startswith("Notice of termi-\nnation shall be given")


def test_a_quotation_that_stands_nowhere_is_marked() -> None:
    cited = _cite('The lease says "within fifty days" about it.')
    assert 'days" [not found in the documents] about it.' in cited.answer


def test_a_quotation_of_the_question_is_not_one_of_the_documents() -> None:
    assert "not found" not in _cite('The term "force majeure" is not mentioned.', 'What about "force majeure"?').answer


def test_what_claims_nothing_needs_no_support() -> None:
    for answer in ("I don't know.", "The documents do not mention it.", "Hello!", "What would you like to know?", "In"):
        cited = _cite(answer)
        assert (cited.answer, cited.citations, cited.sentences[0].supported) == (answer, (), True), answer


def test_a_bare_yes_is_a_claim_that_nothing_verifies() -> None:
    assert not _cite("Yes.", "Is the penalty EUR 1,500?").sentences[0].supported


def test_numbers_in_brackets_that_the_model_wrote_are_not_taken_for_ours() -> None:
    assert _cite("The penalty is EUR 1,500 [7].").answer == "The penalty is EUR 1,500 (7). [1] [unsupported]"


def test_spans_of_sentences_cover_the_marked_text() -> None:
    cited = _cite("The penalty is EUR 1,500.\n\nThe moon is made of cheese.")
    assert [cited.answer[one.start : one.end] for one in cited.sentences] == [
        "The penalty is EUR 1,500. [1]",
        "The moon is made of cheese. [unsupported]",
    ]


def test_text_out_of_view_supports_nothing() -> None:
    start = LEASE.index("The penalty")
    hidden = Source(1, "/d/1.txt", 1, "", LEASE, 0, start, "")
    assert not cite("The penalty is EUR 1,500.", "?", [hidden]).sentences[0].supported


def test_no_sources_no_support_no_failure() -> None:
    assert cite("It is 5.", "?", []).answer == "It is 5. [unsupported]"
    assert cite("", "?", []).answer == ""
