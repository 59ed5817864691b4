"""An Outlook object as a message: its facts, its text, what is attached. Appointments, contacts and tasks say in lines
what Outlook shows in fields."""

from collections.abc import Callable, Iterator
from functools import partial

from unabridged.ingest.document import Item
from unabridged.ingest.limits import Limits
from unabridged.ingest.mail import cms, forms, letter, mime
from unabridged.ingest.mail.facts import facts as header_facts
from unabridged.ingest.mail.facts import thread_index
from unabridged.ingest.mail.letter import Attachment, Content
from unabridged.ingest.outlook import lzfu
from unabridged.ingest.outlook.mapi import DATA, Record
from unabridged.ingest.pdf.extra import safe_name
from unabridged.ingest.reading import Place, Reading, Source
from unabridged.ingest.texts import html

_HEADERS, _CLASS, _SUBJECT, _TOPIC = 0x007D, 0x001A, 0x0037, 0x0070
_SUBMITTED, _DELIVERED, _CREATED = 0x0039, 0x0E06, 0x3007
_BODY, _HTML, _RTF = 0x1000, 0x1013, 0x1009
_METHOD, _LONG_NAME, _NAME, _SHOWN_NAME = 0x3705, 0x3707, 0x3704, 0x3001
_MIME, _CONTENT_ID, _PATHS = 0x370E, 0x3712, (0x370D, 0x3708)
_LINKED = frozenset({2, 3, 4, 7})  # methods: the file lies elsewhere
_SENDERS = ((0x0042, (0x5D02, 0x5D0A, 0x0065)), (0x0C1A, (0x5D01, 0x0C1F)))
_LISTS = ((1, "to", 0x0E04), (2, "cc", 0x0E03), (3, "bcc", 0x0E02))
_MAIL = ("ipm.note", "ipm.microsoft mail.note")
_REPORT = (("Report", 0x1001), ("Original subject", 0x0049), ("Original sent", 0x004E), ("Reported", 0x0032))
_FIELDS: dict[str, tuple[tuple[str, int], ...]] = {
    "ipm.appointment": (("Start", 0x820D), ("End", 0x820E), ("Location", 0x8208)),
    "ipm.schedule": (("Start", 0x820D), ("End", 0x820E), ("Location", 0x8208)),
    "ipm.microsoft mail.read receipt": _REPORT,
    "report.": _REPORT,
    "ipm.task": (("Start", 0x8104), ("Due", 0x8105), ("Owner", 0x811F)),
    "ipm.contact": (
        ("Name", 0x3001),
        ("Company", 0x3A16),
        ("Job title", 0x3A17),
        ("E-mail", 0x8083),
        ("E-mail 2", 0x8093),
        ("Business phone", 0x3A08),
        ("Home phone", 0x3A09),
        ("Mobile phone", 0x3A1C),
        ("Address", 0x3A15),
    ),
}


def read(make: Callable[[], Record], source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of the object that `make` opens."""
    yield from items(make(), source, reading, place)


def items(record: Record, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The items of an object."""
    found = content(record, reading.limits)
    yield from letter.items(source, reading, place, facts(record, source.dated), found)


def facts(record: Record, dated: tuple[tuple[str, str], ...] = ()) -> dict[str, str]:
    """The meta of the message, with the keys of `mail.facts`: by its headers of the internet where it has them, else by
    its properties. `class` says what it is where it is no mail."""
    headers = record.text(_HEADERS)
    known = header_facts(mime.parse(headers.encode())) if ":" in headers else {}
    own = {
        "subject": record.line(_SUBJECT) or record.line(_TOPIC),
        "from": _sender(record),
        **_lists(record),
        **_date(record, dated),
        "message_id": record.line(0x1035, 500).strip("<>"),
        "in_reply_to": record.line(0x1042, 500).strip("<>"),
        "references": record.line(0x1039, 5_000).replace("<", "").replace(">", ""),
        "thread_index": thread_index(record.raw(0x0071)),
        "thread_topic": record.line(_TOPIC),
        "flags": _flags(record),
        "labels": ", ".join(part for part in record.text("Keywords").split("\0") if part),
    }
    if "date" in known:
        own = {key: value for key, value in own.items() if not key.startswith("date")}
    kind = record.line(_CLASS, 100)
    if kind and not kind.lower().startswith(_MAIL):
        own["class"] = kind
    return {**known, **{key: value for key, value in own.items() if value and key not in known}}


def _sender(record: Record) -> str:
    """The writer; the one who sent it for him where that is all."""
    for name_key, address_keys in _SENDERS:
        name = record.line(name_key, 300)
        address = next((found for key in address_keys if "@" in (found := record.line(key, 300))), "")
        if name or address:
            return _person(name, address)
    return ""


def _person(name: str, address: str) -> str:
    if not address or name == address:
        return name or address
    return f"{name} <{address}>" if name else address


def _lists(record: Record) -> dict[str, str]:
    """To, Cc and Bcc."""
    found: dict[int, list[str]] = {1: [], 2: [], 3: []}
    for one in record.recipients:
        address = next((line for key in (0x39FE, 0x3003) if "@" in (line := one.line(key, 300))), "")
        found.get(one.number(0x0C15) & 15, found[1]).append(_person(one.line(0x3001, 300), address))
    shown: dict[str, str] = {}
    for kind, key, display in _LISTS:
        people = ", ".join(filter(None, found[kind][:200]))
        more = f", … ({len(found[kind]):,} addresses)" if len(found[kind]) > 200 else ""
        shown[key] = people + more or record.line(display)
    return shown


def _date(record: Record, dated: tuple[tuple[str, str], ...]) -> dict[str, str]:
    candidates = (
        (record.moment(_SUBMITTED), "sent"),
        (record.moment(_DELIVERED), "received"),
        (record.moment(_CREATED), "created"),
        *dated,
    )
    return next(({"date": stamp, "date_source": source} for stamp, source in candidates if stamp), {})


def _flags(record: Record) -> str:
    state, verb = record.number(0x0E07), record.number(0x1081)
    words = [word for bit, word in ((1, "seen"), (8, "draft")) if state & bit]
    words += ["replied"] if verb in (102, 103) else ["forwarded"] if verb == 104 else []
    words += ["flagged"] if record.number(0x1090) == 2 else []
    return " ".join(words)


def content(record: Record, limits: Limits) -> Content:
    """What the message holds. Its body is `spare` for one that lies within another form of the same message."""
    found = Content(notes=[*record.notes])
    kind = record.line(_CLASS, 100).lower()
    lines = _fields(record, kind)
    if lines:
        found.texts.append(lines)
    if "smime" in kind:
        found.facts["signed"] = "S/MIME"
    if body := _body(record, limits, found):
        found.spare.append(body)
    for attachment in record.attachments:
        _attach(attachment, found, kind)
    if lines:
        found.texts += found.spare
        found.spare.clear()
    return found


def merge(record: Record, found: Content, limits: Limits) -> None:
    """Puts what winmail.dat holds into the message that it came in."""
    inner = content(record, limits)
    found.attachments += inner.attachments
    found.texts += inner.texts
    found.spare += inner.spare
    found.notes += inner.notes
    found.images += inner.images
    found.facts["container"] = "winmail.dat"


def _fields(record: Record, kind: str) -> str:
    names = next((fields for start, fields in _FIELDS.items() if kind.startswith(start)), ())
    lines = []
    for label, key in names:
        value = record.moment(key) or record.line(key)
        if value:
            lines.append(f"{label}: {value}")
    return "\n".join(lines)


def _body(record: Record, limits: Limits, found: Content) -> str:
    """Plain text; HTML where that is empty or a stub; RTF where there is neither."""
    plain = record.text(_BODY)
    if len(plain.strip()) > forms.STUB or not (record.has(_HTML) or record.has(_RTF)):
        return plain
    if record.has(_HTML):
        page = html.render(record.text(_HTML), quotes=True)
        if not plain.strip() or forms.outweighs(len(page.text), len(plain)):
            found.hidden += [page.hidden] if page.hidden else []
            return page.text
    if plain.strip():
        return plain
    from unabridged.ingest.outlook import mapi_rtf

    shown, hidden = mapi_rtf.rendered(lzfu.rtf(record.raw(_RTF), limits.document_chars))
    found.hidden += [hidden] if hidden else []
    return shown


def _attach(one: Record, found: Content, kind: str) -> None:
    name = next((line for key in (_LONG_NAME, _NAME, _SHOWN_NAME) if (line := one.line(key, 300))), "")
    name = safe_name(name) or "attachment"
    found.notes += [f"attachment {name} {note}" for note in one.notes]
    if one.inner is not None:
        name = name if "." in name[-5:] else f"{name}.msg"
        found.attachments.append(Attachment(name, message=True, reader=partial(read, one.inner)))
        return
    data = one.raw(DATA)
    if one.number(_METHOD) in _LINKED and not data:
        where = next((line for key in _PATHS if (line := one.line(key, 300))), "elsewhere")
        found.notes.append(f"attachment {name} is a link: {where}")
    elif one.line(_MIME, 100).lower().startswith("image/") and one.has(_CONTENT_ID):
        found.images += 1
    elif kind.startswith("ipm.note.smime"):
        wrapped = data if not cms.is_envelope(data, "smime.p7m") else b"Content-Type: application/pkcs7-mime\n\n" + data
        found.attachments.append(Attachment("signed.eml", wrapped, message=True))
    elif data or not one.notes:
        found.attachments.append(Attachment(name, data))
