"""OpenDocument files of three kinds."""

import base64
import hashlib
import zlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from tests.ingest.made import end, opened, pages, read, text
from tests.ingest.office import odf

from unabridged.ingest.document import Kind, PartKind, Status

STYLES = (
    '<style:style style:name="Ghost" style:family="text"><style:text-properties text:display="none"/></style:style>'
    '<style:style style:name="New"><style:paragraph-properties fo:break-before="page"/></style:style>'
    '<style:style style:name="Off" style:family="table"><style:table-properties table:display="false"/></style:style>'
    '<text:list-style style:name="L">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="(" style:num-suffix=")"/>'
    "</text:list-style>"
)


def test_a_text_has_headings_lists_notes_and_what_is_apart() -> None:
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>".format
    inner = f"<text:list>{item('in March', '')}</text:list>"
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>deep</text:p>"
    content = (
        "<text:tracked-changes><text:changed-region><text:deletion><office:change-info><dc:creator>Bo</dc:creator>"
        "<dc:date>2026-01-02T00:00:00</dc:date></office:change-info><text:p>old words</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        '<text:h text:outline-level="2">Duties</text:h>'
        f'<text:list text:style-name="L">{item("Prune", inner)}{item("Mow", "")}</text:list>'
        f'<text:p>The well{note}</text:note-body></text:note> is<text:s text:c="2"/>old'
        '<text:span text:style-name="Ghost">secret</text:span><office:annotation><dc:creator>Ann</dc:creator>'
        "<text:p>really?</text:p></office:annotation>.</text:p>"
        '<text:p text:style-name="New">Second page</text:p>'
    )
    items = read("a.odt", odf("text", content, STYLES))
    first, second = pages(items)
    assert first.text.startswith("## Duties\n\n1. Prune\n  (a) in March\n2. Mow\n\nThe well[^1] is  old.")
    assert second.text == "Second page"
    assert first.label == "section Duties"
    apart = {part.kind: first.text[part.start : part.end] for part in first.parts}
    assert apart[PartKind.NOTE] == "[^1] deep\nComment by Ann: really?"
    assert apart[PartKind.HIDDEN] == "Deleted (Bo, 2026-01-02): old words\nHidden text: secret"


def test_a_comment_of_nobody_has_its_day() -> None:
    said = "<office:annotation><dc:creator/><dc:date>2026-11-30T00:00:00</dc:date><text:p>why?</text:p>"
    page = pages(read("a.odt", odf("text", f"<text:p>The well{said}</office:annotation></text:p>", STYLES)))[0]
    assert page.text.endswith("Comment, 2026-11-30: why?")


def test_a_text_that_is_cut_gives_what_its_table_has() -> None:
    cell = "<table:table-cell><text:p>{}</text:p>".format
    rows = f"<table:table-row>{cell('Lot')}</table:table-cell>{cell('Price')}<text:p>in euros"
    items = read("a.odt", odf("text", f"<text:p>before</text:p><table:table>{rows}"))
    assert text(items) == "before\n\nLot\tPrice in euros"
    assert end(items).status == Status.PARTIAL


def test_a_spreadsheet_shows_its_cells_and_repeats_cost_nothing() -> None:
    cell = '<table:table-cell table:number-columns-repeated="{}"><text:p>{}</text:p></table:table-cell>'.format
    rows = (
        f"<table:table-row>{cell(1, 'Lot')}{cell(2, 'Price')}</table:table-row>"
        f'<table:table-row table:number-rows-repeated="2">{cell(1, "17")}</table:table-row>'
        '<table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="16384"/></table:table-row>'
        f"<table:table-row>{cell(1, 'last')}</table:table-row>"
    )
    content = f'<table:table table:name="A">{rows}</table:table>'
    content += f'<table:table table:name="B" table:style-name="Off">{rows}</table:table>'
    items = read("a.ods", odf("spreadsheet", content, STYLES))
    first, second = pages(items)
    assert first.text == "Lot\tPrice\tPrice\n17\n17\nlast"
    assert (first.label, second.label) == ("sheet A, rows 1-1048004", "hidden sheet B, rows 1-1048004")


def test_a_presentation_has_slides_and_notes() -> None:
    box = "<draw:frame {}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>".format
    title = box('presentation:class="title"', "Results")
    notes = f"<presentation:notes>{box('', 'say it')}</presentation:notes>"
    items = read("a.odp", odf("presentation", f"<draw:page>{title}{box('', 'Costs')}{notes}</draw:page><draw:page/>"))
    assert opened(items)[0].kind == Kind.SLIDES
    assert [(page.label, page.text) for page in pages(items)] == [
        ("slide 1", "# Results\nCosts\n\nNotes: say it"),
        ("slide 2", ""),
    ]


def test_descriptions_of_pictures_are_text_and_their_titles_are_not() -> None:
    picture = "<draw:frame><svg:title>Picture 1</svg:title><svg:desc>A well</svg:desc></draw:frame>"
    assert text(read("a.odt", odf("text", f"<text:p>See {picture}</text:p>"))) == "See [picture: A well]"


def _locked(password: str, plain: bytes) -> dict[str, str | bytes]:
    """The content of a text and its manifest, encrypted as LibreOffice up to 24.1 does it."""
    salt, vector = bytes(range(16)), bytes(range(16, 32))
    machine = zlib.compressobj(wbits=-15)
    packed = machine.compress(plain) + machine.flush()
    packed += bytes(-len(packed) % 16)
    key = hashlib.pbkdf2_hmac("sha1", hashlib.sha256(password.encode()).digest(), salt, 10, 32)
    body = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor().update(packed)
    check, first, second = (
        base64.b64encode(raw).decode() for raw in (hashlib.sha256(packed[:1024]).digest(), vector, salt)
    )
    lock = (
        '<manifest><file-entry full-path="content.xml">'
        f'<encryption-data checksum-type="urn:x:manifest:1.0#sha256-1k" checksum="{check}">'
        f'<algorithm algorithm-name="http://www.w3.org/2001/04/xmlenc#aes256-cbc" initialisation-vector="{first}"/>'
        '<start-key-generation start-key-generation-name="http://www.w3.org/2000/09/xmldsig#sha256" key-size="32"/>'
        f'<key-derivation key-size="32" iteration-count="10" salt="{second}"/>'
        "</encryption-data></file-entry></manifest>"
    )
    return {"content.xml": body, "META-INF/manifest.xml": lock}


def test_an_encrypted_text_needs_its_password() -> None:
    plain = b"<document-content><body><text><p>The secret lease.</p></text></body></document-content>"
    whole = odf("text", "", files=_locked("open sesame", plain))
    for passwords in (None, "wrong"):
        assert end(read("a.odt", whole, password=passwords)).status == Status.NEEDS_PASSWORD
    items = read("a.odt", whole, password="open sesame")
    assert (text(items), end(items).status) == ("The secret lease.", Status.READ)
