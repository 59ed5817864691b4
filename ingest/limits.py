"""How much one file may cost. Pure values: `reader` enforces them inside its process, `worker` from outside.

A file that reaches a limit still ends in a status and a reason, and keeps the pages that were read before.
"""

from typing import Literal

import msgspec

MIB = 1 << 20
GIB = 1 << 30


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds for one file. Bytes, seconds and characters."""

    cpu_seconds: float = 60.0  # for a file; each page that comes adds `page_credit`
    page_credit: float = 0.5  # CPU seconds more per page: a book of 2,000 pages may take its time
    page_seconds: float = 20.0  # CPU seconds without a page, a message or an end
    idle_seconds: float = 240.0  # wall seconds without anything: the machine may be busy, so much above page_seconds
    memory_bytes: int = 3 * GIB // 2  # address space of the process
    file_bytes: int = (
        512 * MIB
    )  # a file other than a mailbox or an archive: these are read in place, whatever their size
    message_bytes: int = 256 * MIB  # one message of a mailbox
    attachment_bytes: int = 128 * MIB  # decoded; also the sum of all that one message or file holds
    page_chars: int = 200_000
    document_chars: int = 40_000_000
    pages: int = 20_000  # of one document
    depth: int = 10  # attachments within attachments
    parts: int = 1_000  # parts of one message, attachments of one file
    header_bytes: int = 64 * 1024  # of one header field
    ocr: Literal["auto", "off", "all"] = "auto"  # recognise no image, those without usable text, or all
    ocr_languages: tuple[str, ...] = ()  # as tesseract names them; none: what is installed
    ocr_seconds: float = 60.0  # CPU seconds of recognising one page, beside what the file may take
