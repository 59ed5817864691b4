"""What an answer is checked against: the stretches of pages that the model had in view, and where it looked."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """`text[start:end]` of a page was in the context."""

    document_id: int
    document: str
    """Path, as `ls` prints it."""
    page: int
    label: str
    text: str
    """All of the page: spans count its characters."""
    start: int
    end: int
    about: str = ""
    """File name and title: what the page may leave unsaid because the document says it."""


@dataclass(frozen=True)
class Look:
    """While `answer[start:end]` was generated, attention weighed `page[first:last]` of a document with this share."""

    start: int
    end: int
    document_id: int
    page: int
    first: int
    last: int
    share: float
