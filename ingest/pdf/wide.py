"""What pdfium writes into a buffer: bytes, and strings, which are UTF-16 as the file has them: a half of a pair that
stands alone is replaced, where pypdfium2's own functions raise."""

import ctypes
from typing import Any


def wide(call: Any) -> str:
    """The string that `call(buffer, size)` writes: asked for twice, its length in bytes, then itself."""
    size = call(None, 0)
    if size <= 2:
        return ""
    buffer = (ctypes.c_ushort * (size // 2))()
    call(buffer, size)
    return bytes(buffer)[: size - 2].decode("utf-16-le", "replace")


def octets(call: Any, most: int = 1 << 20) -> bytes:
    """The bytes that `call(buffer, size)` writes, a NUL behind a text among them; none of more than `most`."""
    size = call(None, 0)
    if not 0 < size <= most:
        return b""
    buffer = ctypes.create_string_buffer(size)
    call(buffer, size)
    return buffer.raw


def information(document: Any) -> dict[str, str]:
    """What an open document says of itself, by the names of the standard; what is empty is left out."""
    from pypdfium2 import raw

    found = {
        key: wide(lambda *to, key=key: raw.FPDF_GetMetaText(document.raw, key.encode() + b"\0", *to))
        for key in document.METADATA_KEYS
    }
    return {key: value for key, value in found.items() if value}


def label(document: Any, index: int) -> str:
    """The label of a page, from 0."""
    from pypdfium2 import raw

    return wide(lambda *to: raw.FPDF_GetPageLabel(document.raw, index, *to))


def bookmark_title(bookmark: Any) -> str:
    """The title of an entry of the outline."""
    from pypdfium2 import raw

    return wide(lambda *to: raw.FPDFBookmark_GetTitle(bookmark.raw, *to))


def attachment_name(attachment: Any) -> str:
    """The name under which a file is attached."""
    from pypdfium2 import raw

    return wide(lambda *to: raw.FPDFAttachment_GetName(attachment.raw, *to))
