"""Word documents: what stands where, what is kept apart, and what hostile ones cost."""

import zipfile

from tests.ingest.made import end, opened, pages, read, sound, text
from tests.ingest.office import docx, p, r, zipped

from unabridged.ingest.document import Flag, Item, Kind, PartKind, Status
from unabridged.ingest.limits import Limits

STYLES = (
    '<w:style w:styleId="H1"><w:name w:val="heading 1"/>'
    '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="H2"><w:name w:val="Clause"/><w:basedOn w:val="H1"/>'
    '<w:pPr><w:outlineLvl w:val="1"/><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="Ghost"><w:name w:val="Ghost"/><w:rPr><w:vanish/></w:rPr></w:style>'
)
LISTS = (
    '<w:abstractNum w:abstractNumId="7">'
    '<w:lvl w:ilvl="0"><w:start w:val="4"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2"/></w:lvl>'
    '<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%3)"/></w:lvl>'
    '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
)


def _marked(items: list[Item], kind: PartKind) -> list[str]:
    return [page.text[part.start : part.end] for page in pages(items) for part in page.parts if part.kind == kind]


def test_clauses_are_numbered_as_word_numbers_them() -> None:
    third = '<w:numPr><w:ilvl w:val="2"/><w:numId w:val="1"/></w:numPr>'
    body = (
        p("Term", '<w:pStyle w:val="H1"/>')
        + p("Duration", '<w:pStyle w:val="H2"/>')
        + p("one", third)
        + p("two", third)
        + p("End", '<w:pStyle w:val="H2"/>')
        + p("again", third)
        + p("Rent", '<w:pStyle w:val="H1"/>')
    )
    items = read("a.docx", docx(body, styles=STYLES, numbering=LISTS))
    expected = "# 4. Term\n\n## 4.1 Duration\n\n    (a) one\n    (b) two\n\n## 4.2 End\n\n    (a) again\n\n# 5. Rent"
    assert text(items) == expected
    assert pages(items)[0].label == "section 4. Term"


def test_notes_stand_on_the_page_that_cites_them() -> None:
    cite = '<w:r><w:footnoteReference w:id="3"/></w:r><w:r><w:commentReference w:id="0"/></w:r>'
    body = (
        f"<w:p>{r('The well')}{cite}{r(' is deep.')}</w:p>"
        + '<w:p><w:r><w:br w:type="page"/></w:r></w:p>'
        + p("Second")
    )
    notes = f'<w:footnote w:id="3">{p("forty metres")}</w:footnote>'
    comments = f'<w:comment w:id="0" w:author="Ann" w:date="2026-03-01T10:00:00Z">{p("Check this")}</w:comment>'
    items = read("a.docx", docx(body, footnotes=notes, comments=comments, header=p("Draft 3")))
    first, second = pages(items)
    assert first.text.startswith("The well[^1] is deep.\n\n")
    assert "Page header: Draft 3" in first.text
    assert "[^1] forty metres" in first.text
    assert "Comment by Ann, 2026-03-01: Check this" in first.text
    assert second.text == "Second"
    assert {part.kind for part in first.parts} == {PartKind.NOTE}


def test_what_is_deleted_or_hidden_is_kept_apart_and_what_is_inserted_is_text() -> None:
    deleted = '<w:del w:author="Bo" w:date="2026-01-02T00:00:00Z"><w:r><w:delText>100</w:delText></w:r></w:del>'
    inserted = f'<w:ins w:author="Bo">{r("200")}</w:ins>'
    unseen = r(" not really", "<w:vanish/>") + r(" tiny", '<w:sz w:val="2"/>')
    body = (
        f"<w:p>{r('The rent is ')}{deleted}{inserted}{r(' euros')}{unseen}</w:p>"
        + p("ghost", '<w:pStyle w:val="Ghost"/>')
        + p("shown", "")
    )
    items = read("a.docx", docx(body, styles=STYLES))
    page = pages(items)[0]
    assert page.text.startswith("The rent is 200 euros\n\nshown")
    (hidden,) = _marked(items, PartKind.HIDDEN)
    assert hidden == "Deleted (Bo, 2026-01-02): 100\nHidden text: not really tiny\nHidden text: ghost"
    assert page.flags == (Flag.HIDDEN,)


def test_tables_are_rows_and_boxes_and_alternatives_are_read_once() -> None:
    rows = [[p("Lot"), p("Price")], [p("17") + p("18"), p("4 500")]]
    table = "".join(f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in cells)}</w:tr>" for cells in rows)
    box = f"<w:txbxContent>{p('boxed')}</w:txbxContent>"
    choice = f"<w:AlternateContent><w:Choice>{box}</w:Choice><w:Fallback>{box}</w:Fallback></w:AlternateContent>"
    items = read("a.docx", docx(f"<w:p><w:r>{choice}</w:r>{r('anchor')}</w:p><w:tbl>{table}</w:tbl>"))
    assert text(items) == "boxed\n\nanchor\n\nLot\tPrice\n17 18\t4 500"


def test_pages_are_those_that_word_laid_out() -> None:
    broken = f"<w:p>{r('end of one ')}<w:r><w:lastRenderedPageBreak/></w:r>{r('begin of two')}</w:p>"
    forced = (
        '<w:p><w:r><w:br w:type="page"/></w:r></w:p><w:p><w:r><w:lastRenderedPageBreak/></w:r>' + r("three") + "</w:p>"
    )
    items = read("a.docx", docx(p("word " * 1_800) + broken + forced))
    assert [(page.number, page.label) for page in pages(items)] == [(1, ""), (2, "1"), (3, "2"), (4, "3")]
    assert [page.text for page in pages(items)][2:] == ["begin of two", "three"]


def test_embedded_files_are_children_and_bogus_relations_are_passed_over() -> None:
    rels = (
        '<Relationship Id="r8" Type="x/footnotes" Target="../../../etc/passwd"/><Relationship Id="r9" Type="x/styles"/>'
    )
    inner = docx(p("inner text"))
    files: dict[str, str | bytes] = {
        "word/embeddings/report.docx": inner,
        "word/_rels/document.xml.rels": f"<Relationships>{rels}</Relationships>",
    }
    items = read("a.docx", docx(p("outer"), files))
    sound(items)
    assert [(one.name, one.parent) for one in opened(items)] == [("a.docx", None), ("report.docx", 0)]
    assert text(items, 1) == "inner text"
    assert end(items).status == Status.PARTIAL
    assert "etc/passwd is missing" in end(items).reason


def test_damaged_relations_are_said_once() -> None:
    items = read("a.docx", docx(p("kept"), {"word/_rels/document.xml.rels": "<Relationships><Rel"}))
    assert text(items) == "kept"
    assert end(items).reason == "word/_rels/document.xml.rels: damaged XML in line 1: unclosed token"


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    body = p("a" * 1_000) * 33_000
    items = read("a.docx", docx(body))
    assert end(items).status == Status.TOO_LARGE
    assert end(items).reason.startswith("word/document.xml unpacks to")


def test_entities_are_never_expanded() -> None:
    lol = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    items = read("a.docx", docx("", {"word/document.xml": lol + "<document><p><t>&b;</t></p></document>"}))
    assert end(items).status == Status.DAMAGED
    assert "declares entities" in end(items).reason


def test_nesting_without_end_is_refused() -> None:
    items = read("a.docx", docx("<w:tbl><w:tr><w:tc>" * 40_000))
    assert end(items).status == Status.DAMAGED
    assert "nested" in end(items).reason


def test_a_cut_document_gives_what_it_has() -> None:
    whole = docx("".join(p(f"Paragraph {n} of the lease: {n * 2654435761 % 2**32:x}") for n in range(1_000)))
    items = read("a.docx", whole[: len(whole) // 2])
    assert "Paragraph 7 of the lease:" in text(items)
    assert end(items).status == Status.PARTIAL
    assert "cut off" in end(items).reason


def test_damaged_xml_gives_what_stands_before_it() -> None:
    items = read("a.docx", docx(p("before") + "<w:p></w:broken>"))
    assert text(items) == "before"
    assert (end(items).status, end(items).reason.startswith("word/document.xml: damaged XML")) == (Status.PARTIAL, True)


def test_a_zip_of_a_document_is_an_archive_and_a_document_under_any_name_is_one() -> None:
    whole = docx(p("hello"))
    assert opened(read("a.bin", whole))[0].kind == Kind.WORD
    archived = read("a.docx", zipped({"word/notes.txt": "hello"}, zipfile.ZIP_STORED))
    assert [one.kind for one in opened(archived)] == [Kind.ARCHIVE, Kind.TEXT]


def test_a_document_longer_than_the_limit_says_what_was_left_out() -> None:
    items = read("a.docx", docx(p("word " * 300) * 20), Limits(document_chars=10_000))
    assert end(items).status == Status.PARTIAL
    assert "characters were not read" in end(items).reason
    assert 0 < sum(len(page.text) for page in pages(items)) <= 10_200
