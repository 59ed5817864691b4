"""Outlook's mailbox (.pst, .ost) to messages, folder by folder, through libpff (LGPL, an extra that is imported only).

Messages are the children of the mailbox, numbered in the order of its folders; `folder` in their meta says in which one
they lie. What was deleted and is still there comes last, in the folder "(deleted)".
"""

import io
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from unabridged.ingest.document import Closed, Item, Kind, Opened, Status
from unabridged.ingest.extract import guarded
from unabridged.ingest.limits import Limits
from unabridged.ingest.outlook import mapi, mapi_letter
from unabridged.ingest.outlook.mapi import Names, Record
from unabridged.ingest.reading import Place, Reading, Source, Unreadable

_LEVELS = 100  # of folders
_MOST = 20_000  # properties of one object
_DELETED = "(deleted)"
_ROOTS = frozenset({"Top of Outlook data file", "Top of Personal Folders", "IPM_SUBTREE", "Root - Mailbox"})
_ERRORS = (OSError, ValueError, MemoryError, TypeError, OverflowError, IndexError)


def read(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The mailbox and its messages. Raises Unreadable where libpff is not installed, or cannot open the file."""
    mailbox = _opened(source)
    ref = reading.ref()
    yield Opened(
        ref=ref,
        parent=place.parent,
        name=source.name,
        kind=Kind.MAILBOX,
        meta=place.meta,
        sha256=source.sha256 if source.size <= reading.limits.file_bytes else "",
        size=source.size,
    )
    skip = reading.skip if place.parent is None else 0
    number = 0
    lost: list[str] = []
    names = _names(mailbox)
    for number, (folder, message) in enumerate(_messages(mailbox, lost), 1):
        if number <= skip:
            continue
        if place.depth <= 1:  # a mailbox on the disk, or in an archive there; deeper ones share what is left
            reading.fresh()
        where = Place(parent=ref, depth=place.depth + 1, meta={"folder": folder} if folder else {})
        inner = Source(str(number), kind=Kind.MESSAGE)
        read_one = partial(mapi_letter.read, partial(_record, message, names, reading.limits))
        yield from guarded(read_one, inner, reading, where, Kind.MESSAGE)
    reason = "; ".join(lost[:10])
    if number:
        yield Closed(ref=ref, status=Status.PARTIAL if lost else Status.READ, reason=reason)
    else:
        status = Status.DAMAGED if lost else Status.NO_TEXT
        yield Closed(ref=ref, status=status, reason=reason or "a mailbox without messages")


def _opened(source: Source) -> Any:
    try:
        import pypff
    except ImportError as error:
        reason = "Outlook mailbox (.pst, .ost): install the extra that reads it: pip install 'unabridged[outlook]'"
        raise Unreadable(Status.UNSUPPORTED, reason) from error
    mailbox = pypff.file()
    try:
        mailbox.open_file_object(source.file or io.BytesIO(source.data))
        mailbox.get_root_folder()
    except _ERRORS as error:
        reason = f"an Outlook mailbox that cannot be opened ({_first_line(error)}): Outlook's scanpst may repair it"
        raise Unreadable(Status.DAMAGED, reason) from error
    return mailbox


def _messages(mailbox: Any, lost: list[str]) -> Iterator[tuple[str, Any]]:
    """All messages with the folder that they lie in. Folders that cannot be listed are said in `lost`."""
    stack: list[tuple[str, Any, int]] = [("", mailbox.get_root_folder(), 0)]
    while stack:
        path, folder, level = stack.pop()
        yield from ((path, message) for message in _each(folder, "sub_message", f"folder {path}", lost))
        if level >= _LEVELS:
            lost.append(f"folders more than {_LEVELS} levels deep")
            continue
        below = [(_joined(path, _name(one)), one, level + 1) for one in _each(folder, "sub_folder", path, lost)]
        stack.extend(reversed(below))
    yield from ((_DELETED, message) for message in _each(mailbox, "orphan_item", _DELETED, lost))


def _each(parent: Any, what: str, where: str, lost: list[str]) -> Iterator[Any]:
    counted = getattr(parent, f"get_number_of_{what}s", None)
    if counted is None:
        return  # an item of another kind
    try:
        count = counted()
    except _ERRORS as error:
        lost.append(f"{where or 'the mailbox'}: {_first_line(error)}")
        return
    for index in range(count):
        try:
            yield getattr(parent, f"get_{what}")(index)
        except _ERRORS as error:
            lost.append(f"{where or 'the mailbox'}: item {index + 1}: {_first_line(error)}")


def _name(folder: Any) -> str:
    try:
        return (folder.get_name() or "").replace("/", "_")
    except _ERRORS:
        return "(folder without a name)"


def _joined(path: str, name: str) -> str:
    """The path of a folder, without Outlook's own top."""
    return path if name in _ROOTS or not name else f"{path}/{name}" if path else name


def _names(mailbox: Any) -> Names:
    """What the ids of named properties stand for in this file."""
    try:
        table = _properties(mailbox.get_name_to_id_map(), {})
    except _ERRORS:
        return {}
    return mapi.names(table.raw(0x0003), table.raw(0x0004))


def _record(item: Any, names: Names, limits: Limits) -> Record:
    """The properties of an item, its recipients and attachments."""
    record = _properties(item, names)
    try:
        recipients = item.recipients
    except (*_ERRORS, AttributeError):
        recipients = None
    if recipients is not None:
        record.recipients = _rows(recipients, names)
    for index, attachment in enumerate(_each(item, "attachment", "attachments", record.notes)):
        if index >= limits.parts:
            record.notes.append(f"more than {limits.parts:,} attachments")
            break
        record.attachments.append(_attachment(attachment, names, limits))
    return record


def _attachment(attachment: Any, names: Names, limits: Limits) -> Record:
    record = _properties(attachment, names)
    try:
        if attachment.get_number_of_sub_items():
            record.inner = partial(_record, attachment.get_sub_item(0), names, limits)
            return record
        size: int = attachment.get_size()
        if size > limits.attachment_bytes:
            record.notes.append(f"was not read: {size >> 20:,} MB")
        elif size:
            record.properties[mapi.DATA] = (mapi.BINARY, attachment.read_buffer(size))
    except _ERRORS as error:
        record.notes.append(f"cannot be read: {_first_line(error)}")
    return record


def _properties(item: Any, names: Names) -> Record:
    rows = _rows(item, names)
    return rows[0] if rows else Record()


def _rows(item: Any, names: Names) -> list[Record]:
    """Each of an item's record sets: a message has one, a table of recipients one for each."""
    found: list[Record] = []
    try:
        for index in range(min(item.get_number_of_record_sets(), _MOST)):
            entries = item.get_record_set(index)
            record = Record()
            for at in range(min(entries.get_number_of_entries(), _MOST)):
                _put(record, entries.get_entry(at), names)
            found.append(record)
    except _ERRORS as error:
        damaged = found[0] if found else Record()
        damaged.notes.append(f"damaged: {_first_line(error)}")
        return found or [damaged]
    return found


def _put(record: Record, entry: Any, names: Names) -> None:
    number, kind = entry.get_entry_type(), entry.get_value_type()
    if number is None or kind is None:
        return
    record.put(number, kind, entry.get_data() or b"", names)


def _first_line(error: BaseException) -> str:
    """libpff tells the way through its functions; what the first could not do is enough."""
    return re.sub(r"^pypff_\w+: |\..*", "", str(error).split("\n")[0])[:120]
