"""Pages that nothing has recognised are read again when something can."""

from pathlib import Path

import pytest
from tests.ingest.conftest import Adder

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import recognise as ocr


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """An image file whose pixels nobody looks at here."""
    (tmp_path / "scan.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"no picture")
    return tmp_path / "scan.png"


def test_a_scan_is_read_again_when_recognition_comes(
    added: Adder, scan: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    off = Limits(ocr="off")
    done = added(scan, limits=off)["scan.png"]
    assert (done.status, done.reason) == ("no_text", "not recognised: OCR is off: set ingest.ocr to auto")
    monkeypatch.setattr(ocr, "installed", lambda: ())
    added(scan)
    assert reads == ["scan.png"]
    monkeypatch.setattr(ocr, "installed", lambda: ("tesseract",))
    added(scan, limits=off)
    assert reads == ["scan.png"]
    added(scan)
    assert reads == ["scan.png"] * 2
