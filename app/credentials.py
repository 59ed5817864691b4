"""The server's key and certificate: read from their files, which only their owner may be able to read."""

import ssl
import stat
from pathlib import Path

from unabridged.app.errors import SettingsInvalid
from unabridged.app.settings import ServerSettings

_OTHERS, _ALL = 0o077, 0o007


def with_key(settings: ServerSettings) -> ServerSettings:
    """The settings with the key that api_key_file holds. Raises SettingsInvalid."""
    if not settings.api_key_file:
        return settings
    if settings.api_key:
        raise SettingsInvalid("server.api_key and server.api_key_file are both set", "set one of them to nothing")
    file = Path(settings.api_key_file).expanduser()
    _private(file, "server.api_key_file", _OTHERS)
    lines = _read(file, "server.api_key_file").splitlines()
    key = lines[0].strip() if lines else ""
    if not key:
        raise SettingsInvalid(f"server.api_key_file {file} is empty", "write the key on its first line")
    return settings.model_copy(update={"api_key": key})


def certificate(settings: ServerSettings) -> tuple[str, str] | None:
    """Paths of the certificate and of its key; None where connections are not encrypted. Raises SettingsInvalid."""
    if not settings.tls_certificate and not settings.tls_key:
        return None
    if not settings.tls_certificate or not settings.tls_key:
        given, missing = ("tls_certificate", "tls_key") if settings.tls_certificate else ("tls_key", "tls_certificate")
        raise SettingsInvalid(f"server.{given} is set and server.{missing} is not", f"set server.{missing} too")
    chain, key = Path(settings.tls_certificate).expanduser(), Path(settings.tls_key).expanduser()
    # A group may: Debian has one for such keys.
    _private(key, "server.tls_key", _ALL)
    _read(chain, "server.tls_certificate")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, key)
    except (ssl.SSLError, OSError) as error:
        raise SettingsInvalid(
            f"{chain} and {key} are no certificate and its key: {error.strerror or error}",
            "both must be PEM, the key without a password",
        ) from error
    return str(chain), str(key)


def _private(file: Path, setting: str, bits: int) -> None:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError as error:
        raise SettingsInvalid(f"{setting} {file}: {error.strerror}", "name a file that is there") from error
    if mode & bits:
        raise SettingsInvalid(f"{setting} {file} can be read by others (mode {mode:o})", f"chmod 600 {file}")


def _read(file: Path, setting: str) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text"
        raise SettingsInvalid(f"{setting} {file}: {why}", "name a file that you may read") from error
