"""Finding a server or starting one."""

import asyncio
import os
from pathlib import Path

import httpx
import pytest

from unabridged.app import runtime
from unabridged.app.client import ClientError
from unabridged.app.errors import ServerUnreachable
from unabridged.app.events import Stage
from unabridged.app.launch import connect, wait_for_engine
from unabridged.app.locations import Locations
from unabridged.app.settings import ModelSettings, ServerSettings, Settings
from unabridged.engine.errors import EngineUnavailable


async def test_a_server_is_started_shared_and_ended_with_the_one_who_started_it(locations: Locations) -> None:
    said: list[Stage] = []
    settings = Settings(model=ModelSettings(name="none-of-this-name"))
    async with connect(settings, locations, on_stage=said.append) as client:
        pid = (await client.health()).pid
        async with connect(settings, locations) as other:
            assert (await other.health()).pid == pid
        assert (await client.health()).pid == pid
        with pytest.raises(EngineUnavailable, match="none-of-this-name"):
            await wait_for_engine(client)
        with pytest.raises(ClientError, match="none-of-this-name"):
            async with connect(settings, locations, model="smollm2-135m"):
                pass
    assert [stage.name for stage in said] == ["start"]
    assert not runtime.alive(pid)
    assert not locations.server_file.exists()


@pytest.mark.slow
async def test_two_programs_that_start_at_once_share_one_server(locations: Locations) -> None:
    together = asyncio.Barrier(2)

    async def program() -> int:
        async with connect(Settings(), locations) as client:
            pid = (await client.health()).pid
            await together.wait()
            return pid

    first, second = await asyncio.gather(program(), program())
    assert first == second


@pytest.mark.slow
async def test_no_module_of_the_users_folder_is_taken_for_a_library(
    locations: Locations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong click')")
    monkeypatch.chdir(tmp_path)
    async with connect(Settings(), locations) as client:
        assert (await client.health()).pid != os.getpid()


@pytest.mark.slow
async def test_what_a_killed_server_left_behind_is_no_hindrance(locations: Locations) -> None:
    gone = runtime.Running(url="http://127.0.0.1:9", pid=os.getpid(), key="k", version="1")
    runtime.write(locations.server_file, gone)
    async with connect(Settings(), locations) as client:
        assert (await client.health()).pid != os.getpid()


@pytest.mark.slow
async def test_a_server_that_is_about_to_end_is_waited_for(locations: Locations) -> None:
    together = asyncio.Event()

    async def ending() -> None:
        with runtime.ServerLock(locations.server_lock):
            together.set()
            await asyncio.sleep(4)

    holding = asyncio.create_task(ending())
    await together.wait()
    async with connect(Settings(), locations) as client:
        assert (await client.health()).pid != os.getpid()
    await holding


@pytest.mark.slow
async def test_flags_hold_against_the_settings_file_of_the_server(locations: Locations) -> None:
    locations.config_file.write_text('[model]\nname = "other"\n')
    async with connect(Settings(), locations, model="smollm2-135m") as client:
        assert (await client.health()).engine.model == "smollm2-135m"


@pytest.mark.slow
async def test_a_server_that_cannot_start_is_explained_by_its_log(locations: Locations) -> None:
    locations.library.write_bytes(b"this is not a database" * 100)
    with pytest.raises(ServerUnreachable) as caught:
        async with connect(Settings(), locations):
            pass
    assert str(locations.library) in caught.value.message
    assert str(locations.log) in caught.value.hint


@pytest.mark.slow
async def test_settings_of_the_caller_hold_in_the_server(locations: Locations) -> None:
    settings = Settings(server=ServerSettings(api_key="sk-mine", origins=("https://a.example", "https://b.example")))
    async with connect(settings, locations) as client:
        found = runtime.read(locations.server_file)
        assert found is not None
        async with httpx.AsyncClient(base_url=found.url, trust_env=False) as stranger:
            assert (await stranger.get("/v1/collections")).status_code == 401
            page = {"Origin": "https://b.example", "Authorization": "Bearer sk-mine"}
            assert (await stranger.get("/v1/collections", headers=page)).status_code == 200
        assert await client.collections()
