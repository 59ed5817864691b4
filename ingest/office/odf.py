"""OpenDocument files (.odt, .ods, .odp, .odg and their templates), opened: which of them it is, and its facts."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from unabridged.ingest.archives.zipfiles import Zip, ZipError
from unabridged.ingest.document import Item, Kind, PartKind, Status
from unabridged.ingest.office import embedded, odf_crypto
from unabridged.ingest.office.odf_sheets import Sheets
from unabridged.ingest.office.odf_slides import Slides
from unabridged.ingest.office.odf_styles import PREFIXES, Styles
from unabridged.ingest.office.odf_teller import Teller
from unabridged.ingest.office.odf_text import Text
from unabridged.ingest.office.opc import Fields, Package
from unabridged.ingest.office.xmlfeed import Quiet
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts.pager import Pager

EXTRACTOR = "odf 1"
_KINDS = (
    ("spreadsheet", Kind.SHEET, Sheets),
    ("presentation", Kind.SLIDES, Slides),
    ("graphics", Kind.SLIDES, Slides),
    ("text", Kind.WORD, Text),
)
_META = {"dc:creator": "author", "initial-creator": "author", "creation-date": "created", "dc:date": "modified"}
_META |= {"dc:subject": "subject", "keyword": "keywords"}


@dataclass
class Manifest(Quiet):
    """Reads META-INF/manifest.xml: the type of the whole, and how its files are encrypted."""

    kind: str = ""
    files: list[str] = field(default_factory=list)
    locks: dict[str, odf_crypto.Lock] = field(default_factory=dict)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        facts = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
        if name == "file-entry":
            path = facts.get("full-path", "")
            self.files.append(path)
            if path == "/":
                self.kind = facts.get("media-type", "")
        elif name == "encryption-data" and self.files:
            self.locks[self.files[-1]] = odf_crypto.Lock()
        if self.files and (lock := self.locks.get(self.files[-1])) is not None:
            lock.facts.update({f"{name}/{key}": value for key, value in facts.items()})


def read_zip(archive: Zip, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document. Raises Unreadable."""
    package = Package(archive)
    manifest = Manifest()
    if archive.find("META-INF/manifest.xml"):
        package.read("META-INF/manifest.xml", manifest)
    if manifest.locks:
        yield from _locked(archive, manifest, source, reading, place)
        return
    if archive.find("content.xml") is None:
        raise Unreadable(Status.DAMAGED, "; ".join(filter(None, [archive.damage, "its text (content.xml) is missing"])))
    mime = _mime(archive) or manifest.kind
    kind, make = next(((kind, make) for word, kind, make in _KINDS if f".{word}" in mime), (Kind.WORD, Text))
    title, meta = _facts(package)
    ref = reading.ref()
    yield source.opened(ref, place, kind, title, meta)
    styles = Styles()
    if archive.find("styles.xml"):
        package.read("styles.xml", styles, PREFIXES)
    pager = Pager(ref, reading.limits, EXTRACTOR)
    # Those of spreadsheets say "Page 1" and the sheet's name.
    for line in dict.fromkeys(styles.margins) if kind is Kind.WORD else ():
        pager.aside(PartKind.NOTE, line)
    teller: Teller = make(pager, styles)
    for _ in package.feed("content.xml", teller, PREFIXES):
        yield from pager.take()
        if pager.left_out:
            break
    teller.finish()
    pager.close()
    yield from pager.take()
    yield from _embedded(package, reading, Place(parent=ref, depth=place.depth + 1))
    yield pager.ended(package.notes)


def _locked(archive: Zip, manifest: Manifest, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """An encrypted document, opened with a password that is at hand."""
    for password in reading.passwords:
        plain = odf_crypto.decrypted(archive, manifest.locks, password, reading.limits.attachment_bytes)
        if plain is not None:
            yield from read_zip(plain, source, reading, place)
            return
    raise Unreadable(Status.NEEDS_PASSWORD, "encrypted: it needs a password")


def _mime(archive: Zip) -> str:
    member = archive.find("mimetype")
    try:
        return archive.read(member, 1_000).decode("ascii", "replace") if member else ""
    except ZipError:
        return ""  # the manifest says it too


def _facts(package: Package) -> tuple[str, dict[str, str]]:
    fields = Fields()
    if package.zip.find("meta.xml"):
        package.read("meta.xml", fields, PREFIXES)
    meta: dict[str, str] = {}
    for key, name in _META.items():
        if value := fields.found.get(key):
            meta.setdefault(name, value)
    return fields.found.get("dc:title", ""), meta


def _embedded(package: Package, reading: Reading, place: Place) -> Iterator[Item]:
    """Files of other kinds that lie in the document as objects: "Object 1" and the like, whole."""
    for member in package.zip.members:
        path = member.name
        if "/" in path or not path.startswith("Obj"):
            continue
        data = embedded.unpacked(package, member, path, reading, place)
        if data is not None:
            yield from reading.child(Source(path, data), reading, place)
