"""What a reader of a page does not see is kept apart; what he does see never is."""

import pytest
from pypdf.generic import NameObject
from tests.ingest.made import data, entries, line, pages, pdf, read, stream

from unabridged.ingest.document import Flag, Page, PartKind

SEEN = "BT /F1 12 Tf 72 700 Td (Seen by all.) Tj ET\n"
TEXT = "BT /F1 12 Tf 72 500 Td (secret words) Tj ET\n"


Boxes = dict[str, tuple[int, ...]]


def _page(content: str, image: bytes = b"", boxes: Boxes | None = None) -> Page:
    """The first page of a document with this content, /Im an image of gray pixels, /Fm a form with the content TEXT."""
    writer = pdf(content)
    page = writer.pages[0]
    page.update(entries(**(boxes or {})))
    form = stream(b"1 1 1 rg " + TEXT.encode(), Type="/XObject", Subtype="/Form", BBox=(0, 0, 612, 792))
    form.update(entries(Resources=page["/Resources"]))
    picture = stream(image, Type="/XObject", Subtype="/Image", Width=8, Height=8)
    picture.update(entries(ColorSpace="/DeviceGray", BitsPerComponent=8))
    layer = writer._add_object(entries(Type="/OCG", Name="Off"))
    objects = entries(Fm=writer._add_object(form), Im=writer._add_object(picture))
    page["/Resources"].update(entries(XObject=objects, Properties=entries(Layer=layer)))  # type: ignore[attr-defined]
    layers = entries(OCGs=[layer], D=entries(OFF=[layer], Order=[layer]))
    writer._root_object[NameObject("/OCProperties")] = layers
    return pages(read("a.pdf", data(writer)))[0]


def _hidden(page: Page) -> list[str]:
    return [page.text[part.start : part.end] for part in page.parts if part.kind == PartKind.HIDDEN]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("3 Tr " + TEXT, id="drawn invisibly"),
        pytest.param("7 Tr " + TEXT, id="drawn as a clip"),
        pytest.param("1 1 1 rg " + TEXT, id="white"),
        pytest.param("0.99 0.98 1 rg " + TEXT, id="nearly white"),
        pytest.param("0 0 0.4 rg 60 480 400 40 re f " + TEXT.replace("BT", "BT 0 0 0.4 rg"), id="blue on blue"),
        pytest.param("1 1 1 rg 60 480 400 40 re f " + TEXT, id="white on a white box"),
        pytest.param(TEXT + "0 g 60 480 400 40 re f", id="below a black box"),
        pytest.param(TEXT + "1 g 60 480 400 40 re f", id="below a white box"),
        pytest.param(TEXT + "q 400 0 0 40 60 480 cm /Im Do Q", id="below an image"),
        pytest.param("q 0 0 50 50 re W n " + TEXT + " Q", id="clipped away"),
        pytest.param("/OC /Layer BDC " + TEXT + " EMC", id="in a layer that is off"),
        pytest.param("q 400 0 0 40 60 480 cm /Im Do Q 3 Tr " + TEXT, id="invisible over an even image"),
        pytest.param(TEXT.replace("12 Tf 72 500 Td", "12 Tf 0.02 0 0 0.02 72 500 Tm"), id="tiny by its matrix"),
        pytest.param(TEXT.replace("72 500", "72 5000"), id="above the page"),
        pytest.param("/Fm Do", id="white in a form"),
        pytest.param("q 0.5 0 0 0.5 100 100 cm /Fm Do Q", id="white in a form that is moved"),
    ],
)
def test_hidden_text_is_kept_apart(content: str) -> None:
    page = _page(SEEN + content, image=b"\xee" * 64)
    assert _hidden(page) == ["secret words"]
    assert page.text.startswith("Seen by all.\n")
    assert Flag.HIDDEN in page.flags


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("0 0 0.4 rg 60 480 400 40 re f 1 1 1 rg " + TEXT, id="white on blue"),
        pytest.param("q 400 0 0 40 60 480 cm /Im Do Q 1 1 1 rg " + TEXT, id="white on a picture"),
        pytest.param("0 0 0.4 rg 60 480 400 40 re f /Fm Do", id="white in a form on blue"),
        pytest.param("0.9 g 60 480 400 40 re f 0 g " + TEXT, id="black on gray"),
        pytest.param(TEXT + "0 g 60 540 400 40 re f", id="below no box"),
        pytest.param(TEXT + "60 480 400 40 re S", id="in a frame"),
        pytest.param("q 0 0 612 792 re W n " + TEXT + " Q", id="clipped to the page"),
        pytest.param("0.6 g " + TEXT, id="gray"),
        pytest.param("1 1 0 rg 60 480 400 40 re f 1 0 0 rg " + TEXT, id="red on yellow"),
        pytest.param("BT /F1 12 Tf 2 Tr 72 500 Td (secret words) Tj ET", id="filled and stroked"),
        pytest.param("q 400 0 0 40 60 480 cm /Im Do Q 3 Tr " + TEXT, id="invisible over its picture"),
        pytest.param(TEXT + "q 600 0 0 600 0 0 cm /Im Do Q", id="below the scan of a page"),
    ],
)
def test_text_that_is_seen_is_not_hidden(content: str) -> None:
    page = _page(SEEN + content, image=bytes(37 * n % 256 for n in range(64)))
    assert "secret words" in page.text
    assert _hidden(page) == []


def test_only_what_lies_off_the_page_is_taken_out() -> None:
    page = _page(SEEN + TEXT.replace("72 500", "580 500"))
    assert page.text == "Seen by all.\nsecret words"
    assert _hidden(page) == []
    page = _page(SEEN + TEXT, boxes={"CropBox": (0, 600, 612, 792)})
    assert _hidden(page) == ["secret words"]


def test_a_page_of_any_size_is_looked_at_in_bounds() -> None:
    page = _page(SEEN + "1 1 1 rg " + TEXT, boxes={"MediaBox": (0, 0, 2_000_000, 2_000_000)})
    assert _hidden(page) == ["secret words"]


def test_turned_pages_hide_no_less() -> None:
    writer = pdf(SEEN + "1 1 1 rg " + TEXT)
    writer.pages[0].rotate(270)
    assert _hidden(pages(read("a.pdf", data(writer)))[0]) == ["secret words"]


def test_order_and_hidden_text_do_not_disturb_each_other() -> None:
    rows = "".join(line(f"row {n} of what is seen", 690 - 14 * n) for n in range(12))
    page = _page(rows.replace("row 5 of", "row 5 ) Tj 3 Tr (secret words) Tj 0 Tr ( of"))
    assert page.text.splitlines()[:5] == [f"row {n} of what is seen" for n in range(5)]
    assert _hidden(page) == ["secret words"]


def test_a_pattern_that_takes_hours_to_draw_is_not_drawn() -> None:
    writer = pdf("1 g " + TEXT + "0 0 0.4 rg 60 680 400 40 re f 1 g " + SEEN + "/Pattern cs /P scn 0 0 612 90 re f")
    numbers = {"PatternType": 1, "PaintType": 1, "TilingType": 1, "XStep": 0.001, "YStep": 0.001}
    pattern = writer._add_object(stream(b"0 0 1 rg 0 0 1 1 re f", **numbers, BBox=(0, 0, 1, 1)))
    writer.pages[0]["/Resources"].update(entries(Pattern=entries(P=pattern)))  # type: ignore[attr-defined]
    page = pages(read("a.pdf", data(writer)))[0]
    assert _hidden(page) == ["secret words"]
    assert page.text.startswith("Seen by all.")
