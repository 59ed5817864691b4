"""/metrics: what ended requests add up to, in Prometheus' text format, behind the key as other routes are."""

import re
from collections.abc import Callable

import httpx
import msgspec
import pytest

from unabridged.app.events import Receipt
from unabridged.app.metrics import Totals, exposition
from unabridged.app.output import receipt_lines
from unabridged.app.receipt import fetched
from unabridged.app.schema import EngineHealth, Health
from unabridged.app.server import create_app
from unabridged.app.service import Service
from unabridged.app.settings import ServerSettings, Settings
from unabridged.engine.events import AttentionReport, BusReport, Finished, Ready, Usage
from unabridged.ui import format as words

BUS = BusReport(
    keys_found=90, keys_fetched=10, values_found=3, values_fetched=1, bytes=11 * 2048, steps=40, fetching=12
)
HEALTH = Health(status="ok", version="1", pid=1, engine=EngineHealth(state="ready", model='a "b"\\c', max_context=5))
READY = Ready(
    protocol=1, engine="torch", device="cuda:0", model="m", fingerprint="f", window=1, max_context=5, segment_tokens=1,
    whole=True, load_seconds=0.0, pid=1, place="host", memory=(("weights", 7), ("bank of keys", 9)), host_bytes=11,
)  # fmt: skip


def finished(bus: BusReport | None) -> Finished:
    report = AttentionReport(kind="sparse", preset="p", context=9, attended=5, coverage=0.9, bus=bus)
    usage = Usage(prompt=8, cached=5, completion=2)
    return Finished(id="r", reason="stop", usage=usage, attention=report, prefill_seconds=0.5, decode_seconds=0.25)


def samples(text: str) -> dict[str, float]:
    """Values by name and labels; every line is one, or HELP or TYPE of one that follows."""
    out, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            typed.add(line.split()[2])
            continue
        found = re.fullmatch(r'((unabridged_\w+)(?:\{(?:\w+="(?:[^"\\]|\\.)*",?)+\})?) (\S+)', line)
        assert found is not None, line
        assert found[2] in typed
        assert found[1] not in out
        out[found[1]] = float(found[3])
    return out


def test_what_ended_is_added_up() -> None:
    totals = Totals()
    totals.finished(finished(BUS))
    totals.finished(finished(BUS))
    totals.finished(finished(None))
    totals.failed()
    found = samples(exposition(HEALTH, READY, totals))
    assert found['unabridged_requests_total{end="stop"}'] == 3
    assert found['unabridged_requests_total{end="failed"}'] == 1
    assert found['unabridged_tokens_total{kind="cached"}'] == 15
    assert found['unabridged_seconds_total{phase="decode"}'] == 0.75
    assert found['unabridged_bank_pages_total{bank="keys",result="found"}'] == 180
    assert found['unabridged_bank_pages_total{bank="values",result="fetched"}'] == 2
    assert found["unabridged_bus_bytes_total"] == 2 * 11 * 2048
    assert (found["unabridged_offloaded_steps_total"], found["unabridged_waiting_steps_total"]) == (80, 24)
    assert found['unabridged_gpu_memory_planned_bytes{part="bank of keys"}'] == 9
    assert found["unabridged_host_memory_planned_bytes"] == 11
    assert found['unabridged_info{version="1",model="a \\"b\\"\\\\c"}'] == 1


async def test_without_an_engine_everything_is_zero(http: httpx.AsyncClient) -> None:
    reply = await http.get("/metrics")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = samples(reply.text)
    assert found["unabridged_engine_ready"] == found["unabridged_bus_bytes_total"] == 0


async def test_strangers_see_no_metrics(service: Service) -> None:
    service.settings = Settings(server=ServerSettings(api_key="secret"))
    transport = httpx.ASGITransport(create_app(service), client=("127.0.0.1", 50000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers={"authorization": "Bearer secret"})).status_code == 200
        assert (await client.get("/metrics", headers={"host": "evil.example"})).status_code == 403


@pytest.mark.parametrize("lines", [receipt_lines, words.receipt_lines], ids=["terminal", "interface"])
def test_the_receipt_says_what_came_over_the_bus(lines: Callable[[Receipt], list[str]]) -> None:
    receipt = Receipt(
        mode="whole", why="", model="m", engine="torch", documents=1, pages=1, tokens=1, context=1, cached=0,
        attended=1, coverage=1.0, attention="p", completion=1, seconds_to_first_token=0.1, seconds=0.2, finish="stop",
    )  # fmt: skip
    assert not any("host memory" in line for line in lines(receipt))
    found = fetched(BUS)
    assert (found.keys, found.values, found.waiting) == (0.9, 0.75, 12)
    (line,) = [line for line in lines(msgspec.structs.replace(receipt, fetched=found)) if "host memory" in line]
    assert {"90.0%", "75.0%", "12 of 40 steps"} <= set(re.findall(r"[\d.]+%|\d+ of \d+ steps", line))
