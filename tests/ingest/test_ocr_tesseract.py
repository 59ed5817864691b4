"""The process that recognises: what it is asked, what its answer means, and how it fails. A stand-in plays it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr import tesseract as ocr_tesseract
from unabridged.ingest.ocr.image import Gray
from unabridged.ingest.ocr.recognise import OcrFailed

IMAGE = Gray(4, 2, bytes(8), 200)
HEAD = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n"
WORDS = (
    ((1, 1, 1, 1), 90, "Dear"),
    ((1, 1, 1, 1), 80, "Ada,"),
    ((1, 1, 1, 2), 95.5, "thank"),
    ((1, 2, 1, 1), 0, "x"),
)
TSV = HEAD + "".join(
    "\t".join(map(str, (5, *place, number, 0, 0, 9, 9, conf, word))) + "\n"
    for number, (place, conf, word) in enumerate(WORDS, 1)
)

StandIn = Callable[[str], Path]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """Puts a program named tesseract in front of the path that knows eng, deu and osd, and then does as it is told."""

    def put(does: str) -> Path:
        said = tmp_path / "said"
        program = f"""#!{sys.executable}
import sys, os, time, resource
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("tesseract 9.8.7\\n leptonica-1.82.0")
elif arguments == ["--list-langs"]:
    print("List of available languages in /usr/share (3):\\ndeu\\neng\\nosd\\nscript/Latin")
else:
    image = sys.stdin.buffer.read()
    open({str(said)!r}, "w").write(" ".join(arguments) + " " + repr(image))
    {does}
"""
        (tmp_path / "tesseract").write_text(program)
        (tmp_path / "tesseract").chmod(0o700)
        return said

    monkeypatch.setenv("PATH", str(tmp_path))
    for cached in (ocr.installed, ocr_tesseract.version, ocr_tesseract._installed):
        cached.cache_clear()
    yield put
    for cached in (ocr.installed, ocr_tesseract.version, ocr_tesseract._installed):
        cached.cache_clear()


def test_words_become_lines_and_paragraphs_with_one_confidence() -> None:
    text, confidence = ocr_tesseract.words(TSV)
    assert text == "Dear Ada,\nthank\n\nx"
    assert confidence == pytest.approx((4 * 90 + 4 * 80 + 5 * 95.5) / 14 / 100)


def test_an_image_goes_in_and_words_come_out(stand_in: StandIn) -> None:
    said = stand_in(f"sys.stdout.write({TSV!r})")
    found = ocr_tesseract.read(IMAGE, Limits())
    assert found.extractor == "tesseract 9.8.7 (deu+eng)"
    assert (found.text.split(), found.doubtful) == (["Dear", "Ada,", "thank", "x"], False)
    arguments = said.read_text()
    assert "-l deu+eng --psm 1 --dpi 200" in arguments
    assert repr(b"P5 4 2 255\n" + bytes(8)) in arguments


def test_chosen_languages_are_taken(stand_in: StandIn) -> None:
    stand_in("pass")
    assert ocr_tesseract.languages(["deu"]) == ("deu",)
    with pytest.raises(OcrFailed, match=r"no language 'rus': install it, or change ingest\.ocr_languages"):
        ocr_tesseract.languages(["deu", "rus"])


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({"LANG": "de_AT.UTF-8"}, ("deu", "eng")),
        ({"LANG": "de_DE.UTF-8", "LC_ALL": "C.UTF-8"}, ("eng",)),
        ({"LANG": "en_GB"}, ("eng",)),
        ({"LANG": "sv_SE.UTF-8"}, ("eng",)),
        ({"LANG": "zh_TW.UTF-8"}, ("chi_tra", "eng")),
        ({}, ("eng",)),
    ],
)
def test_of_many_languages_the_systems_and_english_are_taken(
    said: dict[str, str], read: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = ("ces", "chi_sim", "chi_tra", "deu", "ell", "eng", "fra", "osd")
    monkeypatch.setattr(ocr_tesseract, "_installed", lambda: many)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert ocr_tesseract.languages(()) == read
    assert ocr_tesseract.languages(("fra",)) == ("fra",)


def test_it_fails_in_one_line(stand_in: StandIn) -> None:
    stand_in("sys.exit('first\\nError in pixReadMem')")
    with pytest.raises(OcrFailed, match=r"^tesseract failed: Error in pixReadMem$"):
        ocr_tesseract.read(IMAGE, Limits())


def test_it_is_stopped_at_its_time(stand_in: StandIn) -> None:
    stand_in("time.sleep(60)")
    with pytest.raises(OcrFailed, match=r"takes more than 0\.1 seconds"):
        ocr_tesseract.read(IMAGE, Limits(ocr_seconds=0.1))


def test_it_may_use_no_more_processor_time_than_a_page_has(stand_in: StandIn) -> None:
    stand_in("sys.exit(str(resource.getrlimit(resource.RLIMIT_CPU)))")
    with pytest.raises(OcrFailed, match=r"\(31, 32\)"):
        ocr_tesseract.read(IMAGE, Limits(ocr_seconds=30))


def test_without_it_the_way_out_is_named(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert ocr.installed() == ()
    assert ocr.recognise(IMAGE, Limits()).failure == "install Debian's tesseract-ocr or unabridged[ocr]"
    assert ocr.recognise(IMAGE, Limits(ocr="off")).failure == "OCR is off: set ingest.ocr to auto"


def test_the_same_image_is_recognised_once(stand_in: StandIn) -> None:
    said = stand_in(f"sys.stdout.write({TSV!r})")
    image = Gray(4, 2, bytes(7) + b"\x01", 200)
    found = ocr.recognise(image, Limits())
    said.unlink()
    assert ocr.recognise(image, Limits()) is found
    assert not said.exists()
    assert ocr.recognise(image, Limits(ocr_languages=("deu",))).extractor == "tesseract 9.8.7 (deu)"


def test_a_picture_in_which_nothing_is_found_when_it_is_turned_is_read_as_it_lies(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(f"sys.stdout.write({TSV!r} if image.startswith(b'P5 4 2 ') else {HEAD!r})")
    turned = Gray(5, 3, bytes(15), 200)
    monkeypatch.setattr("unabridged.ingest.ocr.image.straightened", lambda image: turned)
    assert ocr.recognise(Gray(4, 2, bytes(7) + b"\x02", 200), Limits()).text.startswith("Dear Ada")
