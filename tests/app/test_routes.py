"""The native routes without a model, through our own client: real files, the real library."""

import json
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from unabridged.app.client import Client, ClientError
from unabridged.app.events import Added, AddEvent, FileRead, Problem, Question, Stage
from unabridged.app.service import Service


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A lease, a mail with a note attached, and a file that nobody can read."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "lease.txt").write_text("The deposit is 500 euros.\n\nIt is due on the first of May.\n")
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.org", "b@example.org", "The keys"
    mail.set_content("The keys are with the neighbour\u2028on the second floor.\n")
    mail.add_attachment("Mind the dog.", filename="note.txt")
    (folder / "keys.eml").write_bytes(mail.as_bytes())
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 8)
    return folder


async def add(client: Client, folder: Path, collection: str = "default") -> list[AddEvent]:
    return [event async for event in client.add([str(folder)], collection)]


async def test_adding_tells_every_file_and_ends_with_the_counts(client: Client, folder: Path) -> None:
    events = await add(client, folder)
    files = {Path(event.path).name: event for event in events if isinstance(event, FileRead)}
    assert {name: event.status for name, event in files.items()} == {
        "lease.txt": "read",
        "keys.eml": "read",
        "noise.bin": "unsupported",
    }
    assert files["keys.eml"].documents == 2
    assert files["noise.bin"].reason
    assert all(isinstance(event, Stage | FileRead) for event in events[:-1])
    last = events[-1]
    assert isinstance(last, Added)
    assert (last.files, last.statuses, last.changes) == (3, {"read": 2, "unsupported": 1}, {"new": 3})


async def test_what_rules_leave_out_is_counted_for_programs(http: httpx.AsyncClient, folder: Path) -> None:
    wanted = {"paths": [str(folder)], "exclude": ["*.bin"], "include": ["*.txt", "*.bin"]}
    reply = await http.post("/v1/documents", json=wanted)
    last = json.loads(reply.text.splitlines()[-1])
    assert last["statuses"] == {"read": 1}
    assert last["ignored"] == {"--exclude *.bin": 1, "no --include pattern fits": 1}


async def test_names_with_odd_separators_survive_the_lines_of_a_stream(client: Client, tmp_path: Path) -> None:
    odd = tmp_path / "a\u2028b\u0085c.txt"
    odd.write_text("Nothing special.")
    assert [event.path for event in await add(client, odd) if isinstance(event, FileRead)] == [str(odd)]


async def test_how_a_collection_is_read_is_said_when_files_are_added_and_stays(client: Client, folder: Path) -> None:
    await add(client, folder)
    events = [event async for event in client.add([str(folder)], "case", composition="joint")]
    assert isinstance(events[-1], Added)
    await add(client, folder, "case")
    assert {row.name: row.composition for row in await client.collections()} == {
        "case": "joint",
        "default": "auto",
    }


async def test_documents_are_listed_narrowed_and_shown(client: Client, folder: Path) -> None:
    await add(client, folder)
    listed = await client.documents()
    assert [Path(row.path).name for row in listed] == ["keys.eml", "note.txt", "lease.txt", "noise.bin"]
    note = listed[1]
    assert (note.parent, note.parent_id) == (listed[0].path, listed[0].id)
    assert listed[2].parent is None
    assert len(listed[2].sha256) == 64
    assert [row.id for row in await client.documents(pattern="lease")] == [listed[2].id]
    assert [row.id for row in await client.documents(status="unsupported")] == [listed[3].id]
    assert await client.document(note.id) == note
    pages = await client.pages(listed[0].id)
    assert "neighbour" in pages[0].text
    assert await client.page(listed[0].id, 1) == pages[0]


async def test_search_finds_the_page_and_says_where(client: Client, folder: Path) -> None:
    await add(client, folder)
    hits = await client.search("deposit euros")
    assert [Path(hit.document).name for hit in hits] == ["lease.txt"]
    assert hits[0].page == 1
    assert "500 euros" in hits[0].snippet


async def test_a_document_leaves_one_collection_or_all(client: Client, folder: Path) -> None:
    await add(client, folder)
    await add(client, folder, "other")
    lease = (await client.documents(pattern="lease"))[0].id
    assert [row.name for row in await client.collections()] == ["default", "other"]
    assert (await client.remove(lease, "other")).documents == 1
    assert not await client.documents("other", "lease")
    assert await client.documents(pattern="lease")
    await client.remove(lease)
    assert not await client.documents(pattern="lease")
    assert (folder / "lease.txt").exists()


@pytest.mark.parametrize(
    ("path", "code", "status"),
    [
        ("/v1/documents?collection=none", "collection_not_found", 404),
        ("/v1/documents/77", "document_not_found", 404),
        ("/v1/documents/77/pages/1", "document_not_found", 404),
        ("/v1/documents/many", "invalid_request", 400),
        ("/v1/search", "invalid_request", 400),
        ("/v1/search?q=x&limit=0", "invalid_request", 400),
        ("/v1/conversations/none", "conversation_not_found", 404),
        ("/v1/none", "not_found", 404),
        ("/v1/ask", "method_not_allowed", 405),
        ("/docs", "not_found", 404),
    ],
)
async def test_every_failure_has_openais_shape(http: httpx.AsyncClient, path: str, code: str, status: int) -> None:
    reply = await http.get(path)
    assert reply.status_code == status
    error = reply.json()["error"]
    assert error["code"] == code
    assert set(error) >= {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "body", "param"),
    [
        ("GET", "/v1/search?q=x&fromm=otto", None, "fromm"),
        ("GET", "/v1/documents?sender=otto", None, "sender"),
        ("GET", "/v1/collections?q=x", None, "q"),
        ("POST", "/v1/ask?mode=whole", {"text": "When?"}, "mode"),
        ("POST", "/v1/ask", {"text": "When?", "sender": "otto"}, "sender"),
        ("POST", "/v1/ask", {"text": "When?", "sampling": {"temprature": 1}}, "sampling.temprature"),
        ("POST", "/v1/chat/completions", {"messages": [], "unabridged": {"sender": "otto"}}, "unabridged.sender"),
    ],
)
async def test_what_a_route_does_not_know_is_refused_by_its_name(
    http: httpx.AsyncClient, method: str, path: str, body: dict[str, object] | None, param: str
) -> None:
    reply = await http.request(method, path, json=body)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == param
    assert param in error["message"]


async def test_openais_own_fields_are_not_refused(http: httpx.AsyncClient) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "store": False, "user": "me"}
    assert (await http.post("/v1/chat/completions?api-version=1", json=body)).json()["error"]["code"] == "no_model"


async def test_a_path_that_is_not_there_ends_the_stream_with_a_problem(client: Client, tmp_path: Path) -> None:
    events = [event async for event in client.add([str(tmp_path / "none")])]
    assert isinstance(events[-1], Problem)
    assert events[-1].code == "path_not_found"


async def test_relative_paths_are_refused_before_anything_is_read(client: Client) -> None:
    events = [event async for event in client.add(["case"])]
    assert [type(event) for event in events] == [Problem]
    with pytest.raises(ClientError) as caught:
        await client.document(77)
    assert (caught.value.code, caught.value.status) == ("document_not_found", 404)
    assert str(caught.value).count(caught.value.hint) == 1


async def test_without_a_model_documents_work_and_questions_say_what_is_missing(
    client: Client, service: Service, folder: Path
) -> None:
    await add(client, folder)
    events = [event async for event in client.ask(Question(text="What is the deposit?"))]
    assert [type(event) for event in events] == [Problem]
    assert isinstance(events[0], Problem)
    assert events[0].code == "no_model"
    assert "models add" in events[0].hint
    health = await client.health()
    assert (health.status, health.engine.state) == ("failed", "failed")
    assert "smollm2-135m" in health.engine.message


async def test_openais_routes_say_the_same_in_their_shape(http: httpx.AsyncClient) -> None:
    messages = [{"role": "user", "content": "hi"}]
    for stream in (False, True):
        reply = await http.post("/v1/chat/completions", json={"messages": messages, "stream": stream})
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "no_model"
        # The client would wait and ask twice more in vain.
        assert reply.headers["x-should-retry"] == "false"
    assert [item["id"] for item in (await http.get("/v1/models")).json()["data"]] == [
        "unabridged",
        "default",
        "smollm2-135m",
    ]


async def test_an_unreachable_server_is_a_client_error_and_a_problem() -> None:
    async with Client("http://127.0.0.1:9") as nobody:
        with pytest.raises(ClientError) as caught:
            await nobody.health()
        assert caught.value.code == "server_unreachable"
        events = [event async for event in nobody.ask(Question(text="hi"))]
    assert [type(event) for event in events] == [Problem]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", '{"x":' + "[" * 100_000 + "]" * 100_000 + "}", None),
        ("/v1/ask", '{"text": "When?", "sampling": {"seed": 1180591620717411303424}}', "sampling.seed"),
        ("/v1/ask", '{"text": "When?", "sampling": {"top_k": 1180591620717411303424}}', "sampling.top_k"),
        ("/v1/chat/completions", '{"messages": [{"role": "user", "content": "a"}], "seed": 1' + "0" * 30 + "}", "seed"),
        (
            "/v1/chat/completions",
            '{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1' + "0" * 400 + "}",
            "max_tokens",
        ),
        ("/v1/documents", '{"paths": ["/tmp"], "collection": " "}', "collection"),
        ("/v1/documents", '{"paths": ["/tmp"], "collection": "a\\u0000b"}', "collection"),
    ],
)
async def test_bodies_beyond_measure_are_refused(
    http: httpx.AsyncClient, path: str, body: str, param: str | None
) -> None:
    reply = await http.post(path, content=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_a_page_number_beyond_measure_is_not_there(client: Client, folder: Path) -> None:
    await add(client, folder)
    for number in (0, -1, 10**30):
        with pytest.raises(ClientError) as caught:
            await client.page(1, number)
        assert caught.value.code == "document_not_found"


async def test_a_damaged_history_is_named_and_harms_nothing_else(client: Client, service: Service) -> None:
    service.conversations.path.write_bytes(b"no database at all " * 400)
    with pytest.raises(ClientError) as caught:
        await client.conversations()
    assert caught.value.code == "history_unavailable"
    assert "move conversations.db away" in caught.value.hint
    assert [row.name for row in await client.collections()] == ["default"]


async def test_a_caller_who_leaves_in_the_middle_of_a_body_is_no_defect(app: FastAPI) -> None:
    messages = iter([{"type": "http.request", "body": b'{"te', "more_body": True}])
    statuses: list[int] = []

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "POST", "path": "/v1/ask", "raw_path": b"/v1/ask", "query_string": b""}
    scope |= {"headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 50000), "http_version": "1.1"}
    scope |= {"scheme": "http", "server": ("127.0.0.1", 8642), "root_path": ""}
    await app(scope, receive, send)
    assert statuses[0] == 499
