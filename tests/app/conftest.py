"""Fixtures of the tests of commands and of HTTP: a data directory of its own, commands over it, the app, spoken to
without a socket, and the default model's tokenizer."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from unabridged.app import cli
from unabridged.app.client import Client
from unabridged.app.locations import Locations
from unabridged.app.server import create_app
from unabridged.app.service import Service
from unabridged.app.settings import Settings
from unabridged.models.tokenizer import Tokenizer

RUNTIME_KEY = "key-of-this-run"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command over a data directory of the test's own: (exit code, standard output, standard error)."""
    monkeypatch.setenv("UNABRIDGED_DATA_DIR", str(tmp_path / "data"))

    def go(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = cli.run(list(arguments))
        out, error = capfd.readouterr()
        return code, out, error

    return go


@pytest.fixture
def locations(tmp_path: Path) -> Locations:
    """A fresh data directory without a model."""
    found = Locations.below(tmp_path / "data")
    found.create()
    return found


@pytest.fixture
async def service(locations: Locations) -> AsyncIterator[Service]:
    """An open service whose model is not installed."""
    opened = Service(Settings(), locations)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def app(service: Service) -> FastAPI:
    """The app over it."""
    return create_app(service, runtime_key=RUNTIME_KEY)


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the app, as a program of this machine."""
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 50000), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
        yield client


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[Client]:
    """Our client of the app, as a program of this machine."""
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 50000), raise_app_exceptions=False)
    async with Client("http://127.0.0.1:8642", "any", transport=transport) as client:
        yield client


@pytest.fixture(scope="session")
def tokenizer(models_dir: Path) -> Tokenizer:
    """The default model's."""
    return Tokenizer.load(models_dir / "smollm2-135m")
