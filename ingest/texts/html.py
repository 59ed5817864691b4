"""HTML to text: blocks become lines, table rows stay rows, what a reader does not see is kept apart.

`render` walks the tree by hand, so a document nested 30,000 deep costs no recursion. Quotations of mail (`quotes`) are
put behind "> ", as mail in plain text has them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from unabridged.ingest.document import Item, Kind, Status
from unabridged.ingest.reading import Place, Reading, Source, Unreadable
from unabridged.ingest.texts import charset, text
from unabridged.ingest.texts.normalise import mend_surrogates, normalise, one_line

EXTRACTOR = "html 1"
_SKIPPED = frozenset(
    [
        "script",
        "style",
        "head",
        "title",
        "meta",
        "link",
        "template",
        "svg",
        "math",
        "object",
        "embed",
        "iframe",
        "canvas",
        "datalist",
    ]
)
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
        "caption",
        "option",
    ]
)
_SPACED = frozenset(["p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "table", "ul", "ol", "dl", "hr"])
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0+)?\s*(?:;|$)|font-size\s*:\s*[01](?:px|pt|em)?\s*(?:;|$)"
    r"|mso-hide\s*:\s*all|(?:left|top|text-indent)\s*:\s*-\d{4,}(?:\.\d+)?px",
    re.I,
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.\-]+)", re.I)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_:.\-]+)", re.I)
_GAPS = re.compile(r"\n{3,}")
_SPACE = re.compile(r"[ \t\r\n\f]+")


@dataclass(frozen=True)
class Rendered:
    """Title, visible text and hidden text, normalised."""

    title: str
    text: str
    hidden: str


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document of an HTML file."""
    if not source.size:
        raise Unreadable(Status.NO_TEXT, "the file is empty")
    decoded = charset.decode(source.data, source.charset or declared(source.data))
    page = render(decoded.text)
    yield from text.document(
        source,
        reading,
        place,
        kind=Kind.HTML,
        text=page.text,
        title=page.title,
        meta=text.charset_meta(decoded),
        hidden=page.hidden,
        extractor=EXTRACTOR,
    )


def declared(data: bytes) -> str:
    """The charset that a page claims of itself."""
    head = data[:8_192]
    match = _META.search(head) or _XML.search(head)
    return match[1].decode("ascii") if match else ""


def render(markup: str, quotes: bool = False) -> Rendered:
    """The text of a page of HTML."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(mend_surrogates(markup).replace("\0", " "))
    title = tree.css_first("title")
    shown, hidden = _Lines(), _Lines()
    root = tree.body or tree.root
    if root is not None:
        _walk(root, shown, hidden, quotes)
    name = one_line(title.text()) if title is not None else ""
    return Rendered(name, normalise(shown.text()), normalise(hidden.text()))


@dataclass
class _Lines:
    """Text that is being laid out."""

    done: list[str] = field(default_factory=list)
    line: list[str] = field(default_factory=list)
    quoted: int = 0
    preformatted: int = 0

    def put(self, piece: str) -> None:
        """Running text, white space folded as a browser does."""
        if self.preformatted:
            first, *rest = piece.split("\n")
            self.line.append(first)
            for line in rest:
                self.end(keep=True)
                self.line.append(line)
            return
        piece = _SPACE.sub(" ", piece)
        if piece.startswith(" ") and (not self.line or self.line[-1].endswith((" ", "\t"))):
            piece = piece[1:]
        if piece:
            self.line.append(piece)

    def end(self, keep: bool = False) -> None:
        """Ends the line; an empty one counts only when `keep`."""
        line = "".join(self.line).rstrip()
        if line or keep:
            self.done.append(("> " * self.quoted + line).rstrip() if self.quoted else line)
        self.line.clear()

    def gap(self) -> None:
        """An empty line, unless there is one."""
        self.end()
        if self.done and self.done[-1].strip("> "):
            self.done.append("")

    def text(self) -> str:
        """All lines."""
        self.end()
        return _GAPS.sub("\n\n", "\n".join(self.done)).strip("\n")


def _walk(root: Any, shown: _Lines, hidden: _Lines, quotes: bool) -> None:
    """Every node in order: `_enter` before its children, `_leave` after them."""
    node: Any = root
    out = shown
    top = root.mem_id  # comparing nodes would compare all that is below them
    inside = 0  # the hidden element that we are in
    while True:
        if not inside and _is_hidden(node):
            inside = node.mem_id
            hidden.gap()
            out = hidden
        child = node.child if _enter(node, out, quotes) else None
        if child is not None:
            node = child
            continue
        while True:
            _leave(node, out, quotes)
            if inside and node.mem_id == inside:
                inside = 0
                hidden.end()
                out = shown
            if node.mem_id == top:
                return
            if node.next is not None:
                node = node.next
                break
            node = node.parent


def _is_hidden(node: Any) -> bool:
    tag = node.tag
    if tag is None or tag[0] in "-_":
        return False
    attributes = node.attributes
    return bool(attributes) and ("hidden" in attributes or bool(_HIDDEN.search(attributes.get("style") or "")))


def _enter(node: Any, out: _Lines, quotes: bool) -> bool:
    """Writes what stands before the children; False when they are not read."""
    tag = node.tag or ""  # an element whose name is no text
    if tag == "-text":
        out.put(node.text_content or "")
        return False
    if tag in _SKIPPED or tag.startswith(("-", "_", "!")):
        return False
    if tag == "br":
        out.end(keep=True)
    elif tag in ("td", "th"):
        if out.line and not out.line[-1].endswith("\t"):
            out.line.append("\t")
    elif tag in _SPACED:
        out.gap()
    elif tag in _BLOCKS:
        out.end()
    if tag == "li":
        out.line.append("- ")
    if tag == "pre":
        out.preformatted += 1
    if quotes and _is_quote(node, tag):
        out.quoted += 1
    return True


def _leave(node: Any, out: _Lines, quotes: bool) -> None:
    tag = node.tag or ""
    if tag in _SPACED:
        out.gap()
    elif tag in _BLOCKS:
        out.end()
    if tag == "pre":
        out.preformatted -= 1
    if quotes and _is_quote(node, tag):
        out.end()
        out.quoted -= 1


def _is_quote(node: Any, tag: str) -> bool:
    return tag == "blockquote" and "gmail_quote_attribution" not in (node.attributes.get("class") or "")
