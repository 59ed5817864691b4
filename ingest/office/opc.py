"""Office Open XML packages (.docx, .xlsx, .pptx): their parts, and which part belongs to which. Knows no format.

A relationship may name anything: only parts of the package itself are followed, and one that is missing is an error
of that part alone.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from unabridged.ingest.archives.zipfiles import Member, Zip, ZipBomb, ZipError
from unabridged.ingest.document import Status
from unabridged.ingest.office.xmlfeed import Handler, Quiet, XmlError, attribute, feed
from unabridged.ingest.reading import Unreadable
from unabridged.ingest.texts.normalise import one_line

_RELATIONS = 20_000
_TEXT_BYTES = 1 << 30  # of XML, unpacked, of one document
_META = {
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "created": "created",
    "modified": "modified",
}


@dataclass(frozen=True)
class Relation:
    """A part that another refers to: `kind` is the last word of its type ("footnotes", "image")."""

    id: str
    kind: str
    target: str


class Package:
    """The parts of a document. `notes` says what of it could not be read."""

    def __init__(self, archive: Zip) -> None:
        self.zip = archive
        self.notes: list[str] = [archive.damage] if archive.damage else []
        self._left = _TEXT_BYTES
        self._asked: str | None = None
        self._relations: list[Relation] = []

    def feed(self, part: str, handler: Handler, prefixes: Mapping[str, str] | None = None) -> Iterator[None]:
        """A part's XML to a handler. What cannot be read becomes a note; a bomb raises Unreadable."""
        member = self.zip.find(part)
        if member is None:
            self.notes.append(f"{part} is missing")
            return
        try:
            yield from feed(self._counted(member), handler, prefixes)
        except ZipBomb as error:
            raise Unreadable(Status.TOO_LARGE, f"{part} {error}") from error
        except (XmlError, ZipError) as error:
            self.notes.append(f"{part}: {error}")

    def read(self, part: str, handler: Handler, prefixes: Mapping[str, str] | None = None) -> None:
        """All of a part at once, where nothing comes of it in between."""
        for _ in self.feed(part, handler, prefixes):
            pass

    def relations(self, part: str) -> list[Relation]:
        """What a part refers to inside the package, in order. Those of the part asked for last are kept."""
        if part != self._asked:
            self._asked, self._relations = part, self._listed(part)
        return self._relations

    def related(self, part: str, kind: str) -> list[str]:
        """The parts of a kind that a part refers to."""
        return [relation.target for relation in self.relations(part) if relation.kind == kind]

    def main(self, usual: str) -> str:
        """The part that the document is; `usual` where nothing says it."""
        found = self.related("", "officeDocument")
        return next((part for part in found if self.zip.find(part)), usual)

    def metadata(self) -> tuple[str, dict[str, str]]:
        """Title, and author, subject, keywords, created, modified."""
        fields = Fields()
        if self.zip.find("docProps/core.xml"):
            self.read("docProps/core.xml", fields)
        meta = {_META[key]: value for key, value in fields.found.items() if key in _META and value}
        return fields.found.get("title", ""), meta

    def _listed(self, part: str) -> list[Relation]:
        folder, name = posixpath.split(part)
        rels = posixpath.join(folder, "_rels", f"{name}.rels")
        if self.zip.find(rels) is None:
            return []
        handler = _Relations(folder)
        self.read(rels, handler)
        return handler.found

    def _counted(self, member: Member) -> Iterator[bytes]:
        for piece in self.zip.pieces(member):
            self._left -= len(piece)
            if self._left < 0:
                raise ZipError(f"more than {_TEXT_BYTES >> 20:,} MB of text: the rest was not read")
            yield piece


class _Relations(Quiet):
    """Reads a .rels part."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.found: list[Relation] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name != "Relationship" or attributes.get("TargetMode") == "External" or len(self.found) >= _RELATIONS:
            return
        target = unquote(attributes.get("Target", "")).replace("\\", "/").partition("#")[0]
        path = posixpath.normpath(posixpath.join("/", self.folder, target)).lstrip("/")
        kind = attributes.get("Type", "").rpartition("/")[2]
        self.found.append(Relation(attributes.get("Id", ""), kind, path))


@dataclass
class Fields:
    """Reads a flat part: the text of each element by its name, the first of a name."""

    found: dict[str, str] = field(default_factory=dict)
    _pieces: list[str] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._pieces.clear()

    def end(self, name: str) -> None:
        if value := one_line("".join(self._pieces)):
            self.found.setdefault(name, value)
        self._pieces.clear()

    def text(self, data: str) -> None:
        self._pieces.append(data)


@dataclass
class Drawing:
    """Reads the text of a drawing, a diagram or a chart: a line for each paragraph or cached value."""

    lines: list[str] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)
    _open: bool = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name in ("t", "v"):
            self._open = True
        elif name == "br":
            self._pieces.append("\n")

    def end(self, name: str) -> None:
        if name in ("t", "v"):
            self._open = False
        if name in ("p", "pt") and (line := "".join(self._pieces).strip()):
            self.lines.append(line)
        if name in ("p", "pt"):
            self._pieces.clear()

    def text(self, data: str) -> None:
        if self._open:
            self._pieces.append(data)


def on(attributes: dict[str, str]) -> bool:
    """Whether a switch is on: `<w:vanish/>` is, `<w:vanish w:val="0"/>` is not."""
    return (attribute(attributes, "val") or "1").lower() not in ("0", "false", "off")
