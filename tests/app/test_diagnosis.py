"""What doctor finds."""

import subprocess
import sys
from pathlib import Path

import pytest

from unabridged.app import cli, runtime
from unabridged.app.diagnosis import diagnose
from unabridged.app.finding import Finding
from unabridged.app.locations import Locations
from unabridged.models.quantise.unfinished import folder_of, to_install
from unabridged.models.quantise.work import working


def _of(locations: Locations, check: str) -> list[Finding]:
    return [finding for finding in diagnose(locations) if finding.check == check]


def test_a_missing_model_is_a_failure_with_its_remedy(locations: Locations) -> None:
    (finding,) = _of(locations, "models")
    assert (finding.level, finding.remedy) == ("fail", "unabridged models add smollm2-135m")


def test_unfinished_quantising_is_named_with_its_size_and_its_remedy(locations: Locations) -> None:
    output = to_install(locations.models, "mine-awq")
    with working(output, 3) as work:
        work.start("of these inputs")
        (work.model / work.shard(1)).write_bytes(bytes(5 << 20))
        running = _of(locations, "models")[0]
    assert (running.level, running.remedy) == ("ok", "")
    assert running.text.startswith("mine-awq, being quantised, 5.2 MB in ")
    left = _of(locations, "models")[0]
    assert (left.level, left.text) == ("warn", f"mine-awq, not fully quantised, 5.2 MB in {folder_of(output)}")
    assert left.remedy.endswith(f"rm -r {folder_of(output)}")


def test_a_damaged_library_is_a_failure(locations: Locations) -> None:
    locations.library.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    (finding,) = _of(locations, "library")
    assert finding.level == "fail"
    assert finding.remedy


def test_wrong_settings_are_named(locations: Locations) -> None:
    locations.config_file.write_text("[answer]\nmod = 1\n")
    (finding,) = _of(locations, "settings")
    assert (finding.level, "answer.mod" in finding.text) == ("fail", True)


def test_a_running_server_is_seen(locations: Locations) -> None:
    assert "none runs" in _of(locations, "server")[0].text
    with runtime.ServerLock(locations.server_lock):
        (finding,) = _of(locations, "server")
    assert finding.level == "ok"
    assert "none runs" not in finding.text


def test_a_loopback_that_is_down_is_a_failure_with_the_way_out(locations: Locations) -> None:
    assert _of(locations, "loopback") == []
    code = "from unabridged.app.machine_found import look; print([one for one in look() if one.check == 'loopback'])"
    words = ["unshare", "-r", "-n", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip("needs a user namespace")
    assert ("level='fail'" in done.stdout, "ip link set lo up" in done.stdout) == (True, True), (
        done.stdout + done.stderr
    )


def test_looking_changes_nothing(tmp_path: Path) -> None:
    list(diagnose(Locations.below(tmp_path / "fresh")))
    assert not (tmp_path / "fresh").exists()


def test_doctor_exits_1_when_something_fails(
    locations: Locations, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNABRIDGED_DATA_DIR", str(locations.data))
    assert cli.run(["doctor"]) == cli.FAILED
    assert "the model smollm2-135m is not installed" in capsys.readouterr().out
