"""Office documents that are encrypted (.docx, .xlsx, .pptx with a password): opened with a password that is at hand."""

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from unabridged.ingest.archives import zipped
from unabridged.ingest.document import Item, Status
from unabridged.ingest.office import ole
from unabridged.ingest.reading import Place, Reading, Source, Unreadable

# What Excel uses for workbooks that are only protected against changes.
_BUILT_IN = "VelvetSweatshop"


def read_ole(container: Any, source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """The document under the encryption. Raises Unreadable."""
    plain = decrypted(source.data, reading.passwords)
    if plain is None:
        raise Unreadable(Status.NEEDS_PASSWORD, "encrypted: it needs a password")
    yield from zipped.read(Source(source.name, plain), reading, place)


def opened_again(source: Source, reading: Reading, place: Place) -> Iterator[Item]:
    """A document of the old formats, read again without its encryption. Raises Unreadable."""
    plain = decrypted(source.data, reading.passwords)
    if plain is None or plain == source.data:
        raise Unreadable(Status.NEEDS_PASSWORD, "encrypted: it needs a password")
    yield from ole.read(Source(source.name, plain), reading, place)


def decrypted(data: bytes, passwords: tuple[str, ...]) -> bytes | None:
    """The file without its encryption, None where no password opens it. Raises Unreadable where it is damaged."""
    import msoffcrypto
    from msoffcrypto.exceptions import InvalidKeyError
    from msoffcrypto.format import doc97, ppt97, xls97

    for module in (doc97, ppt97, xls97):
        # They decrypt into a temporary file, and a reader process may write none.
        module.tempfile = SimpleNamespace(TemporaryFile=io.BytesIO)
    for password in (*passwords, _BUILT_IN):
        out = io.BytesIO()
        try:
            office = msoffcrypto.OfficeFile(io.BytesIO(data))
            # The older formats check every password, the newer ones when they are told to.
            office.load_key(password=password, **({"verify_password": True} if office.format == "ooxml" else {}))
            office.decrypt(out)
        except InvalidKeyError:
            if out.getvalue().startswith(b"PK\x03\x04"):
                return out.getvalue()  # the right password of a damaged document
            continue
        except Exception as error:  # whatever damage causes comes through; so does a password that is not checked
            if "password" in str(error).lower() or password == _BUILT_IN:
                continue
            reason = f"encrypted, and damaged or in a way that is not read ({type(error).__name__}: {str(error)[:200]})"
            raise Unreadable(Status.DAMAGED, reason) from error
        return out.getvalue()
    return None
