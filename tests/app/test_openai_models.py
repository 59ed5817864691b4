"""Model ids: which collection an id means, and what the list says."""

import pytest

from unabridged.app.openai_models import Limits, entries, entry, resolve
from unabridged.app.replies import Refusal
from unabridged.ingest.catalog.rows import CollectionRow

MODEL = "smollm2-135m"
NAMES = ["case", "default", "unabridged"]


@pytest.mark.parametrize(
    ("wanted", "collection"),
    [
        ("unabridged", "default"),
        (None, "default"),
        ("", "default"),
        ("default", "default"),
        ("case", "case"),
        ("case:latest", "case"),
        ("unabridged:latest", "default"),
        ("unabridged/case", "case"),
        ("unabridged/unabridged", "unabridged"),
        (MODEL, ""),
    ],
)
def test_an_id_means_one_collection(wanted: str | None, collection: str) -> None:
    assert resolve(wanted, NAMES, MODEL) == collection


@pytest.mark.parametrize("wanted", ["gpt-4o", "Case", "unabridged/none", "case/default", "/"])
def test_an_unknown_id_is_refused_with_the_known_ones(wanted: str) -> None:
    with pytest.raises(Refusal, match="unabridged, case, default") as caught:
        resolve(wanted, NAMES, MODEL)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def rows() -> list[CollectionRow]:
    return [CollectionRow(name=name, roots=(), files=1, documents=2, pages=3, tokens=4) for name in ("case", "default")]


def test_the_list_holds_collections_and_the_model_with_the_context_in_force() -> None:
    listed = entries(rows(), MODEL, Limits(context=65536, window=8192), created=17)
    assert [item["id"] for item in listed] == ["unabridged", "case", "default", MODEL]
    for item in listed:
        assert item["object"] == "model"
        assert item["owned_by"] == "unabridged"
        assert (item["context_length"], item["max_model_len"]) == (65536, 65536)
        assert item["meta"]["n_ctx_train"] == 8192
    assert listed[1]["meta"]["documents"] == 2


def test_one_model_is_found_under_every_id_that_a_request_may_carry() -> None:
    listed = entries(rows(), MODEL, Limits(context=1, window=1), created=17)
    for wanted in ("unabridged", "case", "unabridged/case", "case:latest", MODEL):
        assert entry(wanted, listed, ["case", "default"], MODEL)["id"] == wanted
    assert entry(MODEL, listed, ["case", "default"], MODEL)["meta"]["kind"] == "model"
