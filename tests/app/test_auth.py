"""Who may call: host, origin, key and size, through the app itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from unabridged.app.auth import check_binding, is_loopback
from unabridged.app.errors import SettingsInvalid
from unabridged.app.locations import Locations
from unabridged.app.server import create_app
from unabridged.app.service import Service
from unabridged.app.settings import ServerSettings, Settings

RUNTIME_KEY = "key-of-this-run"
LOCAL = ("127.0.0.1", 50000)
PAGE = "https://app.example"


def client(service: Service, *, caller: tuple[str, int] = LOCAL, max_body: int = 1000) -> httpx.AsyncClient:
    app = create_app(service, runtime_key=RUNTIME_KEY, max_body=max_body)
    transport = httpx.ASGITransport(app, client=caller, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642")


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Service]:
    """A service with an API key and one allowed web origin."""
    locations = Locations.below(tmp_path)
    locations.create()
    service = Service(Settings(server=ServerSettings(api_key="sk-right", origins=(PAGE,))), locations)
    await service.open()
    yield service
    await service.close()


@pytest.mark.parametrize("host", ["127.0.0.1:8642", "localhost", "LocalHost:1", "[::1]:8642", "127.8.0.1"])
async def test_names_of_this_machine_are_answered(service: Service, host: str) -> None:
    async with client(service) as http:
        assert (await http.get("/v1/collections", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"])
async def test_a_foreign_name_is_refused_so_that_dns_rebinding_fails(service: Service, host: str) -> None:
    async with client(service) as http:
        reply = await http.get("/v1/collections", headers={"Host": host})
    assert reply.status_code == 403
    assert reply.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("origin", [PAGE, "null", "http://127.0.0.1:3000", "http://localhost:8642"])
async def test_web_pages_are_refused_unless_listed(service: Service, origin: str) -> None:
    async with client(service) as http:
        reply = await http.post("/v1/ask", json={"text": "hi"}, headers={"Origin": origin})
    assert reply.status_code == 403
    assert reply.json()["error"]["code"] == "origin_not_allowed"
    assert "access-control-allow-origin" not in reply.headers


async def test_our_own_origin_is_not_foreign(service: Service) -> None:
    async with client(service) as http:
        reply = await http.get("/v1/collections", headers={"Origin": "http://127.0.0.1:8642"})
    assert reply.status_code == 200


async def test_a_listed_page_gets_the_headers_that_openais_client_needs(keyed: Service) -> None:
    asked = "authorization,content-type,x-stainless-os,x-evil"
    preflight = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": asked,
    }
    async with client(keyed) as http:
        granted = await http.options("/v1/chat/completions", headers=preflight)
        called = await http.get("/v1/collections", headers={"Origin": PAGE, "Authorization": "Bearer sk-right"})
        refused = await http.get("/v1/collections", headers={"Origin": PAGE})
    assert granted.status_code == 204
    assert granted.headers["access-control-allow-headers"] == "authorization, content-type, x-stainless-os"
    assert called.status_code == 200
    # A page must be able to read why it was refused.
    assert [reply.headers["access-control-allow-origin"] for reply in (granted, called, refused)] == [PAGE] * 3
    assert refused.status_code == 401


@pytest.mark.parametrize(
    "header", [None, "Bearer sk-wrong", "Bearer ", "Basic sk-right", "sk-right", "Bearer sk-rightx"]
)
async def test_a_wrong_or_missing_key_is_refused_in_openais_shape(keyed: Service, header: str | None) -> None:
    async with client(keyed) as http:
        reply = await http.get("/v1/models", headers={"Authorization": header} if header else {})
    assert reply.status_code == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    error = reply.json()["error"]
    assert (error["code"], error["type"], error["param"]) == ("invalid_api_key", "authentication_error", None)


@pytest.mark.parametrize("key", ["sk-right", RUNTIME_KEY])
async def test_the_configured_key_and_that_of_the_runtime_file_are_good(keyed: Service, key: str) -> None:
    async with client(keyed) as http:
        assert (await http.get("/v1/collections", headers={"Authorization": f"Bearer {key}"})).status_code == 200


async def test_any_key_is_good_when_none_is_configured(service: Service) -> None:
    async with client(service) as http:
        assert (await http.get("/v1/collections", headers={"Authorization": "Bearer whatever"})).status_code == 200


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer sk-right"}])
async def test_shutdown_needs_the_key_of_the_runtime_file(keyed: Service, header: dict[str, str]) -> None:
    async with client(keyed) as http:
        assert (await http.post("/v1/shutdown", headers=header)).status_code == 401
        assert not keyed.stopping.is_set()
        assert (await http.post("/v1/shutdown", headers={"Authorization": f"Bearer {RUNTIME_KEY}"})).status_code == 200
    assert keyed.stopping.is_set()


async def test_health_is_public_but_says_little_to_strangers(keyed: Service) -> None:
    async with client(keyed) as http:
        stranger = (await http.get("/health")).json()
        owner = (await http.get("/health", headers={"Authorization": "Bearer sk-right"})).json()
    assert stranger["engine"]["model"] == ""
    assert owner["engine"]["model"] == "smollm2-135m"


async def test_a_large_body_is_refused_by_its_length_and_by_what_arrives(service: Service) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    async with client(service) as http:
        announced = await http.post("/v1/ask", content=b"x" * 1001)
        chunked = await http.post("/v1/ask", content=chunks())
        small = await http.post("/v1/ask", content=b"x" * 1000)
    assert [announced.status_code, chunked.status_code, small.status_code] == [413, 413, 400]
    assert announced.json()["error"]["code"] == chunked.json()["error"]["code"] == "request_too_large"


async def test_files_are_only_added_from_this_machine(service: Service, tmp_path: Path) -> None:
    async with client(service, caller=("192.0.2.7", 4711)) as http:
        reply = await http.post("/v1/documents", json={"paths": [str(tmp_path)]})
    assert reply.status_code == 403
    assert reply.json()["error"]["code"] == "local_only"


@pytest.mark.parametrize(
    ("settings", "exposed", "named"),
    [
        (ServerSettings(host="0.0.0.0"), True, "server.api_key"),
        (ServerSettings(host="0.0.0.0", api_key="sk"), False, "--expose"),
        (ServerSettings(host="::", api_key="sk"), False, "--expose"),
        (ServerSettings(host="box.example"), True, "server.api_key"),
        (ServerSettings(origins=("*",)), False, "origins"),
    ],
)
def test_listening_beyond_this_machine_takes_a_key_and_a_word(
    settings: ServerSettings, exposed: bool, named: str
) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        check_binding(settings, exposed=exposed)


def test_loopback_and_deliberate_exposure_are_allowed() -> None:
    check_binding(ServerSettings(), exposed=False)
    check_binding(ServerSettings(host="::1"), exposed=False)
    check_binding(ServerSettings(host="0.0.0.0", api_key="sk"), exposed=True)


def test_what_loopback_is() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.255.0.3", "::1", "[::1]", "localhost", "localhost.")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "example.org", "localhost.example.org", "10.0.0.1")))
