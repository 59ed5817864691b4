"""Model ids: what a client may put into `model`, and the list it chooses from.

    unabridged          the collection "default"
    NAME                the collection of that name; also as unabridged/NAME, for names that mean something else
    the model's name    the language model itself, without documents

An id may carry ":latest", as clients made for Ollama add it. Context lengths are those in force on this machine.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from unabridged.app.replies import Refusal
from unabridged.ingest.catalog.rows import CollectionRow

DEFAULT_ID = "unabridged"
DEFAULT_COLLECTION = "default"
_PREFIX = f"{DEFAULT_ID}/"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens: of a request here and now, and of the model's training."""

    context: int
    window: int


def resolve(model: str | None, collections: Iterable[str], model_name: str) -> str:
    """The collection behind an id; "" is the model without documents. Raises Refusal with code "model_not_found"."""
    names = set(collections)
    wanted = (model or DEFAULT_ID).removesuffix(":latest")
    if wanted == DEFAULT_ID:
        return DEFAULT_COLLECTION
    if wanted in names:
        return wanted
    if wanted == model_name:
        return ""
    if wanted.startswith(_PREFIX) and wanted.removeprefix(_PREFIX) in names:
        return wanted.removeprefix(_PREFIX)
    known = ", ".join(dict.fromkeys([DEFAULT_ID, *sorted(names), model_name]))
    raise Refusal(f"the model {model!r} does not exist", f"there are: {known}", code="model_not_found", param="model")


def entries(rows: Iterable[CollectionRow], model_name: str, limits: Limits, created: int) -> list[dict[str, Any]]:
    """The list of models: "unabridged", the collections, the model itself."""
    by_name = {row.name: row for row in rows}
    listed = [_collection(DEFAULT_ID, by_name.get(DEFAULT_COLLECTION), limits, created)]
    listed += [_collection(name, row, limits, created) for name, row in by_name.items() if name != DEFAULT_ID]
    if model_name not in by_name:
        listed.append(_entry(model_name, {"kind": "model"}, limits, created))
    return listed


def entry(
    model_id: str, listed: Iterable[dict[str, Any]], collections: Iterable[str], model_name: str
) -> dict[str, Any]:
    """One model under the id that was asked for. Raises Refusal with code "model_not_found"."""
    collection = resolve(model_id, collections, model_name)
    canonical = {"": model_name}.get(collection, collection)
    found = next(item for item in listed if item["id"] == canonical)
    return {**found, "id": model_id}


def _collection(model_id: str, row: CollectionRow | None, limits: Limits, created: int) -> dict[str, Any]:
    meta: dict[str, Any] = {"kind": "collection"}
    if row is not None:
        meta |= {"collection": row.name, "documents": row.documents, "pages": row.pages, "tokens": row.tokens}
    return _entry(model_id, meta, limits, created)


def _entry(model_id: str, meta: dict[str, Any], limits: Limits, created: int) -> dict[str, Any]:
    return {
        "id": model_id,
        "object": "model",
        "created": created,
        "owned_by": "unabridged",
        "context_length": limits.context,
        "max_model_len": limits.context,
        "meta": {"n_ctx_train": limits.window, **meta},
    }
