"""How far the words of PDFs agree with what two independent extractors find, and in which order.

    python -m benchmarks.agreement FOLDER [--name agreement]

Reads every PDF of a folder with the product's own reader process, with pypdf alone and with pypdfium2 alone, and
compares each with pdftotext (Debian's poppler-utils) and pdfminer.six, which share no code with any of the three and
are installed by hand (`apt install poppler-utils`, `pip install pdfminer.six`). Per document:

words    F1 of the words of each page, whatever their order
order    the same of runs of five words

Words are compared without case, accents' forms (NFKC) and hyphens, so that a word broken at a line's end is the same
with and without its hyphen. Hidden text, form values and notes are left out of ours, as the others have none.
Prints medians and the worst document of each, and writes benchmarks/results/<name>.json with every document.
"""

import argparse
import re
import shutil
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import machine, save

from unabridged.ingest.document import Page, PartKind
from unabridged.ingest.worker import Workers

_RUN = 5
_HYPHEN = re.compile(r"(?<=\w)[-\u00ad\u2010\u2011]\s*(?=\w)")
_APART = frozenset({PartKind.HIDDEN, PartKind.FORM, PartKind.NOTE})
Pages = list[list[str]]
Bags = list[Counter[tuple[str, ...]]]


def words(text: str) -> list[str]:
    """The words of a page."""
    return re.findall(r"\w+", _HYPHEN.sub("", unicodedata.normalize("NFKC", text)).casefold())


def ours(path: Path) -> Pages:
    """As the library would store it."""
    with Workers(1) as workers:
        items = [item for item in workers.read(path) if isinstance(item, Page) and item.ref == 0]
    return [words(_body(page)) for page in items]


def _body(page: Page) -> str:
    text = page.text
    for part in reversed(page.parts):
        if part.kind in _APART:
            text = text[: part.start] + text[part.end :]
    return text


def pypdf_alone(path: Path) -> Pages:
    """pypdf's plain extraction."""
    import pypdf

    return [words(page.extract_text()) for page in pypdf.PdfReader(path).pages]


def pdfium_alone(path: Path) -> Pages:
    """pypdfium2's text of each page. The character that stands for a hyphen at a line's end goes."""
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    return [words(page.get_textpage().get_text_range().replace("\ufffe", "")) for page in document]


def poppler(path: Path) -> Pages:
    """pdftotext."""
    done = subprocess.run(["pdftotext", "-enc", "UTF-8", str(path), "-"], capture_output=True, check=True)
    return [words(page) for page in done.stdout.decode("utf-8", "replace").split("\f")[:-1]]


def pdfminer(path: Path) -> Pages:
    """pdfminer.six with its own guess of columns."""
    from pdfminer.high_level import extract_text

    return [words(page) for page in extract_text(str(path)).split("\f")[:-1]]


READERS: dict[str, Callable[[Path], Pages]] = {"ours": ours, "pypdf": pypdf_alone, "pypdfium2": pdfium_alone}
JUDGES: dict[str, Callable[[Path], Pages]] = {"pdftotext": poppler, "pdfminer.six": pdfminer}


def bags(pages: Pages, run: int) -> Bags:
    """Each page's runs of words."""
    return [Counter(zip(*(page[at:] for at in range(run)), strict=False)) for page in pages]


def f1(found: Bags, expected: Bags) -> float:
    """Of two documents, page by page."""
    both = sum(sum((a & b).values()) for a, b in zip(found, expected, strict=False))
    total = sum(bag.total() for bag in [*found, *expected])
    return 2 * both / total if total else 1.0


def compare(path: Path) -> dict[str, Any]:
    """One document: reader -> judge -> words and order."""
    judged = {name: judge(path) for name, judge in JUDGES.items()}
    result: dict[str, Any] = {"document": path.name, "pages": len(judged["pdftotext"])}
    for reader, read in [*READERS.items(), *JUDGES.items()]:
        pages = judged.get(reader) or read(path)
        result[reader] = {
            judge: {"words": f1(bags(pages, 1), bags(truth, 1)), "order": f1(bags(pages, _RUN), bags(truth, _RUN))}
            for judge, truth in judged.items()
            if judge != reader
        }
    return result


def table(documents: list[dict[str, Any]]) -> str:
    """Median and worst document of each reader against each judge."""
    rows = ["| text of | compared with | words: median | worst | runs of five: median | worst |", "|-|-|-:|-:|-:|-:|"]
    for reader in [*READERS, *JUDGES]:
        for judge in JUDGES:
            if judge == reader:
                continue
            cells = []
            for what in ("words", "order"):
                each = [(document[reader][judge][what], document["document"]) for document in documents]
                worst = min(each)
                cells += [f"{median(value for value, _ in each):.3f}", f"{worst[0]:.3f} ({worst[1]})"]
            rows.append(f"| {reader} | {judge} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Compare, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="agreement", help="of the file in benchmarks/results")
    arguments = parser.parse_args()
    if shutil.which("pdftotext") is None:
        sys.exit("pdftotext is missing: apt install poppler-utils")
    documents = []
    for path in sorted(arguments.folder.glob("*.pdf")):
        documents.append(compare(path))
        print(path.name, {name: round(documents[-1][name]["pdftotext"]["order"], 3) for name in READERS}, flush=True)
    print(table(documents))
    said = subprocess.run(["pdftotext", "-v"], capture_output=True, text=True)
    versions = {name: version(name) for name in ("pypdf", "pypdfium2", "pdfminer.six")}
    versions["pdftotext"] = said.stderr.split("\n")[0].removeprefix("pdftotext version ")
    save(arguments.name, {"machine": machine(), "command": sys.argv, "versions": versions, "documents": documents})


if __name__ == "__main__":
    main()
