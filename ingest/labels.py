"""Labels what in a message is not its writer's own new text: quotations, who is quoted, signatures.

Nothing is deleted; a label that is missing costs little, a wrong one hides what somebody wrote, so only plain cases are
labelled. Pure function of a text.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from unabridged.ingest.document import Part, PartKind

_QUOTED = re.compile(r"[ \t]?>")
_WROTE = re.compile(
    r"\b(?:wrote|writes|schrieb|schreibt|a écrit|ha scritto|scrisse|escribió|escreveu|пишет|писал|написал|написала"
    r"|napsal|napsala|skrev|schreef|napisał|napisała|kirjoitti)\b[^\n]{0,80}:?[ \t]*$|[\w.+-]+@[\w.-]+[>)\]]?:[ \t]*$"
)
_ORIGINAL = re.compile(
    r"^[ \t]*-{2,}[ \t]*(?:Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original|Původní zpráva"
    r"|Oprindelig meddelelse|Исходное сообщение)[ \t]*-{2,}[ \t]*$",
    re.I,
)
_FOOTER = re.compile(r"^_{20,}[ \t]*$|^-{20,}[ \t]*$")
_SIGNATURE_LINES = 15


def label(text: str) -> list[Part]:
    """Parts of a message body, in order, without overlap."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    kinds = _kinds(lines)
    parts: list[Part] = []
    first = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or kinds[index] != kinds[first]:
            kind = kinds[first]
            if kind is not None:
                parts.append(Part(kind, starts[first], min(starts[index], len(text))))
            first = index
    return parts


def body_hash(meta: Mapping[str, str], body: str, parts: Iterable[Part]) -> str:
    """What tells copies of a message from variants of it: SHA-256, as hex, of its date, sender and subject (as in a
    document's meta) and its text, without what mailing lists append and without regard to white space. `parts` are the
    labels of `body`."""
    for part in sorted((part for part in parts if part.kind is PartKind.FOOTER), key=lambda part: -part.start):
        body = body[: part.start] + body[part.end :]
    facts = [meta.get("date") or meta.get("date_raw", ""), meta.get("from", ""), meta.get("subject", "")]
    said = "\n".join((*facts, " ".join(body.split())))
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def _kinds(lines: list[str]) -> list[PartKind | None]:
    kinds: list[PartKind | None] = [PartKind.QUOTED if _QUOTED.match(line) else None for line in lines]
    _bridge(lines, kinds)
    _attributions(lines, kinds)
    _original(lines, kinds)
    _signature(lines, kinds)
    return kinds


def _bridge(lines: list[str], kinds: list[PartKind | None]) -> None:
    """Blank lines between two quoted lines belong to the quotation."""
    last = None
    for index, line in enumerate(lines):
        if kinds[index] == PartKind.QUOTED:
            if last is not None:
                kinds[last + 1 : index] = [PartKind.QUOTED] * (index - last - 1)
            last = index
        elif line.strip():
            last = None


def _attributions(lines: list[str], kinds: list[PartKind | None]) -> None:
    """ "On Monday X wrote:" in the one to three lines over a quotation."""
    for index in range(1, len(lines)):
        if kinds[index] != PartKind.QUOTED or kinds[index - 1] == PartKind.QUOTED:
            continue
        end = index
        while end > 0 and not lines[end - 1].strip():
            end -= 1
        for count in (1, 2, 3):
            begin = end - count
            if begin < 0 or not lines[begin].strip() or kinds[begin] is not None:
                break
            if _WROTE.search(" ".join(lines[begin:end])) and (count == 1 or len(lines[begin]) > 20):
                whole = begin if not _continues(lines, kinds, begin) else begin - 1
                kinds[whole:end] = [PartKind.ATTRIBUTION] * (end - whole)
                break


def _continues(lines: list[str], kinds: list[PartKind | None], begin: int) -> bool:
    """The attribution began on the line before: "On Mon, 3 Mar 2026 at 10:00," / "X wrote:"."""
    before = lines[begin - 1] if begin else ""
    return bool(before.strip()) and kinds[begin - 1] is None and bool(re.match(r"(?:On|Am|Le|El|Il|Dne|Den) ", before))


def _original(lines: list[str], kinds: list[PartKind | None]) -> None:
    """Outlook's rule and what follows it: the message that was answered."""
    for index, line in enumerate(lines):
        if _ORIGINAL.match(line):
            end = index + 1
            while end < len(lines) and re.match(r"[ \t]*\*?[\w-]{2,12}\*?:", lines[end]):
                end += 1
            kinds[index:end] = [PartKind.ATTRIBUTION] * (end - index)
            kinds[end:] = [PartKind.QUOTED] * (len(lines) - end)
            return


def _signature(lines: list[str], kinds: list[PartKind | None]) -> None:
    """What follows "-- ", and the footer of a mailing list, when short."""
    for index, line in enumerate(lines):
        dashes = line in ("-- ", "--", "-- \r") and kinds[index] is None
        if not (dashes or (_FOOTER.match(line) and kinds[index] is None)):
            continue
        end = index
        while end < len(lines) and kinds[end] is None:
            end += 1
        rest = sum(1 for later in lines[end:] if later.strip())
        if end - index <= _SIGNATURE_LINES and (dashes or not rest):
            kinds[index:end] = [PartKind.SIGNATURE] * (end - index)
