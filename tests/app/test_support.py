"""Support measured on real pages: sentences with words left out must be verified, with a fact exchanged refused."""

import lzma
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from unabridged.app.sentences import passages
from unabridged.app.sources import Source
from unabridged.app.support import Evidence

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])\d{2,6}(?![\w.])")
NAME = re.compile(r"(?<=[a-z] )[A-Z][a-z]{3,}")

Change = Callable[[str, random.Random], str | None]


def _pdf(path: Path, most: int = 6) -> list[str]:
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        return [
            document[number].get_textpage().get_text_range().replace("\r\n", "\n")
            for number in range(min(most, len(document)))
        ]


def _sources(pages: Sequence[str]) -> list[Source]:
    return [Source(1, "/d.pdf", number, "", text, 0, len(text)) for number, text in enumerate(pages, 1)]


def _verified(documents: Sequence[Sequence[str]], change: Callable[[Sequence[str]], Change]) -> tuple[int, int]:
    """How many changed sentences are verified, of how many."""
    chance = random.Random(1)
    verified = total = 0
    for pages in documents:
        sources = _sources(pages)
        evidence, changed = Evidence(sources, ""), change(pages)
        spans = [(one, *span) for one in sources for span in passages(one.text)]
        chance.shuffle(spans)
        for source, start, end in spans[:40]:
            sentence = " ".join(source.text[start:end].split())
            claim = changed(sentence, chance) if 50 < len(sentence) < 300 else None
            if claim is not None and claim != sentence:
                support = evidence.find(claim, 0, 0)
                total += 1
                verified += bool(support and support.verified)
    return verified, total


def _shorter(_: Sequence[str]) -> Change:
    def leave_out(sentence: str, chance: random.Random) -> str:
        return " ".join(word for word in sentence.split() if not word.islower() or chance.random() > 0.25)

    return leave_out


def _exchanged(pattern: re.Pattern[str]) -> Callable[[Sequence[str]], Change]:
    def of(pages: Sequence[str]) -> Change:
        every = sorted({found for page in pages for found in pattern.findall(page)})

        def exchange(sentence: str, chance: random.Random) -> str | None:
            here = pattern.findall(sentence)
            others = [one for one in every if one not in sentence]
            return sentence.replace(chance.choice(here), chance.choice(others)) if here and others else None

        return exchange

    return of


@pytest.fixture(scope="module")
def papers() -> list[list[str]]:
    """The demo's PDFs."""
    return [_pdf(path) for path in sorted((ROOT / "packaging" / "demo" / "papers").glob("*.pdf"))]


@pytest.fixture(scope="module")
def real(shared_data: Path) -> list[list[str]]:
    """Manuals and mail."""
    manuals = [_pdf(path) for path in sorted((shared_data / "manuals").glob("*.pdf"))[:12]]
    with lzma.open(shared_data / "mail" / "r-lists.mbox.xz", "rt", encoding="utf-8", errors="replace") as file:
        mails = re.split(r"\nFrom ", file.read(400_000))[:60]
    return [*manuals, *(mails[at : at + 10] for at in range(0, 60, 10))]


def test_shortened_sentences_are_verified(papers: list[list[str]]) -> None:
    verified, total = _verified(papers, _shorter)
    assert total > 40
    assert verified >= 0.95 * total


def test_exchanged_numbers_are_refused(papers: list[list[str]]) -> None:
    verified, total = _verified(papers, _exchanged(NUMBER))
    assert total > 3
    assert verified == 0


@pytest.mark.slow
def test_real_pages_shortened(real: list[list[str]]) -> None:
    verified, total = _verified(real, _shorter)
    print(f"shortened: {verified} of {total} verified")
    assert verified >= 0.95 * total


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "most"), [(NUMBER, 0.1), (NAME, 0.25)], ids=["numbers", "names"])
def test_real_pages_exchanged(real: list[list[str]], pattern: re.Pattern[str], most: float) -> None:
    verified, total = _verified(real, _exchanged(pattern))
    print(f"exchanged: {verified} of {total} verified")
    assert verified <= most * total
