"""Which password opens a PDF: owner's or user's, as it was typed or in the form that the standard asks for.

    opening(data, ["kestrel", "Straße"])    # "kestrel", or None: none is needed, or none of them opens it

Of AES-256 files (revisions 5 and 6) the password is Unicode under SASLprep, which pdfium leaves out; older files take
Latin letters, for which pdfium tries both encodings. Passwords are held in memory only.
"""

import stringprep
import unicodedata
from collections.abc import Iterable, Iterator

_MOST = 1_000  # passwords: trying one takes a millisecond or two


def opening(data: bytes, passwords: Iterable[str]) -> str | None:
    """The first password that opens the file, None where it opens without or with none of them."""
    if b"/Encrypt" not in data or _opens(data, None):
        return None
    return next((form for form in forms(passwords) if _opens(data, form)), None)


def forms(passwords: Iterable[str]) -> Iterator[str]:
    """What to try, each once: the passwords as they were typed, and as the standard asks for."""
    seen: set[str] = set()
    for count, password in enumerate(passwords):
        if count >= _MOST:
            return
        for form in (password, prepared(password), unicodedata.normalize("NFC", password)):
            if form and form not in seen:
                seen.add(form)
                yield form


def _opens(data: bytes, password: str | None) -> bool:
    """Whether pdfium, or else pypdf, gets in."""
    import pypdfium2

    from unabridged.ingest.pdf.fallback import Fallback

    try:
        document = pypdfium2.PdfDocument(data, password=password)
    except pypdfium2.PdfiumError as error:
        # Where the file is damaged pdfium does not come as far as the password.
        return "assword" not in str(error) and not Fallback(data, password).needs_password()
    document.close()
    return True


def prepared(password: str) -> str:
    """The password under SASLprep (RFC 4013): odd spaces made plain, invisible characters dropped, NFKC. "" where it
    holds what is forbidden."""
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char for char in password if not stringprep.in_table_b1(char)
    )
    form = unicodedata.normalize("NFKC", mapped)
    forbidden = (stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c5, stringprep.in_table_c8)
    return "" if any(test(char) for char in form for test in forbidden) else form
