"""An EPUB book to pages: the files of its spine in order, each page labelled with its chapter."""

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from unabridged.ingest.archives.zipfiles import Zip, ZipError
from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office.opc import Package
from unabridged.ingest.office.xmlfeed import Quiet
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset, html
from unabridged.ingest.texts.normalise import one_line
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "epub 1"
_CHAPTER_BYTES = 64 << 20
_FILES = 20_000
_PREFIXES = {"purl.org/dc": "dc:"}
_META = {"dc:creator": "author", "dc:date": "created", "dc:language": "language", "dc:publisher": "publisher"}
_TEXTS = ("html", "xml")
_FONTS = ("obfuscation", "RC")  # fonts that are only garbled are no concern of the text


@dataclass
class _Container(Quiet):
    """Reads META-INF/container.xml: where the list of the book's files is."""

    path: str = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "rootfile" and not self.path:
            self.path = unquote(attributes.get("full-path", "")).lstrip("/")


@dataclass
class _Book:
    """Reads the list: facts, files by their ids, and the spine."""

    folder: str
    facts: dict[str, str] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)  # id: path, type
    spine: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)  # paths of the tables of contents
    _pieces: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._pieces.clear()
        if name == "item" and len(self.files) < _FILES:
            path = _inside(self.folder, attributes.get("href", ""))
            kind = attributes.get("media-type", "")
            self.files[attributes.get("id", "")] = (path, kind)
            if "nav" in attributes.get("properties", "").split() or "ncx" in kind:
                self.contents.append(path)
        elif name == "itemref" and len(self.spine) < _FILES:
            self.spine.append(attributes.get("idref", ""))

    def end(self, name: str) -> None:
        if name.startswith("dc:") and (text := one_line("".join(self._pieces))):
            self.facts[name] = f"{self.facts[name]}, {text}" if name in self.facts else text
        self._pieces.clear()

    def text(self, data: str) -> None:
        self._pieces.append(data)


@dataclass
class _Contents:
    """Reads a table of contents, of EPUB 2 (navPoint) or 3 (nav): the first title of each file."""

    folder: str
    titles: dict[str, str] = field(default_factory=dict)
    _path: str = ""
    _pieces: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "a":
            self._path = _inside(self.folder, attributes.get("href", ""))
            self._pieces = []
        elif name == "text":
            self._pieces = []
        elif name == "content":
            path = _inside(self.folder, attributes.get("src", ""))
            self.titles.setdefault(path, one_line("".join(self._pieces), 100))

    def end(self, name: str) -> None:
        if name == "a" and (title := one_line("".join(self._pieces), 100)):
            self.titles.setdefault(self._path, title)

    def text(self, data: str) -> None:
        self._pieces.append(data)


@dataclass
class _Locks(Quiet):
    """Reads META-INF/encryption.xml: the files that are encrypted."""

    paths: set[str] = field(default_factory=set)
    _font: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "EncryptionMethod":
            self._font = any(word in attributes.get("Algorithm", "") for word in _FONTS)
        elif name == "CipherReference" and not self._font:
            self.paths.add(unquote(attributes.get("URI", "")).lstrip("/"))


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The book. Raises Unreadable."""
    package = Package(archive)
    book = _book(package)
    paths = [book.files[item][0] for item in book.spine if item in book.files and _is_text(book.files[item][1])]
    if not paths:
        named = (member.name for member in archive.members)
        paths = [name for name in named if name.lower().endswith((".xhtml", ".html", ".htm"))][:_FILES]
        package.notes.append("its list of chapters is damaged: they come in the order of their files")
    locked = _locks(package)
    if paths and locked.issuperset(paths):
        raise Unreadable(Status.UNSUPPORTED, "a book whose chapters are encrypted by its seller (DRM): not read")
    if not paths:
        raise Unreadable(Status.DAMAGED, "; ".join(["a book without chapters", *package.notes]))
    ref = reading.ref()
    yield source.opened(
        ref,
        place,
        Kind.BOOK,
        book.facts.get("dc:title", ""),
        {name: book.facts[key] for key, name in _META.items() if key in book.facts},
    )
    titles: dict[str, str] = {}
    for path in book.contents:
        contents = _Contents(posixpath.dirname(path))
        package.read(path, contents)
        titles = {**contents.titles, **titles}
    pager = Pager(ref, reading.limits, EXTRACTOR)
    for path in paths:
        if path in locked:
            package.notes.append(f"chapter {path} is encrypted")
        elif not pager.left_out:
            _chapter(package, path, titles.get(path, ""), pager)
            yield from pager.take()
    yield pager.ended(package.notes[:20], "no text in it, only pictures")


def _book(package: Package) -> _Book:
    container = _Container()
    package.read("META-INF/container.xml", container)
    path = container.path
    if package.zip.find(path) is None:
        path = next((member.name for member in package.zip.members if member.name.lower().endswith(".opf")), path)
    book = _Book(posixpath.dirname(path))
    package.read(path or "content.opf", book, _PREFIXES)
    return book


def _locks(package: Package) -> set[str]:
    locks = _Locks()
    if package.zip.find("META-INF/encryption.xml"):
        package.read("META-INF/encryption.xml", locks)
    return locks.paths


def _chapter(package: Package, path: str, title: str, pager: Pager) -> None:
    member = package.zip.find(path)
    if member is None:
        package.notes.append(f"chapter {path} is missing")
        return
    try:
        data = package.zip.read(member, _CHAPTER_BYTES)
    except ZipError as error:
        package.notes.append(f"chapter {path} {error}")
        data = error.got
    page = html.render(charset.decode(data, html.declared(data)).text)
    title = title or page.title
    pager.label = title if title.lower().startswith(("chapter", "part ")) or not title else f"chapter {title}"
    for block in page.text.split("\n\n"):
        pager.add(block, "\n\n")
    pager.aside(PartKind.HIDDEN, page.hidden)
    pager.close()


def _inside(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, unquote(href.partition("#")[0]))).lstrip("/")


def _is_text(kind: str) -> bool:
    return any(word in kind for word in _TEXTS) and "svg" not in kind
