"""A damaged PDF made readable again: its pages found, in their order, and a new page tree and table of objects behind
the old bytes. Bytes in, bytes out.

For files without an end or a table of objects, cut anywhere, with garbage in front, with page trees that are too deep,
loop or lie about their count. A page that the tree names and the file no longer has keeps its number, as a gap.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unabridged.ingest.pdf import objects as pdf_objects
from unabridged.ingest.pdf.objects import REFERENCE, Objects

_INHERITED = (b"/Resources", b"/MediaBox", b"/CropBox", b"/Rotate")
_KID = re.compile(rb"(\d{1,8})\s+\d{1,5}\s+R(?![A-Za-z])|(<<)")
_NAMED = re.compile(rb"/(Root|Encrypt)\s+(\d{1,8}\s+\d{1,5}\s+R)")
_ID = re.compile(rb"/ID\s*(\[\s*(?:<[^<>]*>|\((?:\\[\s\S]|[^()\\])*\))\s*(?:<[^<>]*>|\((?:\\[\s\S]|[^()\\])*\))\s*\])")
_PAGE = re.compile(rb"/Type\s{0,9}/Page(?![A-Za-z])")
_PACKED = re.compile(rb"/ObjStm(?:(?!endobj|stream)[\s\S]){0,300}stream\r?\n")
_LAYERS = b"/OCProperties"
_PATTERN = re.compile(rb"/PatternType\s{0,9}1(?!\d)")
_GLANCE = 1 << 20
_BRACKETS = re.compile(rb"<<|>>")
_ENCRYPT_DIRECT = re.compile(rb"/Encrypt\s*<<")
_ABOVE = 20  # levels of a lost tree that a page is traced through
_NODES = 200_000  # nodes of the page tree that are looked at

Entries = dict[bytes, bytes]


@dataclass(frozen=True)
class Rebuilt:
    """`slots[n - 1]` is the index of page n in `data`, None where the file has lost it. `whole`: the page tree was
    there; else the pages are those that were found, and more may be missing. `cut`: the file ends within an object."""

    data: bytes
    slots: tuple[int | None, ...]
    whole: bool
    cut: bool


def rebuild(data: bytes, limit: int) -> Rebuilt | None:
    """The file with a new page tree of at most `limit` pages, or None where no page can be found."""
    objects = pdf_objects.find(data)
    catalog = _catalog(objects)
    found = list(_walk(objects, catalog.get(b"/Pages", b""), limit))
    whole = any(page is not None for page in found)
    if not whole:
        found = list(_loose(objects, limit))
    if not any(page is not None for page in found):
        return None
    slots: list[int | None] = []
    kept = 0
    for page in found:
        slots.append(None if page is None else kept)
        kept += page is not None
    return Rebuilt(
        _written(objects, catalog, [page for page in found if page is not None]), tuple(slots), whole, objects.cut
    )


def glance(data: bytes) -> tuple[int, bool]:
    """What costs little to know: how many pages stand in the file, those of earlier versions of it among them, and
    whether it may have layers (optional content)."""
    if b"/Encrypt" in data:
        return len(_PAGE.findall(data)), True
    count, layers = len(_PAGE.findall(data)), _LAYERS in data
    for found in _PACKED.finditer(data):
        plain = pdf_objects.inflate(data[found.end() : found.end() + _GLANCE], _GLANCE)
        count += len(_PAGE.findall(plain))
        layers = layers or _LAYERS in plain
    return count, layers


def patterned(data: bytes) -> bool:
    """Whether the file has tiling patterns: one may take pdfium hours to draw, and it cannot be stopped."""
    return _PATTERN.search(data) is not None


def _catalog(objects: Objects) -> Entries:
    named = [int(value.split()[0]) for name, value in _NAMED.findall(objects.data) if name == b"Root"]
    for number in reversed(named):
        if b"/Pages" in (entries := objects.entries(number)):
            return entries
    for number in reversed([*objects.numbers()]):
        if b"/Catalog" in objects.body(number) and objects.entries(number).get(b"/Type") == b"/Catalog":
            return objects.entries(number)
    return {}


def _walk(objects: Objects, root: bytes, limit: int) -> Iterator[Entries | None]:
    """The pages of the tree with what they inherit, None for one that is lost. A node that comes twice is a loop, or a
    bomb; a page may."""
    seen: set[int] = set()
    orphans: dict[int, list[Entries]] | None = None
    waiting: list[tuple[bytes, Entries, int]] = [(root, {}, 0)] if root else []
    count = looked = 0
    while waiting and count < limit and looked < _NODES:
        value, inherited, expected = waiting.pop()
        looked += 1
        reference = REFERENCE.fullmatch(value.strip())
        number = int(reference[1]) if reference else -1
        node = objects.entries(number) if reference else pdf_objects.entries(value)
        if not node:
            orphans = _orphans(objects) if orphans is None else orphans
            pages: list[Entries | None] = [inherited | page for page in orphans.get(number, [])]
            pages += [None] * (max(expected, 1) - len(pages))
            count += len(pages)
            yield from pages
        elif b"/Kids" not in node:
            count += 1
            yield inherited | node
        elif number not in seen:
            seen.add(number)
            below = inherited | {key: node[key] for key in _INHERITED if key in node}
            waiting.extend(reversed([(kid, below, lost) for kid, lost in _kids(objects, node)]))


def _kids(objects: Objects, node: Entries) -> Iterator[tuple[bytes, int]]:
    """The children, each with the number of pages that it must have had if it is the only one that is lost."""
    value = node[b"/Kids"]
    if reference := REFERENCE.fullmatch(value.strip()):
        value = objects.body(int(reference[1]))
    kids = [*_split(value)]
    counts = [_count(objects, kid) for kid in kids]
    stated = node.get(b"/Count", b"")
    alone = counts.count(None) == 1 and stated.isdigit()
    rest = int(stated) - sum(count or 0 for count in counts) if alone else 1
    for kid, count in zip(kids, counts, strict=True):
        yield kid, min(rest, len(objects)) if count is None else 0


def _split(kids: bytes) -> Iterator[bytes]:
    """References, or pages that are written out in the array."""
    at = 0
    while found := _KID.search(kids, at):
        at = found.end() if found[1] else _end_of(kids, found.start())
        yield kids[found.start() : at]


def _end_of(text: bytes, start: int) -> int:
    """Where the dictionary that begins at `start` ends."""
    depth = 0
    for found in _BRACKETS.finditer(text, start):
        depth += 1 if found[0] == b"<<" else -1
        if depth == 0:
            return found.end()
    return len(text)


def _count(objects: Objects, kid: bytes) -> int | None:
    """Pages below a child by its own word, None for one that the file does not have."""
    reference = REFERENCE.fullmatch(kid)
    node = objects.entries(int(reference[1])) if reference else pdf_objects.entries(kid)
    if not node:
        return None
    stated = node.get(b"/Count", b"1")
    return int(stated) if stated.isdigit() and b"/Kids" in node else 1


def _orphans(objects: Objects) -> dict[int, list[Entries]]:
    """The pages that name a parent, by its number: for parents that are lost."""
    found: dict[int, list[Entries]] = {}
    for number in objects.numbers():
        if b"/Parent" in (body := objects.body(number)) and _is_page(page := pdf_objects.entries(body)):
            parent = REFERENCE.fullmatch(page.get(b"/Parent", b""))
            found.setdefault(int(parent[1]) if parent else -1, []).append(page)
    return found


def _is_page(entries: Entries) -> bool:
    return entries.get(b"/Type") == b"/Page" or (
        b"/Type" not in entries and b"/Contents" in entries and b"/Subtype" not in entries
    )


def _loose(objects: Objects, limit: int) -> Iterator[Entries]:
    """Every page object, in the order of the file: for a file whose page tree is lost."""
    count = 0
    parents: dict[int, Entries] = {}
    for number in objects.numbers():
        body = objects.body(number)
        if (b"/Page" in body or b"/Contents" in body) and _is_page(page := pdf_objects.entries(body)):
            yield _from_parents(objects, page, parents)
            count += 1
            if count >= limit:
                return


def _from_parents(objects: Objects, page: Entries, parents: dict[int, Entries]) -> Entries:
    """The page with what it inherits from those above it that are there."""
    above = page
    for _ in range(_ABOVE):
        reference = REFERENCE.fullmatch(above.get(b"/Parent", b""))
        if reference is None:
            break
        number = int(reference[1])
        if number not in parents:
            parents[number] = objects.entries(number)
        above = parents[number]
        page = {key: above[key] for key in _INHERITED if key in above} | page
    return page


def _written(objects: Objects, catalog: Entries, pages: Iterable[Entries]) -> bytes:
    """The old bytes, then what was packed, the new tree, a table of all, and a trailer."""
    out = bytearray(objects.data)
    out += b"\nendstream\nendobj\n" if objects.cut else b"\n"
    table = dict(objects.places)

    def add(number: int, body: bytes) -> None:
        table[number] = (0, len(out))
        out.extend(b"%d 0 obj\n%s\nendobj\n" % (number, body))

    for number, body in objects.packed.items():
        add(number, body)
    top = max(table, default=0)
    root, tree = top + 1, top + 2
    kids = []
    for number, page in enumerate(pages, tree + 1):
        add(number, _dictionary(page | {b"/Type": b"/Page", b"/Parent": b"%d 0 R" % tree}))
        kids.append(b"%d 0 R" % number)
    add(tree, b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids)))
    add(root, _dictionary(catalog | {b"/Type": b"/Catalog", b"/Pages": b"%d 0 R" % tree}))
    start = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number in sorted(table):
        generation, offset = table[number]
        out += b"%d 1\n%010d %05d n \n" % (number, offset, generation)
    trailer = {b"/Root": b"%d 0 R" % root, b"/Size": b"%d" % (max(table) + 1)} | _encryption(objects.data)
    out += b"trailer\n%s\nstartxref\n%d\n%%%%EOF\n" % (_dictionary(trailer), start)
    return bytes(out)


def _dictionary(entries: Entries) -> bytes:
    return b"<< %s >>" % b" ".join(b"%s %s" % entry for entry in entries.items())


def _encryption(data: bytes) -> Entries:
    """What the trailer must say of an encrypted file."""
    found: Entries = {b"/" + name: value for name, value in _NAMED.findall(data) if name == b"Encrypt"}
    if not found and (direct := _ENCRYPT_DIRECT.search(data)):
        start = direct.end() - 2
        found[b"/Encrypt"] = data[start : _end_of(data, start)]
    if found and (ids := _ID.findall(data)):
        found[b"/ID"] = ids[-1]
    return found
