"""Pages without a usable text layer, and pictures, with what recognition finds in them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.made import data, end, line, pages, pdf, read, sound, text
from tests.ingest.scans import LINES, drawn, png, scanned, turned

from unabridged.ingest.document import Flag, PartKind, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr.image import Gray
from unabridged.ingest.ocr.recognise import Recognised
from unabridged.ingest.worker import read_file

Finds = Callable[..., list[Gray]]
AUTO = Limits()
ENGLISH = Limits(ocr_languages=("eng",))
needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Finds:
    """Lets recognition find something; the images that it was shown."""
    shown: list[Gray] = []

    def set_up(found: str, confidence: float = 0.9, **more: object) -> list[Gray]:
        def recognise(image: Gray, limits: Limits) -> Recognised:
            shown.append(image)
            return Recognised(found, confidence, "engine 1", **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ocr, "installed", lambda: ("engine",))
        monkeypatch.setattr(ocr, "recognise", recognise)
        return shown

    return set_up


def test_a_scan_is_a_page_of_what_was_recognised(finds: Finds) -> None:
    shown = finds("Found words.", 0.87)
    items = read("a.pdf", scanned(drawn(dpi=50), dpi=50), AUTO)
    page = pages(items)[0]
    assert (page.text, page.flags, page.score, page.extractor) == ("Found words.", (Flag.OCR,), 0.87, "engine 1")
    assert (page.parts, end(items).status) == ((), Status.READ)
    assert (shown[0].width, shown[0].dpi) == (2550, 300)


def test_a_stamp_on_a_scan_is_kept_and_said_once(finds: Finds) -> None:
    finds("Page 7 of 9\nFound words.")
    page = pages(read("a.pdf", scanned(drawn(dpi=50), text=line("Page 7 of 9"), dpi=50), AUTO))[0]
    assert page.text == "Page 7 of 9\nFound words."
    assert [(part.kind, page.text[part.start : part.end]) for part in page.parts] == [(PartKind.OCR, "Found words.")]


def test_pages_with_text_are_recognised_if_all_are_wanted(finds: Finds) -> None:
    finds("The text layer says this much at least.\nWords in the picture.")
    mixed = scanned(drawn(dpi=50), text=line("The text layer says this much at least."), dpi=50)
    assert pages(read("a.pdf", mixed, AUTO))[0].flags == ()
    page = pages(read("a.pdf", mixed, Limits(ocr="all")))[0]
    assert page.text == "The text layer says this much at least.\nWords in the picture."
    assert (page.flags, page.parts[0].kind) == ((Flag.OCR,), PartKind.OCR)


def test_nonsense_gives_way_to_what_is_recognised(finds: Finds) -> None:
    finds("Found words.")
    items = read("a.pdf", data(pdf(line("/g12/g33/g45/g7/g81/g20"))), AUTO)
    assert (text(items), pages(items)[0].flags, end(items).status) == ("Found words.", (Flag.OCR,), Status.READ)


def test_doubt_is_reported(finds: Finds) -> None:
    finds("Fcvnd vvrds", 0.4, doubtful=True)
    items = read("a.pdf", scanned(drawn(dpi=50), dpi=50), AUTO)
    assert (end(items).status, end(items).reason) == (Status.PARTIAL, "page 1 recognised with doubt")


def test_an_image_without_text_is_no_read_page(finds: Finds) -> None:
    finds("", 0.0, failure="no text was found in the image")
    items = read("a.pdf", scanned(drawn(dpi=50), dpi=50), AUTO)
    assert pages(items)[0].flags == (Flag.SCANNED,)
    assert end(items).status == Status.NO_TEXT
    assert "page 1 not recognised: no text was found in the image" in end(items).reason


def test_a_blank_scan_is_an_empty_page(finds: Finds) -> None:
    finds("", 0.0)
    items = read("a.pdf", scanned(drawn(dpi=50), drawn((), dpi=50), dpi=50), AUTO)
    assert pages(items)[1].flags == (Flag.EMPTY,)


def test_pages_with_a_text_layer_are_not_looked_at(finds: Finds) -> None:
    shown = finds("Found words.")
    read("a.pdf", data(pdf(line("A page of text."), "")), AUTO)
    assert shown == []


def test_a_page_as_large_as_a_field_is_drawn_small(finds: Finds) -> None:
    shown = finds("Found words.")
    read("a.pdf", scanned(drawn(dpi=20), dpi=1), AUTO)
    assert 0 < shown[0].width * shown[0].height <= 25_100_000


@pytest.mark.thorough
@needs_tesseract
@pytest.mark.parametrize("degrees", [0.0, 4.0])
def test_a_real_scan_is_read_in_a_confined_process(tmp_path: Path, degrees: float) -> None:
    (tmp_path / "scan.pdf").write_bytes(scanned(turned(drawn(), degrees)))
    items = list(read_file(tmp_path / "scan.pdf", ENGLISH))
    sound(items)
    assert pages(items)[0].text.split() == " ".join(LINES).split()
    assert pages(items)[0].score > 0.8
    assert pages(items)[0].extractor.startswith("tesseract ")


@pytest.mark.thorough
@needs_tesseract
def test_a_real_picture_is_read(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "scan.png").write_bytes(png(drawn(dpi=100)))
    assert pages(list(read_file(tmp_path / "scan.png", ENGLISH)))[0].text.split() == " ".join(LINES).split()
