"""Presentations: a slide is a page, with what belongs to it."""

from tests.ingest.made import end, pages, read, sound
from tests.ingest.office import notes, pptx, relations, shape

from unabridged.ingest.document import Flag, PartKind, Status

OFF = '<a:xfrm><a:off x="1200" y="10"/><a:ext cx="100" cy="100"/></a:xfrm>'


def test_a_slide_has_its_title_first_its_notes_and_its_comments() -> None:
    slides = [
        shape("Costs fell\nby 12 percent", "body") + shape("Results", "title") + shape("1", "sldNum"),
        "",
        "hidden" + shape("Plan B"),
    ]
    files = {
        "ppt/slides/_rels/slide1.xml.rels": relations(notesSlide="../notesSlides/n.xml", comments="../comments/c.xml"),
        "ppt/notesSlides/n.xml": notes("Say that Brno is sold."),
        "ppt/comments/c.xml": "<cmLst><cm><text>is it?</text></cm></cmLst>",
    }
    items = read("a.pptx", pptx(slides, files))
    sound(items)
    first, second, third = pages(items)
    assert first.text == "# Results\n\nCosts fell\nby 12 percent\n\nNotes: Say that Brno is sold.\nComment: is it?"
    assert [page.label for page in (first, second, third)] == ["slide 1", "slide 2", "hidden slide 3"]
    assert second.flags == (Flag.EMPTY,)
    assert third.text == "Plan B\n\nSlide 3 is hidden in its presentation."
    assert end(items).status == Status.READ


def test_shapes_that_nobody_sees_are_kept_apart() -> None:
    items = read("a.pptx", pptx([shape("seen") + shape("off", place=OFF) + shape("gone", facts='hidden="1"')]))
    (page,) = pages(items)
    hidden = page.text[page.parts[0].start : page.parts[0].end]
    assert (page.parts[0].kind, page.text[:4]) == (PartKind.HIDDEN, "seen")
    assert hidden == "Not visible on the slide: off\nNot visible on the slide: gone"


def test_tables_groups_and_diagrams_are_read() -> None:
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>".format
    table = f"<p:graphicFrame><a:tbl><a:tr>{cell('Lot')}{cell('Price')}</a:tr></a:tbl></p:graphicFrame>"
    group = f"<p:grpSp><p:grpSp>{shape('deep', place=OFF)}</p:grpSp></p:grpSp>"
    diagram = "<dataModel><pt><t><p><r><t>Step one</t></r></p></t></pt></dataModel>"
    files = {"ppt/slides/_rels/slide1.xml.rels": relations(diagramData="../d.xml"), "ppt/d.xml": diagram}
    (page,) = pages(read("a.pptx", pptx([table + group], files)))
    assert page.text == "Lot\tPrice\n\ndeep\n\nStep one"


def test_a_missing_slide_is_a_page_and_a_reason() -> None:
    whole = pptx([shape("one"), shape("two")])
    items = read("a.pptx", whole.replace(b"slides/slide1.xml", b"slides/slideX.xml"))
    assert [page.text for page in pages(items)] == ["", "two"]
    assert (end(items).status, end(items).reason) == (Status.PARTIAL, "ppt/slides/slide1.xml is missing")
