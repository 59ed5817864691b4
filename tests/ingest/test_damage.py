"""Whatever is done to a file of these formats, its stream is sound and ends with a status that somebody meant."""

import io
import random
import zipfile
from collections.abc import Callable

import pytest
from tests.ingest.made import end, read, sound
from tests.ingest.office import docx, notes, odf, p, pptx, relations, row, shape, xlsx, zipped
from tests.ingest.test_docx import LISTS, STYLES
from tests.ingest.test_epub import FILES

from unabridged.ingest.limits import Limits

TOKENS = [b"<", b">", b"&", b'"', b"\0", b"\xff\xff\xff\xff", b"-1", b"9" * 20, b"{", b"}", b"\\", b"<!DOCTYPE x ["]
LIMITS = Limits(document_chars=300_000)


def _word() -> bytes:
    table = f"<w:tbl><w:tr><w:tc>{p('Lot')}</w:tc><w:tc>{p('Price')}</w:tc></w:tr></w:tbl>"
    cite = '<w:r><w:footnoteReference w:id="3"/></w:r>'
    body = p("Term", '<w:pStyle w:val="H2"/>') + f"<w:p>{cite}</w:p>" + table
    footnotes = f'<w:footnote w:id="3">{p("deep")}</w:footnote>'
    return docx(body, {"word/embeddings/a.docx": docx(p("x"))}, styles=STYLES, numbering=LISTS, footnotes=footnotes)


def _sheet() -> bytes:
    cells = '<c r="A1" t="s"><v>0</v></c><c r="C1" s="1"><v>46112</v></c>'
    rows = f'<row r="1">{cells}</row>' + row(2, "a", "b")
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    return xlsx({"A": rows, "B|hidden": rows}, strings="<si><t>x</t></si>", styles=styles)


def _slides() -> bytes:
    files = {"ppt/slides/_rels/slide1.xml.rels": relations(notesSlide="../n.xml"), "ppt/n.xml": notes("say")}
    return pptx([shape("Title", "title") + shape("one\ntwo"), shape("x")], files)


def _text() -> bytes:
    body = "<text:note-body><text:p>n</text:p></text:note-body>"
    note = f"<text:note><text:note-citation>1</text:note-citation>{body}</text:note>"
    item = "<text:list><text:list-item><text:p>i</text:p></text:list-item></text:list>"
    return odf("text", f"<text:h>H</text:h><text:p>a{note}</text:p>{item}")


def _table() -> bytes:
    cell = '<table:table-cell table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell>'
    return odf("spreadsheet", f'<table:table table:name="A"><table:table-row>{cell}</table:table-row></table:table>')


def _rich() -> bytes:
    return (
        rb"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0\fcharset128 A;}}{\stylesheet{\s1 heading 1;}}{\info{\title T}}"
        rb"\s1 H\par "
        rb"\trowd\intbl a\cell b\cell\row\pard x{\footnote f}{\v hid}\u8364?\'9e\bin3 abc{\*\annotation c}\page y}"
    )


MADE: dict[str, Callable[[], bytes]] = {
    "a.docx": _word,
    "a.xlsx": _sheet,
    "a.pptx": _slides,
    "a.odt": _text,
    "a.ods": _table,
    "a.rtf": _rich,
    "a.epub": lambda: zipped(FILES),
    "a.zip": lambda: zipped({"a.txt": "x" * 500, "b/c.csv": "a,b\n1,2\n", "d.zip": zipped({"e.txt": "y"})}),
}


def _hurt(data: bytes, chance: random.Random) -> bytes:
    """Cut, doubled, or with bytes that are others."""
    changed = bytearray(data)
    kind = chance.random()
    if kind < 0.2 or not changed:
        return bytes(changed[: chance.randrange(len(changed) + 1)])
    at = chance.randrange(len(changed))
    if kind < 0.4:
        changed[at:at] = changed[at : at + chance.randrange(1, 300)] * chance.randrange(1, 4)
        return bytes(changed)
    for _ in range(chance.choice((1, 3, 20))):
        at = chance.randrange(len(changed))
        token = chance.choice((*TOKENS, bytes((chance.randrange(256),))))
        changed[at : at + chance.choice((0, len(token)))] = token
    return bytes(changed)


def _hurt_within(data: bytes, chance: random.Random) -> bytes:
    """A ZIP file with one member hurt, or gone."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(list(files))
    files[name] = _hurt(files[name], chance)
    if chance.random() < 0.1:
        del files[name]
    return zipped(files)


def _attack(name: str, rounds: int, seed: int) -> None:
    whole, chance = MADE[name](), random.Random(seed)
    for turn in range(rounds):
        packed = whole.startswith(b"PK") and chance.random() < 0.7
        data = _hurt_within(whole, chance) if packed else _hurt(whole, chance)
        items = read(name, data, LIMITS)
        sound(items)
        assert "reading failed" not in end(items).reason, (name, seed, turn, end(items).reason)


@pytest.mark.parametrize("name", MADE)
def test_damage_is_told(name: str) -> None:
    _attack(name, 25, seed=1)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MADE)
def test_much_damage_is_told(name: str) -> None:
    _attack(name, 200, seed=2)
