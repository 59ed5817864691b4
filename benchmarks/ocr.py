"""What recognition gets right, and what it costs: tesseract and RapidOCR on the same images, one run.

    python -m benchmarks.ocr data/manuals --fonts /usr/share/fonts/truetype     # tesseract and unabridged[ocr]

Pages of the manuals are drawn from their PDFs at three resolutions, clean and messy (turned by 1.2 degrees, blurred,
with noise), and compared with their text layer; passages in other languages are set in the fonts that are there.
Errors are characters (Levenshtein, in order) and words (as a bag) missed, both as shares of what stands there.
Processor seconds count the engine and its children.
"""

import argparse
import json
import os
import re
import resource
import statistics
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from unabridged.ingest.limits import Limits
from unabridged.ingest.ocr import rapid as ocr_rapid
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr import tesseract as ocr_tesseract
from unabridged.ingest.ocr.image import Gray, straightened

PAGES = (
    ("cite__cite.pdf", 2),
    ("rcs__rcs-user.pdf", 1),
    ("ntgclass__briefdoc.pdf", 2),
)
PASSAGES = {
    "deu": "Die Gesellschafter beschließen, daß der Geschäftsführer über Erträge jährlich Rechenschaft ablegt. Größere "
    "Ausgaben (über 5.000 €) bedürfen der Zustimmung; § 7 bleibt unberührt. Maßgeblich ist die Fassung vom März 2026.",
    "fra": "Le bailleur s'engage à remettre les clés à l'acquéreur dès l'encaissement du dépôt. Où qu'il réside, le "
    "preneur règle la moitié des frais d'huissier ; à défaut, l'échéance est reportée au 1er août. Ça reste à voir.",
    "ces": "Příloha číslo tři obsahuje přehled plateb za září. Dodavatel zaúčtoval žluťoučkého koně, ačkoli úřad "
    "nesouhlasil. Rozhodčí řízení proběhne v Ostravě dne 14. října, nedohodnou-li se účastníci jinak.",
    "ell": "Ο εντολέας δηλώνει ότι παρέλαβε τα έγγραφα της συμφωνίας. Η προθεσμία λήγει στις 12 Απριλίου και η αμοιβή "
    "καταβάλλεται σε δύο δόσεις, εκτός αν οι συμβαλλόμενοι ορίσουν διαφορετικά.",
    "rus": "Собрание перенесено на двенадцатое апреля. Арендатор обязуется оплатить счёт в течение десяти дней, если "
    "стороны не договорятся об ином. Подъезд к объекту закрыт, ключи хранятся у директора.",
    "chi_sim": "合同金额为四千二百元，乙方应于四月十二日之前支付。双方同意，如有争议，提交北京仲裁委员会仲裁。"
    "本合同一式两份，自签字之日起生效。",
    "jpn": "会議は四月十二日に開かれます。契約書の第三条により、借主は毎月末日までに家賃を支払わなければなりません。"
    "カタカナとひらがなも読めること。",
}
FONTS = {"chi_sim": "wqy/wqy-microhei.ttc", "jpn": "wqy/wqy-microhei.ttc"}
FONT = "dejavu/DejaVuSerif.ttf"
WIDE = frozenset({"chi_sim", "jpn"})
ENGINES = {"tesseract": ocr_tesseract.read, "rapidocr": ocr_rapid.read}


@dataclass
class Sample:
    """An image with what stands on it."""

    kind: str
    language: str
    image: Gray
    text: str


def folded(text: str) -> str:
    """White space made one, compatible forms alike."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text.replace("\ufffe", "").replace("\x02", ""))).strip()


def messy(picture: Any) -> Any:
    """As a bad scanner gives it."""
    turned = picture.rotate(1.2, fillcolor=255, resample=Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(0.7))
    pixels = np.asarray(turned).astype(float) + np.random.default_rng(1).normal(0, 22, (turned.height, turned.width))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def gray(picture: Any, dpi: int) -> Gray:
    """As recognition takes it."""
    return Gray(picture.width, picture.height, picture.tobytes(), dpi)


def manuals(folder: Path) -> Iterator[Sample]:
    """Pages of the manuals at each resolution, clean and messy."""
    import pypdfium2

    for dpi in (150, 200, 300):
        for name, index in PAGES:
            page = pypdfium2.PdfDocument(folder / name)[index]
            picture = page.render(scale=dpi / 72, grayscale=True).to_pil()
            text = folded(page.get_textpage().get_text_range())
            yield Sample(f"{dpi} dpi", "eng", gray(picture, dpi), text)
            yield Sample(f"{dpi} dpi, messy", "eng", gray(messy(picture), dpi), text)


def passages(fonts: Path) -> Iterator[Sample]:
    """The passages, set at 11 points and 300 dpi."""
    for language, text in PASSAGES.items():
        font = ImageFont.truetype(str(fonts / FONTS.get(language, FONT)), 46)
        picture = Image.new("L", (1_900, 900), 255)
        draw = ImageDraw.Draw(picture)
        lines, line = [], ""
        for piece in text if language in WIDE else re.findall(r"\S+\s*", text):
            if draw.textlength(line + piece, font) > 1_700:
                lines.append(line)
                line = ""
            line += piece
        for number, one in enumerate([*lines, line]):
            draw.text((90, 90 + 70 * number), one.rstrip(), font=font, fill=0)
        yield Sample(language, language, gray(picture, 300), folded(text))


def distance(one: str, other: str) -> int:
    """Levenshtein's, a row at a time."""
    other_codes = np.frombuffer(other.encode("utf-32-le"), np.uint32)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for number, char in enumerate(one, 1):
        best = np.empty_like(row)
        best[0] = number
        best[1:] = np.minimum(row[:-1] + (other_codes != ord(char)), row[1:] + 1)
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1])


def errors(expected: str, found: str, wide: bool) -> tuple[float, float]:
    """Characters and words in error, as shares of what is expected."""
    if wide:  # no spaces between words
        expected, found = expected.replace(" ", ""), found.replace(" ", "")
    words = Counter(re.findall(r"\S", expected) if wide else expected.split())
    missed = words - Counter(re.findall(r"\S", found) if wide else found.split())
    return distance(expected, found) / len(expected), missed.total() / words.total()


def seconds() -> float:
    """Processor seconds of this process and of the children that have ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def address_space() -> int:
    """The largest of this process, in MiB."""
    return int(Path("/proc/self/status").read_text().partition("VmPeak:")[2].split()[0]) >> 10


def main() -> None:
    """Prints a table; the rows as JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manuals", type=Path)
    parser.add_argument("--fonts", type=Path, default=Path("/usr/share/fonts/truetype"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    for sample in [*passages(options.fonts), *manuals(options.manuals)]:
        for name, engine in ENGINES.items():
            began = seconds()
            try:
                found = engine(straightened(sample.image), Limits(ocr_languages=(sample.language,), ocr_seconds=300))
            except ocr.OcrFailed as error:
                print(f"{name}, {sample.kind}: {error}", file=sys.stderr)
                continue
            cost = seconds() - began
            chars, words = errors(sample.text, folded(found.text), sample.language in WIDE)
            rows.setdefault((name, sample.kind), []).append((chars, words, found.confidence, cost))
    print(f"{'engine':10} {'images':18} {'characters':>10} {'words':>8} {'confidence':>10} {'CPU s':>7}")
    for (name, kind), found_rows in sorted(rows.items()):
        chars, words, confidence, cost = (statistics.mean(column) for column in zip(*found_rows, strict=True))
        row = {"engine": name, "images": kind, "n": len(found_rows), "characters": chars, "words": words}
        if options.json:
            print(json.dumps(row | {"confidence": confidence, "cpu_seconds": cost}))
        else:
            print(f"{name:10} {kind:18} {chars:10.1%} {words:8.1%} {confidence:10.3f} {cost:7.1f}")
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{ocr_tesseract.version()}: {largest} MB; {ocr_rapid.version()}: {own} MB, {address_space()} MB of addresses"
    )
    print(f"one thread each, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
