"""Rich Text Format: code pages, what is not shown, and what is no text."""

import pytest
from tests.ingest.made import end, opened, pages, read, text
from tests.ingest.office import docx, ole, p

from unabridged.ingest.document import Flag, Status
from unabridged.ingest.office.rtf import text as plain


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (r"\ansicpg1250 \'9elu\'9dou\'e8k\'fd", "žluťoučký"),
        (r"{\fonttbl{\f0\fcharset128 MS;}{\f1\fcharset204 A;}}\f0 \'89\'ef\'8bc {\f1 \'cf\'f0} x", "会議 Пр x"),
        (r"\uc1 caf\u233?\uc0 \u8364  {\uc2\u8217\'61\'62}s", "café€ ’s"),
        (r"\u-10179?\u-8704?", "😀"),
        (r"a\~b\_c\-d\emdash e\{f\}\\", "a b-cd—e{f}\\"),
        (r"{\field{\*\fldinst HYPERLINK http://x}{\fldrslt here}}", "here"),
        (r"{\*\unknown gone}{\pict 0123\bin5 }{}{x}kept", "kept"),
        (r"{\info{\title T}{\author A}}body", "body"),
        (r"{\fromhtml1 {\*\htmltag <p>}\htmlrtf \par\htmlrtf0 words{\*\htmltag </p>}", "words"),
        (r"{\stylesheet{\s7\b Heading 2;}{\s8 Body;}}\pard\s7 Terms\par\pard\s8 text", "## Terms\n\ntext"),
        (r"\revdttm-12345678901 digits", "digits"),
        ("one\\par\r\ntwo", "one\n\ntwo"),
        (r"{\shp{\*\shpinst{\sp{\sn wz}{\sv 1}}{\shptxt boxed\par}}{\shprslt boxed}}rest", "boxed\n\nrest"),
    ],
)
def test_text_is_decoded(body: str, expected: str) -> None:
    assert text(read("a.rtf", b"{\\rtf1\\ansi " + body.encode("latin-1") + b"}")) == expected


def test_tables_lists_headings_notes_and_pages() -> None:
    body = (
        r"\pard\outlinelevel0 Terms\par\pard{\listtext\pard 1.\tab}Rent\par{\listtext 2.\tab}Term\par"
        r"\trowd\intbl Lot\cell Price\cell\row\trowd\intbl 17\cell 4 500\cell\row\pard "
        r"The well{\super 1{\footnote\pard deep}}.{\*\atnauthor Ann}{\*\annotation why?}\page Second{\header Draft}"
    )
    items = read("a.rtf", b"{\\rtf1 " + body.encode() + b"}")
    first, second = pages(items)
    assert first.text.startswith("# Terms\n\n1. Rent\n2. Term\n\nLot\tPrice\n17\t4 500\n\nThe well1[^1].\n\n")
    assert first.text.endswith("[^1] deep\nComment by Ann: why?")
    assert second.text == "Second\n\nPage header: Draft"


def test_hidden_and_deleted_text_is_kept_apart() -> None:
    (page,) = pages(read("a.rtf", rb"{\rtf1 The rent {\v secret }is {\deleted 100 }200\v0 .\par}"))
    assert page.text == "The rent is 200.\n\nHidden text: secret\nDeleted: 100"
    assert page.flags == (Flag.HIDDEN,)


def test_embedded_documents_are_children() -> None:
    inner = ole({"Package": docx(p("inner text"))})
    data = (
        b"{\\rtf1 outer{\\object{\\*\\objdata " + (b"0105000002000000" + inner.hex().encode()) + b"}{\\result shown}}}"
    )
    items = read("a.rtf", data)
    assert text(items) == "outershown"
    assert [one.parent for one in opened(items)] == [None, 0]
    assert text(items, 1).startswith("inner text")


@pytest.mark.parametrize("body", ["{" * 30_000, "}" * 1_000, "\\bin999999999 x", "\\'zz\\u\\uc99999 x", "{\\rtf", "\\"])
def test_hostile_rtf_ends_with_a_status(body: str) -> None:
    items = read("a.rtf", b"{\\rtf1 before\\par " + body.encode())
    assert end(items).status in (Status.READ, Status.PARTIAL)
    assert text(items).startswith("before")


def test_bodies_of_messages_are_plain_text() -> None:
    assert plain(rb"{\rtf1 one\par {\v x}two\par}") == "one\ntwo"
