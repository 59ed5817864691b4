"""Routes over the library: documents, pages, collections, search. Blocking reads run in threads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from unabridged.app.adding import adding
from unabridged.app.auth import is_local_caller
from unabridged.app.replies import Refusal, json_reply
from unabridged.app.schema import (
    AddFiles,
    CollectionInfo,
    DocumentInfo,
    Listing,
    PageInfo,
    PartInfo,
    Removed,
    SearchHit,
)
from unabridged.app.service import Service
from unabridged.app.unknown_fields import known_fields
from unabridged.app.wire import decode_body, lines
from unabridged.ingest.catalog.filters import Filter

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import DocumentRow, Hit, PageRow

MAX_HITS = 200


def routes(service: Service) -> APIRouter:
    """The routes of documents and collections."""
    router = APIRouter(prefix="/v1", dependencies=[Depends(known_fields)])
    _add_reading(router, service)
    _add_changing(router, service)
    return router


def _add_reading(router: APIRouter, service: Service) -> None:
    @router.get("/documents")
    async def documents(
        where: Annotated[Filter, Depends(_filter)], collection: str = "default", status: str = ""
    ) -> Response:
        """The documents of a collection that a filter means; `status` names one status."""
        rows = await service.in_thread(service.library.documents, collection, where)
        return json_reply(Listing(data=tuple(document_info(row) for row in rows if status in ("", row.status))))

    @router.get("/documents/{document_id}")
    async def document(document_id: int) -> Response:
        """One document."""
        return json_reply(document_info(await service.in_thread(service.library.document, document_id)))

    @router.get("/documents/{document_id}/pages")
    async def pages(document_id: int) -> Response:
        """All pages with their text."""
        rows = await service.in_thread(service.library.pages, document_id)
        return json_reply(Listing(data=tuple(page_info(row) for row in rows)))

    @router.get("/documents/{document_id}/pages/{number}")
    async def page(document_id: int, number: int) -> Response:
        """One page, counted from 1."""
        return json_reply(page_info(await service.in_thread(service.library.page, document_id, number)))

    @router.get("/collections")
    async def collections() -> Response:
        """All collections with their counts."""
        return json_reply(Listing(data=await service.in_thread(_collections, service)))

    @router.get("/search")
    async def search(
        q: str,
        where: Annotated[Filter, Depends(_filter)],
        collection: str = "default",
        limit: Annotated[int, Query(ge=1, le=MAX_HITS)] = 20,
    ) -> Response:
        """The best pages for the words of `q`."""
        hits = await service.in_thread(service.library.search, q, collection, limit, (), where)
        return json_reply(Listing(data=tuple(search_hit(hit) for hit in hits)))


def _filter(
    pattern: Annotated[list[str] | None, Query()] = None,
    sender: Annotated[str, Query(alias="from")] = "",
    recipient: Annotated[str, Query(alias="to")] = "",
    since: str = "",
    until: str = "",
    tag: Annotated[list[str] | None, Query()] = None,
    kind: Annotated[list[str] | None, Query()] = None,
    thread: str = "",
) -> Filter:
    """A filter from the query of an address."""
    return Filter(
        patterns=tuple(filter(None, pattern or ())),
        sender=sender,
        recipient=recipient,
        since=since,
        until=until,
        tags=tuple(filter(None, tag or ())),
        kinds=tuple(filter(None, kind or ())),
        thread=thread,
    )


def _add_changing(router: APIRouter, service: Service) -> None:
    @router.post("/documents")
    async def add(request: Request) -> Response:
        """Read files and folders of this machine; an AddEvent a line. Closing the connection stops at once: the
        file in work is dropped, what was read stays."""
        if not is_local_caller(request.scope):
            raise Refusal("files can only be added from the machine that they lie on", code="local_only")
        wanted = decode_body(await request.body(), AddFiles)
        _check_paths(wanted.paths)
        if not wanted.collection.strip() or not wanted.collection.isprintable():
            raise Refusal(f"{wanted.collection!r} is no name for a collection", param="collection")
        steps, abort = await service.steps_of_adding(wanted)
        return lines(service, adding(steps, wanted.collection, abort))

    @router.delete("/documents/{document_id}")
    async def remove(document_id: int, collection: str = "") -> Response:
        """Take the file of this document out of a collection, or out of the library; the file itself stays."""
        gone = await service.in_thread(service.library.remove_document, document_id, collection or None)
        return json_reply(Removed(id=str(document_id), documents=len(gone)))


def document_info(row: "DocumentRow") -> DocumentInfo:
    """A row of the library as it travels."""
    return DocumentInfo(
        id=row.id,
        path=row.path,
        kind=row.kind.value,
        status=row.status.value,
        reason=row.reason,
        pages=row.pages,
        tokens=row.tokens,
        sha256=row.sha256,
        parent=row.parent or None,
        parent_id=row.parent_id,
        title=row.title,
        size=row.size,
        meta=row.meta,
        date=row.date,
        dated=row.dated,
        thread=row.thread,
        tags=row.tags,
    )


def page_info(row: "PageRow") -> PageInfo:
    """A page of the library as it travels."""
    return PageInfo(
        document=row.document_id,
        number=row.number,
        label=row.label,
        text=row.text,
        flags=tuple(flag.value for flag in row.flags),
        parts=tuple(PartInfo(kind=part.kind.value, start=part.start, end=part.end) for part in row.parts),
    )


def search_hit(hit: "Hit") -> SearchHit:
    """A hit of the library as it travels."""
    return SearchHit(
        document=hit.document.path,
        page=hit.page,
        snippet=hit.snippet,
        document_id=hit.document.id,
        label=hit.label,
        all_words=hit.all_words,
    )


def _collections(service: Service) -> tuple[CollectionInfo, ...]:
    return tuple(
        CollectionInfo(
            name=row.name,
            documents=row.documents,
            pages=row.pages,
            tokens=row.tokens,
            composition=row.composition,
            statuses=service.library.counts(row.name).statuses,
        )
        for row in service.library.collections()
    )


def _check_paths(paths: tuple[str, ...]) -> None:
    for path in paths:
        if not Path(path).is_absolute() or "\0" in path:
            raise Refusal(
                f"{path!r} is not an absolute path", "the server has another working directory", param="paths"
            )
