"""Pages that nothing has recognised are read again when something can."""

import sqlite3
from pathlib import Path

import pytest
from tests.ingest.conftest import Adder

from unabridged.ingest.catalog import ocr_due
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


def test_what_tesseract_has_read_of_late_is_known() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE documents (id); CREATE TABLE pages (document_id, extractor)")
    assert ocr_due.last_document(connection) == 0
    connection.executemany("INSERT INTO documents VALUES (?)", [(1,), (2,)])
    connection.execute("INSERT INTO pages VALUES (1, 'pdfium 7000, tesseract 5.3.0 (eng)')")
    connection.execute("INSERT INTO pages VALUES (2, 'pdfium 7000')")
    assert ocr_due.last_document(connection) == 2
    assert ocr_due.recognised_since(connection, 0)
    assert not ocr_due.recognised_since(connection, 1)
