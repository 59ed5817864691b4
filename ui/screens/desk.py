"""What the parts of the main screen share: the server, the collection and its documents, one line for an error."""

from time import monotonic

from textual import work

from unabridged.models.errors import UnabridgedError
from unabridged.ui import format as words
from unabridged.ui.ports import Server
from unabridged.ui.screens.guard import Guard
from unabridged.ui.widgets.documents import Documents


class Desk(Guard[None]):
    """A screen with a documents pane, over one server and one collection."""

    def __init__(self, server: Server, collection: str) -> None:
        super().__init__()
        self._server = server
        self._collection = collection
        self._refreshed = 0.0

    @work(exclusive=True, group="documents", exit_on_error=False)
    async def _fetch(self) -> None:
        pane = self.query_one(Documents)
        self._refreshed = monotonic()
        try:
            collections = await self._server.collections()
            pane.show_collections(collections)
            known = any(collection.name == self._collection for collection in collections)
            pane.show(await self._server.documents(self._collection) if known else [])
        except UnabridgedError as error:
            self._failed(error)

    def _switch(self, collection: str) -> None:
        self._collection = self.query_one(Documents).collection = collection
        self._fetch()

    def _failed(self, error: UnabridgedError) -> None:
        self._error(error.message, error.hint)

    def _error(self, message: str, hint: str) -> None:
        self.notify(words.error_line(message, hint), severity="error", markup=False, timeout=8)
