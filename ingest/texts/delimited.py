"""Tables in text files (.csv, .tsv): any charset, the separator found out, rows with their numbers, header repeated."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator

from unabridged.ingest.document import Item, Kind
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts.pager import Pager
from unabridged.ingest.texts.table import Table
from unabridged.ingest.texts.text import decoded

EXTRACTOR = "csv 1"
_SEPARATORS = ",;\t|"
_SAMPLE_LINES = 60
_FIELD = 8 << 20  # characters
_LINES_IN_FIELD = 500  # more is a quotation mark that was never closed
_DRAIN = 200


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The table. Raises Unreadable for what is no text."""
    text, meta = decoded(source)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\0", " ")
    separator, start = separator_of(text)
    ref = reading.ref()
    yield source.opened(ref, place, Kind.SHEET, meta=meta)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    yield from _rows(text, start, separator, pager)
    yield pager.ended(empty="no text in it, only white space")


def _rows(text: str, start: int, separator: str, pager: Pager) -> Iterator[Item]:
    table = Table(pager)
    csv.field_size_limit(_FIELD)
    if _runaway(text, start, separator):
        reader = csv.reader(lines(text, start), delimiter=separator, quoting=csv.QUOTE_NONE)
    else:
        reader = csv.reader(lines(text, start), delimiter=separator)
    number = 0
    while True:
        number += 1
        try:
            row = next(reader, None)
        except csv.Error:
            # A field longer than any table has: its row is left out, and said.
            pager.left_out += _FIELD
            continue
        if row is None:
            break
        table.add(number, row)
        if number % _DRAIN == 0:
            yield from pager.take()
        if pager.left_out:
            pager.left_out += max(0, len(text) - pager.characters - pager.left_out)
            break
    table.finish()
    yield from pager.take()


def _runaway(text: str, start: int, separator: str) -> bool:
    """Whether reading quotation marks as such swallows rows: they are then letters like others."""
    if '"' not in text:
        return False
    try:
        return any(
            any(field.count("\n") > _LINES_IN_FIELD for field in row)
            for row in csv.reader(lines(text, start), delimiter=separator)
        )
    except csv.Error:
        return True


def lines(text: str, start: int = 0) -> Iterator[str]:
    """The lines with their ends, without a copy of the whole."""
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def separator_of(text: str) -> tuple[str, int]:
    """The separator, and where the table begins: Excel's own first line "sep=;" is none of its rows."""
    first = text[:8].lstrip().lower()
    if first.startswith("sep=") and "\n" in text and len(first) > 4:
        return text[:8].lstrip()[4], text.index("\n") + 1
    sample = [line for _, line in zip(range(_SAMPLE_LINES), lines(text[:200_000]), strict=False)]
    return max(_SEPARATORS, key=lambda separator: _fit(sample, separator)), 0


def _fit(sample: Iterable[str], separator: str) -> tuple[float, int]:
    """How well a separator cuts the sample into rows of one width: the share of them, then the width."""
    try:
        widths = [len(row) for row in csv.reader(sample, delimiter=separator) if row]
    except csv.Error:
        return 0.0, 0
    if not widths:
        return 0.0, 0
    width, count = Counter(widths).most_common(1)[0]
    return (count / len(widths), width) if width > 1 else (0.0, 0)
