"""What `doctor` says of recognition."""

import pytest

from unabridged.app import ocr_found
from unabridged.app.settings import IngestSettings, Settings
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr import tesseract as ocr_tesseract


@pytest.fixture
def tesseract(monkeypatch: pytest.MonkeyPatch) -> None:
    """tesseract with English and German."""
    monkeypatch.setattr(ocr, "installed", lambda: ("tesseract",))
    monkeypatch.setattr(ocr_tesseract, "version", lambda: "tesseract 5.3.0")
    monkeypatch.setattr(ocr_tesseract, "_installed", lambda: ("deu", "eng", "osd"))


def _settings(**changed: object) -> Settings:
    return Settings(ingest=IngestSettings(**changed))  # type: ignore[arg-type]


def test_without_an_engine_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: ())
    finding = ocr_found.look(_settings())
    assert finding.level == "warn"
    assert finding.remedy.startswith("install Debian's tesseract-ocr or unabridged[ocr]")


def test_an_engine_is_named_with_its_languages(tesseract: None) -> None:
    finding = ocr_found.look(_settings())
    assert (finding.level, finding.text) == ("ok", "tesseract 5.3.0: deu, eng")


def test_a_language_that_is_not_there_fails(tesseract: None) -> None:
    finding = ocr_found.look(_settings(ocr_languages=("rus",)))
    assert finding.level == "fail"
    assert finding.text.startswith("tesseract has no language 'rus'")


def test_languages_that_are_passed_over_are_named(tesseract: None, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ces", "deu", "ell", "eng", "fra", "heb", "rus")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setattr(ocr_tesseract, "_installed", lambda: names)
    finding = ocr_found.look(_settings())
    assert finding.level == "warn"
    assert finding.text.startswith("tesseract 5.3.0: eng; not used")
    assert finding.text.endswith(": ces, deu, ell, fra, heb, rus")
    assert finding.remedy == "choose: unabridged config set ingest.ocr_languages eng,ces"
    assert ocr_found.look(_settings(ocr_languages=("deu", "eng"))).level == "ok"


def test_after_scans_were_read_the_languages_passed_over_are_named_once(
    tesseract: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ocr_found.languages_note(IngestSettings()) == ""
    names = ("ces", "deu", "ell", "eng", "fra", "heb", "rus")
    monkeypatch.setattr(ocr_tesseract, "_installed", lambda: names)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert ocr_found.languages_note(IngestSettings()) == (
        "scans were read as deu and eng, not as ces, ell, fra, heb, rus, which are installed too; choose: unabridged"
        " config set ingest.ocr_languages deu,eng,ces, then `unabridged add --force`"
    )
    assert ocr_found.languages_note(IngestSettings(ocr_languages=("eng",))) == ""
    assert ocr_found.languages_note(IngestSettings(ocr_languages=("xxx",))) == ""


def test_off_is_said() -> None:
    assert ocr_found.look(_settings(ocr="off")).text == "off: scans and pictures are listed, not read"
