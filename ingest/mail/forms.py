"""Which form of a message is read where it comes in several (multipart/alternative).

Plain text, unless it is empty or a stub beside the HTML. Lines of the HTML that say something else than the plain text
(another amount, a "not", a paragraph more) stand below it, under a line that says so. What is no form of the text (an
invitation, a file within one of the forms) is kept.
"""

import re
from collections import Counter

from unabridged.ingest.mail import mime
from unabridged.ingest.mail.letter import Content
from unabridged.ingest.mail.mime import Entity
from unabridged.ingest.mail.text import text

STUB = 200  # characters of plain text that may be a stub beside far more HTML
_COMPARED = 1 << 18  # bytes of HTML, and of plain text, that are compared
_LOOKED_UP = 1_000  # lines; what follows counts as different
_WORD = re.compile(r"\d[\d.,:/-]*\d|[^\W_]+")  # 1,312.50 is one
_LINK = re.compile(r"<?\b(?:https?://|mailto:|www\.)[^\s<>]*>?")
DIFFERS = "[The HTML form of this message says, other than the plain text:]"
_LEVELS = 5  # of multiparts in which HTML is looked for
_WITH_FILES = frozenset({"text/calendar", "text/x-vcalendar", "text/vcard", "text/x-vcard", "text/directory"})


def chosen(children: list[Entity], parts: int, found: Content) -> list[Entity]:
    """The children to be read, at most `parts` of any multipart among them. That forms differ is put into `found`."""
    plain = next((child for child in children if child.kind == "text/plain"), None)
    others = [child for child in children if child is not plain]
    rich = [child for child in others if child.kind == "text/html" or child.kind.startswith("multipart/")]
    rest = [child for child in others if child not in rich and not (rich and _same_text(child))]
    if plain is None:
        return [*rich[-1:], *rest] if all(child.kind == "text/html" for child in rich) else [*rich, *rest]
    pages = [page for page in map(_first_html, rich) if page]
    different: list[Entity] = []
    if pages:
        words = _text(plain)
        if _stub(words, pages):
            return [*rich[-1:], *rest]
        different = _different(plain, words, pages[0], found)
    files = [child for child in rich if child.kind.startswith("multipart/")]
    return [plain, *different, *(part for child in files for part in _beside(child, parts)), *rest]


def _same_text(entity: Entity) -> bool:
    """The text once more for watches, for AMP and the like."""
    return entity.kind.startswith("text/") and entity.kind not in _WITH_FILES and not entity.filename


def _stub(words: str, pages: list[Entity]) -> bool:
    """The plain text says nothing, or next to nothing, of what the HTML says."""
    if len(words) > STUB:
        return False
    best = max(len(_text(page)) for page in pages)
    return best > 0 and (not words or outweighs(best, len(words)))


def outweighs(rich: int, plain: int) -> bool:
    """Whether HTML of so many characters says far more than plain text of so many."""
    return rich > 4 * plain + 200


def _different(plain: Entity, shown: str, page: Entity, found: Content) -> list[Entity]:
    """The lines of the HTML that say something else than the plain text as it is `shown`, as one more text; none
    where there are none."""
    if max(len(page.body), len(plain.body)) > _COMPARED:
        found.facts["forms"] = "the HTML is long and was not compared with the plain text"
        return []
    said = _WORD.findall(_LINK.sub(" ", shown).casefold())
    lines = [(line, _WORD.findall(_LINK.sub(" ", line).casefold())) for line in _text(page).split("\n")]
    more = Counter(word for _, words in lines for word in words) - Counter(said)
    whole = f" {' '.join(said)} "
    other = [(line, f" {' '.join(words)} ") for line, words in lines if not more.keys().isdisjoint(words)]
    new = [line for at, (line, words) in enumerate(other) if at >= _LOOKED_UP or words not in whole]
    if not new:
        return []
    found.facts["forms"] = "the HTML says other things than the plain text"
    return [mime.parse(b"Content-Type: text/plain; charset=utf-8\n\n" + "\n".join([DIFFERS, *new]).encode())]


def _text(entity: Entity) -> str:
    return text(entity, Content())[0].strip()


def _first_html(entity: Entity) -> Entity | None:
    for _ in range(_LEVELS):
        if not entity.kind.startswith("multipart/"):
            return entity if entity.kind == "text/html" else None
        children = [mime.parse(part) for part in mime.split(entity)[0][:20]]
        inner = [child for child in children if child.kind == "text/html" or child.kind.startswith("multipart/")]
        if not inner:
            return None
        entity = inner[0]
    return None


def _beside(entity: Entity, parts: int) -> list[Entity]:
    """The parts of a multipart/related but for the page that shows them."""
    children = [mime.parse(part) for part in mime.split(entity)[0][:parts]]
    return [child for child in children if child.kind != "text/html" or child.filename]
