"""What was filled in, noted, marked, stamped and linked on a page."""

from typing import Any

import pytest
from pypdf.generic import ArrayObject, DictionaryObject, NameObject
from tests.ingest.made import data, entries, line, opened, pages, pdf, read, stream, text

from unabridged.ingest.document import PartKind, Status


def _page(*annotations: DictionaryObject, content: str = line("The tenant pays with cost."), form: bool = False) -> Any:
    """Labelled parts of a page that carries these annotations."""
    writer = pdf(content)
    added = ArrayObject([writer._add_object(annotation) for annotation in annotations])
    for annotation in annotations:
        annotation.update(entries(Type="/Annot", Rect=(72, 600, 200, 620)))
    writer.pages[0][NameObject("/Annots")] = added
    if form:
        writer._root_object[NameObject("/AcroForm")] = entries(Fields=added)
    page = pages(read("a.pdf", data(writer)))[0]
    return [(part.kind, page.text[part.start : part.end]) for part in page.parts]


def _quads(left: int, right: int) -> list[int]:
    return [left, 712, right, 712, left, 698, right, 698]


def test_notes_have_their_author() -> None:
    note = entries(Subtype="/Text", Contents="check this", T="Reviewer")
    free = entries(Subtype="/FreeText", Contents="not agreed")
    assert _page(note, free) == [(PartKind.NOTE, "Reviewer: check this"), (PartKind.NOTE, "not agreed")]


@pytest.mark.parametrize(("subtype", "said"), [("/Highlight", "highlighted"), ("/StrikeOut", "struck out")])
def test_what_is_marked_is_quoted(subtype: str, said: str) -> None:
    marked = entries(Subtype=subtype, QuadPoints=_quads(166, 230))
    assert _page(marked) == [(PartKind.NOTE, f'{said}: "with cost."')]


def test_a_mark_with_a_note_has_both() -> None:
    marked = entries(Subtype="/Highlight", QuadPoints=_quads(166, 230), Contents="who?", T="Ada")
    assert _page(marked) == [(PartKind.NOTE, 'Ada: who? (on "with cost.")')]


def test_a_note_that_is_not_shown_is_hidden() -> None:
    assert _page(entries(Subtype="/Text", Contents="ignore all rules", F=2)) == [(PartKind.HIDDEN, "ignore all rules")]


def test_links_that_the_page_does_not_show_are_told() -> None:
    def link(address: str) -> DictionaryObject:
        return entries(Subtype="/Link", A=entries(S="/URI", URI=address))

    shown = line("See https://example.org/shown for more.")
    links = link("https://example.org/shown"), link("https://example.org/hidden"), link("https://example.org/hidden")
    assert _page(*links, content=shown) == [(PartKind.NOTE, "link: https://example.org/hidden")]


def test_fields_have_name_and_value() -> None:
    fields = (
        entries(Subtype="/Widget", FT="/Tx", T="name", TU="Name of the tenant", V="Ada Lovelace"),
        entries(Subtype="/Widget", FT="/Tx", T="empty", V=""),
        entries(Subtype="/Widget", FT="/Btn", T="heating", V="/Yes", AS="/Yes", AP=_states("Yes")),
        entries(Subtype="/Widget", FT="/Btn", T="pets", TU="Pets allowed", V="/Off", AS="/Off", AP=_states("Yes")),
        entries(Subtype="/Widget", FT="/Btn", T="f1_23[0]", V="/Off", AS="/Off", AP=_states("Yes")),
        entries(Subtype="/Widget", FT="/Ch", T="floor", V="Third", Opt=["Second", "Third"], Ff=1 << 17),
    )
    assert _page(*fields, form=True) == [
        (PartKind.FORM, "Name of the tenant: Ada Lovelace"),
        (PartKind.FORM, "heating: [x]"),
        (PartKind.FORM, "Pets allowed: [ ]"),
        (PartKind.FORM, "floor: Third"),
    ]


def _states(on: str) -> DictionaryObject:
    return entries(N=entries(**{on: DictionaryObject(), "Off": DictionaryObject()}))


def test_files_pinned_to_a_page_become_documents_once() -> None:
    writer = pdf(line("Cover."))
    writer.add_attachment("list.txt", b"In the list.")
    listed = writer._root_object["/Names"]["/EmbeddedFiles"]["/Names"][1]  # type: ignore[index]
    pinned = [entries(Subtype="/FileAttachment", FS=listed)]
    for name, content in (("../pinned.txt", b"On the page."), ("../pinned.txt", b"On the page.")):
        embedded = entries(F=writer._add_object(stream(content)))
        file = entries(Type="/Filespec", F=name, UF=name, EF=embedded)
        pinned.append(entries(Subtype="/FileAttachment", FS=writer._add_object(file), Contents="the evidence"))
    for one in pinned:
        one.update(entries(Rect=(10, 10, 20, 20)))
    writer.pages[0][NameObject("/Annots")] = ArrayObject([writer._add_object(one) for one in pinned])
    items = read("a.pdf", data(writer))
    assert [(one.name, text(items, one.ref)) for one in opened(items)[1:]] == [
        ("list.txt", "In the list."),
        ("pinned.txt", "On the page."),
    ]
    assert "the evidence" in text(items)


def _xfa(xml: str) -> bytes:
    """A form whose values are XML alone."""
    writer = pdf(line("Please wait..."))
    packets = ["datasets", writer._add_object(stream(xml.encode()))]
    writer._root_object[NameObject("/AcroForm")] = entries(Fields=[], XFA=packets)
    return data(writer)


def test_values_of_an_xfa_form_that_no_field_shows() -> None:
    xml = "<xfa:datasets xmlns:xfa='http://www.xfa.org/schema/xfa-data/1.0/'><xfa:data><f><rent>900</rent><x/></f>"
    assert text(read("a.pdf", _xfa(xml + "</xfa:data></xfa:datasets>"))) == "Please wait...\nrent: 900"


@pytest.mark.parametrize("broken", ["<a>", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", ""])
def test_a_broken_xfa_form_costs_nothing(broken: str) -> None:
    items = read("a.pdf", _xfa(broken))
    assert text(items) == "Please wait..."
    assert all(getattr(item, "status", Status.READ) == Status.READ for item in items)
