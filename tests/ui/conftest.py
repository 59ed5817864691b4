"""A small library as the interface sees it, one answer with two citations, and waiting for a condition."""

import asyncio
from collections.abc import Callable
from time import monotonic

import pytest
from tests.ui.scripted_server import ScriptedServer
from textual.pilot import Pilot

from unabridged.app.client import DocumentInfo, PageInfo, PartInfo, SearchHit
from unabridged.app.events import Answer, Citation, LeftOut, Receipt, Sentence

LEASE = (
    "LEASE AGREEMENT\n\n"
    + "\n".join(f"{n}. The parties agree on point {n}, which is of no interest here." for n in range(1, 60))
    + "\n\nThe monthly rent is 1,240 euros, payable on the third working day.\nSigned in Lyon.\n"
)
RENT = "The monthly rent is 1,240 euros, payable on the third working day."
MAIL = "Subject: Re: deposit\nFrom: Ann\n\nThe deposit was paid on 4 May.\n> When was it paid?\n"
PAID = "The deposit was paid on 4 May."


def _document(id: int, path: str, kind: str, status: str = "read", reason: str = "", pages: int = 1) -> DocumentInfo:
    return DocumentInfo(
        id=id, path=path, kind=kind, status=status, reason=reason, pages=pages, tokens=900, sha256="", parent=None
    )


FILES = [
    _document(1, "/home/ann/case/contracts/lease [2024].pdf", "pdf", pages=12),
    _document(2, "/home/ann/case/contracts/annex.pdf", "pdf", pages=3),
    _document(3, "/home/ann/case/contracts/scan of the old inventory.pdf", "pdf", "no_text", "images without text", 4),
    _document(4, "/home/ann/case/mail/inbox.mbox", "mailbox", pages=0),
    _document(5, "/home/ann/case/mail/inbox.mbox#1", "message"),
    _document(6, "/home/ann/case/mail/inbox.mbox#2", "message"),
    _document(7, "/home/ann/case/mail/inbox.mbox#2/plan.pdf", "pdf", pages=2),
    _document(8, "/home/ann/case/notes.md", "markdown"),
    _document(9, "/home/ann/case/locked.pdf", "pdf", "needs_password", "encrypted, no password given", 0),
]


def _cite(n: int, document: DocumentInfo, page: int, text: str, quote: str, verified: bool = True) -> Citation:
    start = text.index(quote)
    return Citation(
        n=n,
        document=document.path,
        document_id=document.id,
        page=page,
        label="ii" if n == 1 else "",
        quote=quote,
        start=start,
        end=start + len(quote),
        verified=verified,
    )


RECEIPT = Receipt(
    mode="focused",
    why="the model's self-test favours it",
    model="smollm2-135m",
    engine="torch",
    documents=2,
    pages=13,
    tokens=11_840,
    context=12_410,
    cached=11_900,
    attended=3072,
    coverage=0.97,
    attention="5K",
    completion=46,
    seconds_to_first_token=1.3,
    seconds=4.2,
    finish="stop",
    left_out=(LeftOut(document=FILES[2].path, pages="all", reason="no text: the pages are images"),),
)

TEXT = "The rent is **1,240 euros** a month. The deposit was paid on 4 May. The landlord is content."
MARKED = (
    "The rent is **1,240 euros** a month [1]. The deposit was paid on 4 May [2]. The landlord is content. [unsupported]"
)


@pytest.fixture
def answer() -> Answer:
    """An answer with a citation of a PDF, one of a message, and a sentence that nothing supports."""
    return Answer(
        answer=MARKED,
        text=TEXT,
        citations=(_cite(1, FILES[0], 3, LEASE, RENT), _cite(2, FILES[5], 1, MAIL, PAID, verified=False)),
        sentences=(Sentence(start=0, end=40, citations=(1,), supported=True),),
        receipt=RECEIPT,
        conversation="c1",
    )


@pytest.fixture
def server() -> ScriptedServer:
    """Nine documents, two of them problems; pages for the citations."""
    sheets = {
        (1, n): PageInfo(document=1, number=n, label="", text=f"Page {n} of the lease.", flags=()) for n in range(1, 13)
    }
    sheets[1, 3] = PageInfo(document=1, number=3, label="ii", text=LEASE, flags=("hidden",))
    quoted = PartInfo(kind="quoted", start=MAIL.index(">"), end=len(MAIL))
    sheets[6, 1] = PageInfo(document=6, number=1, label="", text=MAIL, flags=(), parts=(quoted,))
    hit = SearchHit(
        document=FILES[0].path, page=3, snippet="… monthly rent is 1,240 euros …", document_id=1, label="ii"
    )
    return ScriptedServer(files=list(FILES), sheets=sheets, hits=[hit])


async def until(pilot: Pilot[int], condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Let the application run until the condition holds."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, f"not within {seconds} s: {condition}"
        await asyncio.sleep(0.01)
    await pilot.pause()


@pytest.fixture
def wait() -> Callable[..., object]:
    """`await wait(pilot, condition)`."""
    return until
