"""Office files made in code: ZIP packages from strings, and the older container from streams."""

import io
import struct
import zipfile
from collections.abc import Mapping

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="' + RELATIONS + '"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="' + RELATIONS + '"'
_P = (
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:r="' + RELATIONS + '"'
)
_ODF = "".join(
    f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("style", "style"),
        ("draw", "drawing"),
        ("presentation", "presentation"),
        ("svg", "svg-compatible"),
        ("fo", "xsl-fo-compatible"),
    )
)
_ODF += ' xmlns:dc="http://purl.org/dc/elements/1.1/"'


def zipped(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A ZIP file of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def package(main: str, kind: str, files: Mapping[str, str | bytes]) -> bytes:
    """An Office Open XML package whose main part is `main`."""
    what = f"application/vnd.openxmlformats-officedocument.{kind}.main+xml"
    types = f'<Types xmlns="{_PACKAGE}/content-types"><Override PartName="/{main}" ContentType="{what}"/></Types>'
    return zipped({"[Content_Types].xml": types, "_rels/.rels": relations(officeDocument=main), **files})


def relations(**targets: str) -> str:
    """A part's relations: kind="target", numbered r1, r2, ... in order. "comments_2" is of kind comments."""
    lines = [
        f'<Relationship Id="r{n}" Type="{RELATIONS}/{kind.partition("_")[0]}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets.items(), 1)
    ]
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(lines)}</Relationships>'


def docx(body: str, files: Mapping[str, str | bytes] | None = None, **parts: str) -> bytes:
    """A Word document; `parts` are XML of footnotes, comments, styles, numbering, header, ... without its root."""
    names = {kind: f"{kind}.xml" for kind in parts}
    inner = {f"word/{kind}.xml": f"<w:{kind} {_W}>{xml}</w:{kind}>" for kind, xml in parts.items()}
    document = f"<w:document {_W}><w:body>{body}</w:body></w:document>"
    rels = {"word/_rels/document.xml.rels": relations(**names)}
    return package(
        "word/document.xml",
        "wordprocessingml.document",
        {"word/document.xml": document, **inner, **rels, **(files or {})},
    )


def p(text: str, properties: str = "") -> str:
    """A paragraph of Word."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{r(text)}</w:p>"


def r(text: str, properties: str = "") -> str:
    """A run of Word."""
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"


def xlsx(
    sheets: Mapping[str, str], files: Mapping[str, str | bytes] | None = None, strings: str = "", styles: str = ""
) -> bytes:
    """A workbook: name of a sheet, with its state behind a "|", to the XML of its rows."""
    listed, parts, names = "", {}, {}
    for n, (name, rows) in enumerate(sheets.items(), 1):
        title, _, state = name.partition("|")
        listed += f'<sheet name="{title}" sheetId="{n}" state="{state or "visible"}" r:id="r{n}"/>'
        names[f"worksheet_{n}"] = f"worksheets/sheet{n}.xml"
        xml = rows if rows.startswith("<cols") else f"<sheetData>{rows}</sheetData>"
        parts[f"xl/worksheets/sheet{n}.xml"] = f"<worksheet {_S}>{xml}</worksheet>"
    names |= {"sharedStrings": "sharedStrings.xml", "styles": "styles.xml"}
    parts["xl/sharedStrings.xml"] = f"<sst {_S}>{strings}</sst>"
    parts["xl/styles.xml"] = f"<styleSheet {_S}>{styles}</styleSheet>"
    parts["xl/_rels/workbook.xml.rels"] = relations(**names)
    parts["xl/workbook.xml"] = f"<workbook {_S}><sheets>{listed}</sheets></workbook>"
    return package("xl/workbook.xml", "spreadsheetml.sheet", {**parts, **(files or {})})


def row(number: int, *cells: str) -> str:
    """A row of a sheet, its cells texts, or XML of a cell."""
    inner = "".join(c if c.startswith("<c") else f'<c t="inlineStr"><is><t>{c}</t></is></c>' for c in cells)
    return f'<row r="{number}">{inner}</row>'


def pptx(slides: list[str], files: Mapping[str, str | bytes] | None = None) -> bytes:
    """A presentation from the XML of its slides' shapes; a slide that begins with "hidden" is."""
    parts, listed = {}, ""
    for n, shapes in enumerate(slides, 1):
        show = 'show="0"' if shapes.startswith("hidden") else ""
        tree = f"<p:cSld><p:spTree>{shapes.removeprefix('hidden')}</p:spTree></p:cSld>"
        parts[f"ppt/slides/slide{n}.xml"] = f"<p:sld {_P} {show}>{tree}</p:sld>"
        listed += f'<p:sldId id="{255 + n}" r:id="r{n}"/>'
    names = {f"slide_{n}": f"slides/slide{n}.xml" for n in range(1, len(slides) + 1)}
    parts["ppt/presentation.xml"] = (
        f'<p:presentation {_P}><p:sldIdLst>{listed}</p:sldIdLst><p:sldSz cx="1000" cy="800"/></p:presentation>'
    )
    parts["ppt/_rels/presentation.xml.rels"] = relations(**names)
    return package("ppt/presentation.xml", "presentationml.presentation", {**parts, **(files or {})})


def shape(text: str, role: str = "", facts: str = "", place: str = "") -> str:
    """A shape of a slide."""
    holder = f'<p:ph type="{role}"/>' if role else ""
    paragraphs = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x" {facts}/><p:nvPr>{holder}</p:nvPr></p:nvSpPr>'
        f"<p:spPr>{place}</p:spPr><p:txBody>{paragraphs}</p:txBody></p:sp>"
    )


def notes(text: str) -> str:
    """The page of a slide's notes."""
    return f"<p:notes {_P}><p:cSld><p:spTree>{shape(text, 'body')}{shape('7', 'sldNum')}</p:spTree></p:cSld></p:notes>"


def odf(
    kind: str, content: str, automatic: str = "", styles: str = "", files: Mapping[str, str | bytes] | None = None
) -> bytes:
    """An OpenDocument file; `kind` is text, spreadsheet or presentation, `content` what its body holds."""
    body = f"<office:body><office:{kind}>{content}</office:{kind}></office:body>"
    xml = f"<office:document-content{_ODF}><office:automatic-styles>{automatic}</office:automatic-styles>{body}"
    return zipped(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f"{xml}</office:document-content>",
            "styles.xml": f"<office:document-styles{_ODF}>{styles}</office:document-styles>",
            **(files or {}),
        }
    )


def ole(streams: Mapping[str, bytes]) -> bytes:
    """A container of the older format: sectors of 512 bytes, each stream in a chain of its own."""
    sectors: list[bytes] = []
    table: list[int] = []
    entries = [_entry("Root Entry", 5, 0xFFFFFFFE, 0, child=1 if streams else 0xFFFFFFFF)]
    for n, (name, content) in enumerate(streams.items(), 1):
        content = content.ljust(4096, b"\0")  # shorter ones would lie elsewhere
        count = -(-len(content) // 512)
        start = len(sectors)
        table += [*range(start + 1, start + count), 0xFFFFFFFE]
        sectors += [content[at : at + 512].ljust(512, b"\0") for at in range(0, len(content), 512)]
        entries.append(_entry(name, 2, start, len(content), right=n + 1 if n < len(streams) else 0xFFFFFFFF))
    entries += [bytes(128)] * (-len(entries) % 4)
    folder = len(sectors)
    for at in range(0, len(entries), 4):
        sectors.append(b"".join(entries[at : at + 4]))
        table.append(len(sectors) if at + 4 < len(entries) else 0xFFFFFFFE)
    first, pages = len(sectors), -(-(len(sectors) + 2) // 126)
    table += [0xFFFFFFFD] * pages
    table += [0xFFFFFFFF] * (128 * pages - len(table))
    sectors += [struct.pack("<128I", *table[at : at + 128]) for at in range(0, len(table), 128)]
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        *(0x3E, 3, 0xFFFE, 9, 6, 0, pages, folder, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0),
    )
    places = [first + n for n in range(pages)] + [0xFFFFFFFF] * (109 - pages)
    return head + struct.pack("<109I", *places) + b"".join(sectors)


def _entry(name: str, kind: int, start: int, size: int, right: int = 0xFFFFFFFF, child: int = 0xFFFFFFFF) -> bytes:
    text = name.encode("utf-16-le")
    return (
        text.ljust(64, b"\0")
        + struct.pack("<HBBIII", len(text) + 2, kind, 1, 0xFFFFFFFF, right, child)
        + bytes(36)
        + struct.pack("<IQ", start, size)
    )
