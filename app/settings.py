"""What can be set: a flag before UNABRIDGED_<GROUP>_<NAME> before config.toml before the default.

`load` reads all four and says where each value came from; `save` changes one key of the file. Settings are frozen: what
runs was decided at the start. Knows no paths: the caller names the file (`app.locations`).
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unabridged.app import private
from unabridged.app.errors import SettingsInvalid

PREFIX = "UNABRIDGED_"


class Group(BaseModel):
    """A table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ModelSettings(Group):
    """Which model answers."""

    name: str = "smollm2-135m"
    """The installed model that answers, as `unabridged models list` names it."""


class EngineSettings(Group):
    """How the engine runs."""

    backend: Literal["torch", "llama-cpp"] = "torch"
    """The engine: "torch" (InfiniteHiP, whole and focused) or "llama-cpp" (GGUF models, focused only)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the engine "torch" computes: "cuda" is an NVIDIA GPU, "auto" takes one that can and the CPU otherwise."""
    place: Literal["auto", "gpu", "host"] = "auto"
    """Where a GPU's keys and values lie; "auto": in its own memory if it holds context_tokens, else in the host's."""
    vram_mib: int = Field(default=0, ge=0)
    """GPU memory in MiB that the engine may take; 0 takes what is free."""
    context_tokens: int = Field(default=0, ge=0)
    """Tokens of context that a GPU shall hold; 0 takes the model's window, and more where there is room."""
    slots: int = Field(default=0, ge=0, le=64)
    """Questions that a GPU answers at a time; 0 takes 8, or what leaves room. The CPU answers one after the other."""
    kv_dtype: Literal["auto", "float8_e4m3fn", "bfloat16", "float16", "float32"] = "auto"
    """How keys and values are stored; "auto": float16 on the CPU, float8_e4m3fn on a GPU that can, else bfloat16."""
    int8_head: bool = False
    """Keep embedding and LM head in 8 bits: half of their memory and of the time of reading them, and rounded."""
    threads: int = Field(default=0, ge=0, le=1024)
    """CPU threads of the engine; 0 takes one per core that this process may use."""
    kv_memory_mib: int = Field(default=0, ge=0)
    """Memory for keys and values in MiB, wherever they lie; 0 takes what the plan gives, on the CPU a share."""
    store_mib: int = Field(default=16384, ge=0)
    """Disk for stored keys and values in MiB, so that documents are read once; 0 stores none."""
    segment_tokens: int = Field(default=0, ge=0)
    """The longest stretch of a document that is read at once, in tokens; 0 lets the engine choose."""
    prefill_chunk: int = Field(default=0, ge=0)
    """Tokens that are read between two looks at the stop button; 0 lets the engine choose."""
    preset: str = "auto"
    """The attention preset; "auto" takes the one made for the model's window."""
    refresh: Literal["paper", "fast", "flash", "every"] = "paper"
    """How often attention looks anew at what to attend to: "every" step, or as the paper's presets."""
    overrides: tuple[str, ...] = ()
    """Single attention settings instead of the preset's, as name=value, such as k=1024 or stream=256."""
    queue: int = Field(default=32, ge=1)
    """Requests that may wait; further ones are refused with "try again later"."""


class AnswerSettings(Group):
    """How questions are answered."""

    mode: Literal["auto", "whole", "focused"] = "auto"
    """"whole" reads every document, "focused" the ones that match the question, "auto" what the model does better."""
    focus_segments: int = Field(default=0, ge=0)
    """How many sections focused mode reads; 0 takes the number that was measured for the model."""
    hints: int = Field(default=2, ge=0, le=4)
    """How many of the best matching sentences are repeated before the question, so that a small model sees them."""
    max_tokens: int = Field(default=256, ge=1)
    """The longest answer in tokens."""
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    """0 always takes the likeliest word; higher values vary more."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Draw only from the likeliest words that together have this probability."""
    repetition_penalty: float = Field(default=1.0, ge=1.0, le=2.0)
    """Above 1, words that were already said become less likely."""
    keep_history: bool = True
    """Keep questions and answers in the conversation history on this machine."""


class IngestSettings(Group):
    """How files are read."""

    workers: int = Field(default=0, ge=0, le=256)
    """Files that are read at the same time; 0 takes one per core."""
    max_file_mib: int = Field(default=512, ge=1)
    """Larger files are listed as too large and not read. Mailboxes are read in place and have no limit."""
    memory_mib: int = Field(default=1536, ge=256)
    """Memory that reading one file may take before it is stopped."""
    seconds: int = Field(default=120, ge=1)
    """Seconds that reading one file may take before it is stopped."""
    ocr: Literal["auto", "off", "all"] = "auto"
    """Recognise images and pages without a usable text layer ("auto"), all pages with pictures as well, or none."""
    ocr_languages: tuple[str, ...] = ()
    """Languages that tesseract reads (eng,deu,rus); none: those installed, of more than 6 the system's and English."""
    ocr_seconds: int = Field(default=60, ge=1, le=600)
    """Seconds of processor time that recognising one page may take."""
    watch: bool = False
    """While a server runs (`serve`, `chat`), read what changes in the folders that were added."""
    watch_seconds: int = Field(default=60, ge=1)
    """How often followed folders on network disks are looked at, whose changes nobody tells."""
    read_ahead: bool = False
    """After a followed folder has changed, let the model read the collection onto the disk (`add --prefill`)."""


class ServerSettings(Group):
    """The HTTP server."""

    host: str = "127.0.0.1"
    """The address to listen on. Anything but loopback needs an api_key."""
    port: int = Field(default=8642, ge=0, le=65535)
    """The port to listen on; 0 takes a free one."""
    api_key: str = ""
    """Clients must send this key; empty lets every program of this machine in."""
    api_key_file: str = ""
    """A file whose first line is the key, instead of api_key; only its owner may be able to read it."""
    tls_certificate: str = ""
    """A file with the certificate (PEM); with it and tls_key connections are encrypted."""
    tls_key: str = ""
    """The file with the certificate's private key (PEM)."""
    origins: tuple[str, ...] = ()
    """Web origins that browsers may call the server from; none by default."""
    ping_seconds: float = Field(default=10.0, gt=0)
    """How often a waiting client is told that the server is still at work."""


class UiSettings(Group):
    """The terminal interface."""

    theme: str = "textual-dark"
    """Name of the colour theme."""


class Settings(Group):
    """Everything that can be set."""

    model: ModelSettings = ModelSettings()
    engine: EngineSettings = EngineSettings()
    answer: AnswerSettings = AnswerSettings()
    ingest: IngestSettings = IngestSettings()
    server: ServerSettings = ServerSettings()
    ui: UiSettings = UiSettings()


Origin = Literal["flag", "environment", "file", "default"]


@dataclass(frozen=True)
class Loaded:
    """Settings in force and where each value came from. Keys are "group.name"."""

    settings: Settings
    origins: dict[str, Origin]

    def items(self) -> list[tuple[str, Any, Origin]]:
        """(key, value, origin) of every setting, in the order of this module."""
        return [(key, value_of(self.settings, key), self.origins[key]) for key in keys()]


def keys() -> list[str]:
    """Every "group.name"."""
    return [f"{group}.{name}" for group, fields in _groups().items() for name in fields.model_fields]


def describe(key: str) -> str:
    """The one line that says what a setting does."""
    group, name = _split(key, "the command line")
    return _groups()[group].model_fields[name].description or ""


def value_of(settings: Settings, key: str) -> Any:
    """The value of "group.name". Raises SettingsInvalid for an unknown key."""
    group, name = _split(key, "the command line")
    return getattr(getattr(settings, group), name)


def load(file: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Settings from `flags` ("group.name" -> value, None means not given), the environment, `file` and the defaults.

    Raises SettingsInvalid, naming the key, its value and where it stands.
    """
    layers: tuple[tuple[Origin, str, dict[str, Any]], ...] = (
        ("file", str(file), _from_file(file)),
        ("environment", "the environment", _from_environment(os.environ if environ is None else environ)),
        ("flag", "the command line", {key: value for key, value in (flags or {}).items() if value is not None}),
    )
    origins: dict[str, Origin] = dict.fromkeys(keys(), "default")
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for origin, place, layer in layers:
        for key, value in layer.items():
            _split(key, place)
            values[key], origins[key], places[key] = value, origin, place
    return Loaded(_validated(values, places), origins)


def save(file: Path, key: str, value: str) -> Settings:
    """Set one key of the file (made where it is missing) and return what the file then says.

    The value is parsed as the environment's are. Other keys stay; comments of the file do not.
    """
    _split(key, "the command line")
    values = _from_file(file) | {key: _parsed(key, value)}
    settings = _validated(values, dict.fromkeys(values, str(file)) | {key: "the command line"})
    # It may hold a key.
    private.replace(file, _toml({name: value_of(settings, name) for name in keys() if name in values}).encode())
    return settings


def variable(key: str) -> str:
    """The environment variable of "group.name"."""
    return PREFIX + key.replace(".", "_").upper()


def _groups() -> dict[str, type[Group]]:
    return {name: type(field.default) for name, field in Settings.model_fields.items()}


def _split(key: str, place: str) -> tuple[str, str]:
    group, _, name = key.partition(".")
    fields = _groups().get(group)
    if fields is None or name not in fields.model_fields:
        raise SettingsInvalid(f"unknown setting {key!r} in {place}", _did_you_mean(key))
    return group, name


def _did_you_mean(key: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, keys(), n=1)
    return f"did you mean {near[0]}?" if near else "`unabridged config` lists all of them"


def _from_file(file: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"{file} is not valid TOML: {error}", "correct the line or delete the file") from error
    except OSError as error:
        raise SettingsInvalid(f"{file} cannot be read: {error.strerror}", "check its permissions") from error
    flat: dict[str, Any] = {}
    for group, table in tables.items():
        if not isinstance(table, dict):
            raise SettingsInvalid(f"unknown setting {group!r} in {file}", "settings stand in tables such as [answer]")
        if not table and group not in _groups():
            _split(group, str(file))
        flat |= {f"{group}.{name}": value for name, value in table.items()}
    return flat


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Variables of a known group. A misspelt name in a known group is reported, not ignored."""
    found: dict[str, Any] = {}
    for variable_name, text in environ.items():
        group, _, name = variable_name.removeprefix(PREFIX).lower().partition("_")
        if variable_name.startswith(PREFIX) and name and group in _groups():
            key = f"{group}.{name}"
            _split(key, "the environment")
            found[key] = _parsed(key, text)
    return found


def _parsed(key: str, text: str) -> Any:
    """Lists are written with commas; everything else is left to the validation."""
    group, name = key.split(".", 1)
    if isinstance(_groups()[group].model_fields[name].default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _validated(values: Mapping[str, Any], places: Mapping[str, str]) -> Settings:
    nested: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        group, name = key.split(".", 1)
        nested.setdefault(group, {})[name] = value
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][:2])
        raise SettingsInvalid(
            f"setting {key} in {places.get(key, 'the settings')} cannot be {first['input']!r}", first["msg"]
        ) from error


def _toml(values: Mapping[str, Any]) -> str:
    """TOML of flat scalars and lists of strings: JSON's spelling of these is TOML's."""
    import json

    lines: list[str] = []
    group = ""
    for key, value in values.items():
        table, name = key.split(".", 1)
        if table != group:
            lines += [*([""] if lines else []), f"[{table}]"]
            group = table
        lines.append(f"{name} = {json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)}")
    return "\n".join([*lines, ""])
