"""PDF pages: what a reader sees, what is hidden from him, and what cannot be read."""

from pathlib import Path

import pytest
from tests.ingest.made import data, end, line, opened, pages, pdf, read, sound, text

from unabridged.ingest.document import Flag, PartKind, Status
from unabridged.ingest.limits import Limits


def test_pages_have_text_metadata_and_numbers() -> None:
    writer = pdf(line("First page."), line("Second page."))
    writer.add_metadata({"/Title": "The \u200btitle", "/Author": "Ada", "/CreationDate": "D:20260303091500+01'00'"})
    items = read("a.pdf", data(writer))
    sound(items)
    assert opened(items)[0].title == "The title"
    assert opened(items)[0].meta == {"author": "Ada", "created": "2026-03-03T09:15:00+01:00"}
    assert [(page.number, page.text) for page in pages(items)] == [(1, "First page."), (2, "Second page.")]
    assert end(items).status == Status.READ


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param("BT 3 Tr /F1 12 Tf 72 500 Td (secret words) Tj ET", id="render mode"),
        pytest.param("1 1 1 rg BT /F1 12 Tf 72 500 Td (secret words) Tj ET", id="white"),
        pytest.param("BT /F1 12 Tf -900 -900 Td (secret words) Tj ET", id="off the page"),
        pytest.param("BT /F1 0.5 Tf 72 500 Td (secret words) Tj ET", id="tiny"),
    ],
)
def test_hidden_text_is_kept_apart_and_flagged(hidden: str) -> None:
    page = pages(read("a.pdf", data(pdf(line("Seen by all.") + hidden))))[0]
    assert page.text == "Seen by all.\nsecret words"
    assert [(part.kind, page.text[part.start : part.end]) for part in page.parts] == [(PartKind.HIDDEN, "secret words")]
    assert page.flags == (Flag.HIDDEN,)


def test_white_text_on_a_dark_shape_is_seen() -> None:
    table = "0 0 0.5 rg 60 480 400 40 re f 1 1 1 rg BT /F1 12 Tf 72 500 Td (Head of a table) Tj ET"
    page = pages(read("a.pdf", data(pdf(table))))[0]
    assert (page.text, page.flags) == ("Head of a table", ())


def test_turned_pages_keep_the_order_of_their_lines() -> None:
    writer = pdf(line("Upper line.", 700) + line("Lower line.", 600))
    writer.pages[0].rotate(90)
    assert pages(read("a.pdf", data(writer)))[0].text == "Upper line.\nLower line."


def test_an_empty_page_keeps_its_number() -> None:
    items = read("a.pdf", data(pdf(line("one"), "", line("three"))))
    assert [(page.number, page.flags) for page in pages(items)] == [(1, ()), (2, (Flag.EMPTY,)), (3, ())]
    assert end(items).status == Status.READ


def test_a_document_without_text_says_so() -> None:
    assert end(read("a.pdf", data(pdf("", "")))).status == Status.NO_TEXT


def test_a_password_is_asked_for_and_used() -> None:
    writer = pdf(line("Locked text."))
    writer.encrypt("kestrel", algorithm="AES-256")
    locked = data(writer)
    assert (end(read("a.pdf", locked)).status, end(read("a.pdf", locked)).reason) == (
        Status.NEEDS_PASSWORD,
        "needs a password",
    )
    assert end(read("a.pdf", locked, password="wrong")).reason == "no password given opens it"
    assert text(read("a.pdf", locked, password="kestrel")) == "Locked text."


def test_attachments_become_documents_without_their_folders() -> None:
    writer = pdf(line("Cover."))
    writer.add_attachment("../../notes.txt", b"The code word is Heliotrope.")
    writer.add_attachment("inner.pdf", data(pdf(line("Inner page."))))
    items = read("a.pdf", data(writer))
    sound(items)
    assert {document.name: text(items, document.ref) for document in opened(items)[1:]} == {
        "notes.txt": "The code word is Heliotrope.",
        "inner.pdf": "Inner page.",
    }


def test_attachments_within_attachments_end_at_the_depth_limit() -> None:
    inner = data(pdf(line("Level 0.")))
    for level in range(1, 6):
        writer = pdf(line(f"Level {level}."))
        writer.add_attachment("inner.pdf", inner)
        inner = data(writer)
    items = read("a.pdf", inner, Limits(depth=2))
    sound(items)
    assert len(opened(items)) == 3
    assert any("nested more than 2 levels deep" in end(items, ref).reason for ref in range(3))


def test_a_file_cut_off_is_read_as_far_as_it_goes() -> None:
    whole = data(pdf(*(line(f"Sheet {n}.") for n in range(1, 21))))
    items = read("a.pdf", whole[: len(whole) * 7 // 10])
    sound(items)
    assert end(items).status in (Status.PARTIAL, Status.DAMAGED)
    assert end(items).reason


def test_what_is_no_pdf_is_damaged_with_a_reason() -> None:
    assert end(read("a.pdf", b"")).reason == "the file is empty"
    assert end(read("a.pdf", b"nothing of the kind")).status == Status.DAMAGED
    assert end(read("a.pdf", b"%PDF-1.7\n garbage")).status == Status.DAMAGED


def test_a_long_page_is_cut_and_says_so() -> None:
    items = read("a.pdf", data(pdf(line("word " * 100))), Limits(page_chars=100))
    assert len(pages(items)[0].text) == 100
    assert pages(items)[0].flags == (Flag.CUT,)
    assert end(items).reason == "page 1 longer than the limit of a page and cut"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pdf/sf_libreoffice-form.pdf", "First Name: Alice"),
        ("pdf/sf_annotated_pdf.pdf", "This is a text annotation."),
        ("pdf/sf_habibi.pdf", "حَبيبي habibi حَبيبي"),
        ("pdf/qp_bad-xref.pdf", "Potato"),
        ("made/pdf_truncated_60pct.pdf", "Sheet 20 of the ledger"),
    ],
)
def test_real_files_give_what_people_see(shared_data: Path, name: str, found: str) -> None:
    items = read(name, (shared_data / "ingest" / name).read_bytes())
    sound(items)
    assert found in text(items)


def test_a_false_page_count_is_not_believed(shared_data: Path) -> None:
    items = read("a.pdf", (shared_data / "ingest/made/pdf_count_lie.pdf").read_bytes())
    assert len(pages(items)) == 1
    assert end(items).reason == "claims 1,000,000 pages, has 1"


def test_labels_are_kept_where_they_differ(shared_data: Path) -> None:
    found = pages(read("a.pdf", (shared_data / "ingest/made/pdf_labels_mixed.pdf").read_bytes()))
    assert [page.label for page in found] == ["i", "ii", "iii", "Plate", "1", "2", "3", "App-A"]


def test_a_text_layer_of_nonsense_is_flagged(shared_data: Path) -> None:
    content = (shared_data / "ingest/made/pdf_no_tounicode_glyphnames.pdf").read_bytes()
    items = read("a.pdf", content, Limits(ocr="off"))
    assert pages(items)[0].flags == (Flag.GARBLED,)
    assert end(items).reason == "page 1 with a text layer that decodes to nonsense"


def test_the_text_layer_of_a_scan_is_not_hidden(shared_data: Path) -> None:
    found = pages(read("a.pdf", (shared_data / "ingest/pdf/pp_Seige_of_Vicksburg_Sample_OCR.pdf").read_bytes()))
    assert "THE SIEGE OF VICKSBURG" in found[0].text
    assert Flag.HIDDEN not in found[0].flags


def test_half_a_pair_in_title_and_label_is_replaced() -> None:
    broken = "<feff0041d8000042>"  # a high surrogate that stands alone, found by fuzzing
    data = (
        b"%PDF-1.4\n"
        + (
            f"1 0 obj<</Type/Catalog/Pages 2 0 R/PageLabels<</Nums[0<</P{broken}>>]>>/Outlines 6 0 R>>endobj\n"
            "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
            "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R"
            "/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
            "4 0 obj<</Length 42>>stream\nBT /F 12 Tf 20 200 Td (The mill burned) Tj ET\nendstream endobj\n"
            f"5 0 obj<</Title{broken}/Author{broken}>>endobj\n"
            "6 0 obj<</Type/Outlines/First 7 0 R/Last 7 0 R/Count 1>>endobj\n"
            f"7 0 obj<</Title{broken}/Parent 6 0 R/Dest[3 0 R/Fit]>>endobj\n"
            "trailer<</Root 1 0 R/Info 5 0 R>>\n%%EOF"
        ).encode()
    )
    items = read("a.pdf", data)
    sound(items)
    assert "burned" in pages(items)[0].text
    assert opened(items)[0].title.startswith("A")
    assert pages(items)[0].label.startswith("A")
