"""Keys and certificates: who may read their files, and a server that is reached with encryption."""

import subprocess
import sys
from pathlib import Path

import pytest

from unabridged.app import credentials, runtime
from unabridged.app.auth import check_binding
from unabridged.app.client import Client, ClientError
from unabridged.app.errors import SettingsInvalid
from unabridged.app.settings import ServerSettings, save


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key"
    file.write_text("sk-one\nanything\n")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate and its key, made for this run."""
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "cert.pem", folder / "key.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*words, "-subj", "/CN=archive", "-keyout", key, "-out", chain], check=True, capture_output=True)
    key.chmod(0o600)
    return chain, key


def test_the_key_is_the_first_line_of_its_file(key_file: Path) -> None:
    assert credentials.with_key(ServerSettings(api_key_file=str(key_file))).api_key == "sk-one"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_that_others_may_read_is_refused(key_file: Path, mode: int) -> None:
    key_file.chmod(mode)
    with pytest.raises(SettingsInvalid) as caught:
        credentials.with_key(ServerSettings(api_key_file=str(key_file)))
    assert f"mode {mode:o}" in caught.value.message
    assert caught.value.hint == f"chmod 600 {key_file}"


def test_a_missing_an_empty_and_a_second_key_are_refused(key_file: Path, tmp_path: Path) -> None:
    for settings, named in (
        (ServerSettings(api_key_file=str(tmp_path / "none")), "No such file"),
        (ServerSettings(api_key_file=str(key_file), api_key="x"), "both set"),
    ):
        with pytest.raises(SettingsInvalid, match=named):
            credentials.with_key(settings)
    key_file.write_text("\n")
    with pytest.raises(SettingsInvalid, match="is empty"):
        credentials.with_key(ServerSettings(api_key_file=str(key_file)))


def test_a_certificate_needs_its_key_and_a_key_that_not_everybody_reads(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    chain, key = map(str, pair)
    assert credentials.certificate(ServerSettings()) is None
    assert credentials.certificate(ServerSettings(tls_certificate=chain, tls_key=key)) == (chain, key)
    with pytest.raises(SettingsInvalid, match=r"server\.tls_key is not"):
        credentials.certificate(ServerSettings(tls_certificate=chain))
    with pytest.raises(SettingsInvalid, match="no certificate and its key"):
        credentials.certificate(ServerSettings(tls_certificate=key, tls_key=key))
    open_key = tmp_path / "open.pem"
    open_key.write_bytes(Path(key).read_bytes())
    open_key.chmod(0o644)
    with pytest.raises(SettingsInvalid, match="read by others"):
        credentials.certificate(ServerSettings(tls_certificate=chain, tls_key=str(open_key)))


def test_beyond_this_machine_needs_a_key_and_encryption_or_a_word(pair: tuple[Path, Path]) -> None:
    chain, key = map(str, pair)
    check_binding(ServerSettings(host="0.0.0.0", api_key="k", tls_certificate=chain, tls_key=key), exposed=False)
    for settings in (
        ServerSettings(host="0.0.0.0", tls_certificate=chain, tls_key=key),
        ServerSettings(host="::", api_key="k"),
    ):
        with pytest.raises(SettingsInvalid):
            check_binding(settings, exposed=False)


def test_settings_are_written_for_their_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    save(file, "server.api_key", "sk-two")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.thorough
async def test_a_server_with_a_certificate_is_reached_by_it_alone(pair: tuple[Path, Path], tmp_path: Path) -> None:
    chain, key = map(str, pair)
    for name, value in (("tls_certificate", chain), ("tls_key", key)):
        save(tmp_path / "config.toml", f"server.{name}", value)
    words = [sys.executable, "-P", "-m", "unabridged", "--data-dir", str(tmp_path), "serve", "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "https://127.0.0.1:" in process.stderr.readline()
        found = runtime.read(tmp_path / "run" / "server.json")
        assert found is not None
        async with Client(found.url, found.key, certificate=found.certificate) as client:
            assert (await client.health()).pid == process.pid
        async with Client(found.url, found.key) as stranger:
            with pytest.raises(ClientError, match="certificate verify failed"):
                await stranger.health()
        async with Client(found.url.replace("https", "http"), found.key) as plain:
            with pytest.raises(ClientError):
                await plain.health()
    finally:
        process.terminate()
        process.communicate(timeout=30)
