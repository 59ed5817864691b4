"""The second extractor, pypdf: slower, opens other files, survives what stops pdfium. Every method may be called on a
file that it cannot read: it answers with nothing, and `error` says why."""

import io
import logging
from typing import Any


class Fallback:
    """A PDF as pypdf sees it, opened when first needed."""

    def __init__(self, data: bytes, password: str | None) -> None:
        self.data = data
        self.password = password
        self.error = ""
        self._reader: Any = None
        self._pages: list[Any] | None = None
        self._labels: list[str] | None = None

    def pages(self) -> int:
        """Number of pages, 0 when it cannot be opened."""
        return len(self._opened())

    def needs_password(self) -> bool:
        """Encrypted, and the given password does not open it."""
        self._opened()
        return bool(self._reader is not None and self._reader.is_encrypted and not self._unlocked)

    def text(self, index: int) -> str:
        """The text of a page, "" when it cannot be had."""
        pages = self._opened()
        if index >= len(pages):
            return ""
        try:
            return str(pages[index].extract_text())
        except Exception as error:  # pypdf raises what the file makes it raise
            self.error = f"{type(error).__name__}: {error}"
            return ""

    def lost(self, index: int) -> bool:
        """Whether a page has a content that is not in the file, or that does not decode."""
        pages = self._opened()
        if index >= len(pages) or "/Contents" not in pages[index]:
            return False
        from pypdf.generic import StreamObject

        try:
            content = pages[index]["/Contents"].get_object()
            streams = [item.get_object() for item in content] if isinstance(content, list) else [content]
            return any(not isinstance(stream, StreamObject) or _undecoded(stream) for stream in streams)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            return True

    def label(self, index: int) -> str:
        """The number printed on a page, "" for none."""
        self._opened()
        try:
            if self._labels is None:
                self._labels = [str(label) for label in self._reader.page_labels]
            return self._labels[index]
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            return ""

    def information(self) -> dict[str, str]:
        """The document information dictionary, keys without their slash."""
        self._opened()
        try:
            return {str(key).lstrip("/"): str(value) for key, value in (self._reader.metadata or {}).items()}
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"
            return {}

    def _opened(self) -> list[Any]:
        if self._pages is None:
            self._pages = []
            self._unlocked = False
            try:
                self._pages = self._open()
            except Exception as error:
                self.error = f"{type(error).__name__}: {error}"
        return self._pages

    def _open(self) -> list[Any]:
        import pypdf

        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        self._reader = pypdf.PdfReader(io.BytesIO(self.data))
        if self._reader.is_encrypted:
            self._unlocked = bool(self._reader.decrypt(self.password or ""))
            if not self._unlocked:
                return []
        return list(self._reader.pages)


def _undecoded(stream: Any) -> bool:
    """Something goes in and nothing comes out. An empty stream is a few bytes when compressed."""
    return len(stream._data) > 16 and not stream.get_data()
