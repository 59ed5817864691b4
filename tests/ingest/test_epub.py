"""Books: the order of the spine, chapters as labels."""

from tests.ingest.made import end, opened, pages, read
from tests.ingest.office import zipped

from unabridged.ingest.document import Kind, Status

CONTAINER = '<container><rootfiles><rootfile full-path="OPS/b.opf"/></rootfiles></container>'
LIST = (
    '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
    "<dc:title>Wells</dc:title><dc:creator>Ann</dc:creator><dc:creator>Bo</dc:creator></metadata>"
    '<manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="x/xml"/>'
    '<item id="c1" href="t/one%20a.xhtml" media-type="application/xhtml+xml"/>'
    '<item id="c2" href="t/two.xhtml" media-type="application/xhtml+xml"/></manifest>'
    '<spine><itemref idref="c2"/><itemref idref="c1"/><itemref idref="gone"/></spine></package>'
)
NAV = '<html><nav><a href="t/two.xhtml#x">Digging</a><a href="t/two.xhtml#y">Deeper</a></nav></html>'
FILES = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OPS/b.opf": LIST,
    "OPS/nav.xhtml": NAV,
    "OPS/t/one a.xhtml": "<html><head><title>Chapter 1</title></head><body><p>First&nbsp;words</p></body></html>",
    "OPS/t/two.xhtml": '<html><body><p>Second words</p><p style="display:none">unseen</p></body></html>',
}


def test_chapters_come_in_the_order_of_the_spine() -> None:
    items = read("a.epub", zipped(FILES))
    book = opened(items)[0]
    assert (book.kind, book.title, book.meta["author"]) == (Kind.BOOK, "Wells", "Ann, Bo")
    assert [(page.label, page.text) for page in pages(items)] == [
        ("chapter Digging", "Second words\n\nunseen"),
        ("Chapter 1", "First words"),
    ]


def test_a_missing_chapter_and_a_lost_list_are_said() -> None:
    lost = {name: content for name, content in FILES.items() if "two" not in name}
    assert "chapter OPS/t/two.xhtml is missing" in end(read("a.epub", zipped(lost))).reason
    items = read("a.epub", zipped({**FILES, "OPS/b.opf": "<package>"}))
    assert {page.text.split("\n")[0] for page in pages(items)} >= {"First words", "Second words"}
    assert end(items).status == Status.PARTIAL


def test_a_book_that_is_sealed_by_its_seller_says_so() -> None:
    reference = "<CipherReference URI='OPS/t/{}'/>".format
    paths = reference("two.xhtml") + reference("one%20a.xhtml")
    locks = f"<encryption><EncryptionMethod Algorithm='aes'/>{paths}</encryption>"
    items = read("a.epub", zipped({**FILES, "META-INF/encryption.xml": locks}))
    assert (end(items).status, "DRM" in end(items).reason) == (Status.UNSUPPORTED, True)
