"""Image files: their pictures, what is wrong with them, and what stands in the way."""

import zlib

import numpy as np
import pytest
from tests.ingest.made import end, opened, pages, read, sound
from tests.ingest.scans import drawn, png

from unabridged.ingest.document import Flag, Kind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr.image import Gray
from unabridged.ingest.ocr.recognise import Recognised

Image = pytest.importorskip("PIL.Image")
AUTO = Limits()
PAGE = drawn(dpi=60)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Gray]:
    """The images that recognition is shown; it finds a word with their number."""
    images: list[Gray] = []

    def recognise(image: Gray, limits: Limits) -> Recognised:
        images.append(image)
        return Recognised(f"word {len(images)}", 0.9, "engine 1")

    monkeypatch.setattr(ocr, "installed", lambda: ("engine",))
    monkeypatch.setattr(ocr, "recognise", recognise)
    return images


def _dark(image: Gray) -> float:
    """Share of the image that is ink."""
    return float(np.mean(image.array() < 128))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF"])
def test_the_usual_formats_are_read(kind: str, shown: list[Gray]) -> None:
    items = read("scan.pdf", png(PAGE, format=kind), AUTO)
    sound(items)
    assert (opened(items)[0].kind, end(items).status) == (Kind.IMAGE, Status.READ)
    assert opened(items)[0].meta["pixels"] == f"{PAGE.shape[1]} x {PAGE.shape[0]}"
    assert (pages(items)[0].text, pages(items)[0].flags) == ("word 1", (Flag.OCR,))
    assert _dark(shown[0]) == pytest.approx(float(np.mean(PAGE < 128)), rel=0.2)


def test_small_print_is_enlarged(shown: list[Gray]) -> None:
    read("a.png", png(PAGE), AUTO)
    assert (shown[0].width, shown[0].height) == (2 * PAGE.shape[1], 2 * PAGE.shape[0])


def test_each_picture_of_a_tiff_file_is_a_page(shown: list[Gray]) -> None:
    more = [Image.fromarray(PAGE), Image.fromarray(PAGE)]
    items = read("fax.tif", png(PAGE, format="TIFF", save_all=True, append_images=more, dpi=(300, 300)), AUTO)
    assert [(page.number, page.text) for page in pages(items)] == [(1, "word 1"), (2, "word 2"), (3, "word 3")]
    assert shown[0].dpi == 300


def test_an_animation_is_its_first_picture(shown: list[Gray]) -> None:
    more = [Image.fromarray(255 - PAGE)]
    assert len(pages(read("a.gif", png(PAGE, format="GIF", save_all=True, append_images=more), AUTO))) == 1


def test_a_picture_is_turned_as_its_camera_says(shown: list[Gray]) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x0132] = 6, "2026:03:03 09:15:00"
    items = read("a.jpg", png(PAGE, format="JPEG", exif=exif), AUTO)
    assert (shown[0].width, shown[0].height) == (2 * PAGE.shape[0], 2 * PAGE.shape[1])
    assert opened(items)[0].meta["created"] == "2026-03-03T09:15:00"


def test_what_is_transparent_is_white(shown: list[Gray]) -> None:
    ink = np.zeros((*PAGE.shape, 4), np.uint8)
    ink[..., 3] = 255 - PAGE
    read("a.png", png(ink), AUTO)
    assert _dark(shown[0]) < 0.2


def test_sixteen_bits_are_read_as_eight(shown: list[Gray]) -> None:
    read("a.png", png(PAGE.astype(np.uint16) * 16), AUTO)
    assert _dark(shown[0]) == pytest.approx(float(np.mean(PAGE < 128)), rel=0.2)


def test_the_upper_part_of_a_cut_picture_is_read(shown: list[Gray]) -> None:
    whole = png(PAGE, format="JPEG")
    items = read("a.jpg", whole[: len(whole) * 2 // 3], AUTO)
    assert pages(items)[0].text == "word 1"
    assert (end(items).status, end(items).reason) == (Status.PARTIAL, "its end is missing")


@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0 no", b"GIF89a", b"II*\x00\x08\x00\x00\x00"]
)
def test_a_damaged_picture_has_a_reason(content: bytes, shown: list[Gray]) -> None:
    items = read("a.png", content, AUTO)
    sound(items)
    assert end(items).status in (Status.DAMAGED, Status.NO_TEXT)
    assert "damaged" in end(items).reason
    assert shown == []


def test_a_picture_of_too_many_pixels_is_not_unpacked(shown: list[Gray]) -> None:
    header = b"IHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"
    lie = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0d" + header + zlib.crc32(header).to_bytes(4, "big") + png(PAGE)[33:]
    reason = "not recognised: 60,000 x 60,000 pixels are more than are unpacked"
    assert end(read("a.png", lie, AUTO)).reason == reason
    assert shown == []


def test_an_icon_is_not_looked_at(shown: list[Gray]) -> None:
    assert end(read("a.png", png(PAGE[:20, :20]), AUTO)).status == Status.NO_TEXT
    assert shown == []


def test_without_recognition_a_picture_is_a_page_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: ())
    items = read("a.png", png(PAGE), AUTO)
    assert pages(items)[0].flags == (Flag.SCANNED,)
    assert end(items).status == Status.NO_TEXT
    assert end(items).reason == "not recognised: install Debian's tesseract-ocr or unabridged[ocr]"
