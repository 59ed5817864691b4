"""Builds the assistant from settings and locations: the only place that knows which parts make it up. Torch-free."""

from typing import TYPE_CHECKING

from unabridged.app.errors import SettingsInvalid

if TYPE_CHECKING:
    from unabridged.app.assistant import Assistant
    from unabridged.app.locations import Locations
    from unabridged.app.settings import EngineSettings, Settings
    from unabridged.engine.events import AttentionChoice
    from unabridged.engine.options import EngineOptions
    from unabridged.ingest.library import Library

_MIB = 1 << 20


def assemble(settings: "Settings", locations: "Locations", library: "Library | None" = None) -> "Assistant":
    """An assistant whose engine is not started yet. `library`: an open one to share; otherwise it opens its own.

    Raises ModelNotFound, ModelDamaged, ModelUnsupported, LibraryDamaged.
    """
    from unabridged.app.assistant import Assistant
    from unabridged.app.conversations import Conversations
    from unabridged.app.engine_process import WorkerCommand
    from unabridged.app.supervisor import Supervisor
    from unabridged.ingest.library import Library
    from unabridged.models.registry import Registry
    from unabridged.models.tokenizer import Tokenizer

    model = Registry(locations.models).get(settings.model.name)
    command = WorkerCommand(
        backend=worker_backend(settings),
        model=model.path,
        options=engine_options(settings, locations),
        log=locations.state / "engine.log",
    )
    locations.create()
    return Assistant(
        settings=settings,
        library=library or Library.open(locations.library),
        supervisor=Supervisor(command, settings.engine.queue),
        tokenizer=Tokenizer.load(model.path),
        model=model,
        conversations=Conversations(locations.conversations),
    )


def worker_backend(settings: "Settings") -> str:
    """The worker's name of the engine that the settings ask for."""
    engine = settings.engine
    return engine.backend if engine.backend != "torch" else {"cpu": "torch"}.get(engine.device, engine.device)


def engine_options(settings: "Settings", locations: "Locations") -> "EngineOptions":
    """What the engine process is started with; 0 keeps the engine's own choice."""
    from unabridged.engine.options import EngineOptions

    engine = settings.engine
    default = EngineOptions()
    return EngineOptions(
        store_dir=locations.kv if engine.store_mib else None,
        store_bytes=engine.store_mib * _MIB,
        place=engine.place,
        vram_bytes=engine.vram_mib * _MIB,
        context_tokens=engine.context_tokens,
        kv_bytes=engine.kv_memory_mib * _MIB,
        kv_dtype=engine.kv_dtype,
        head_bits=8 if engine.int8_head else 16,
        slots=engine.slots,
        attention=_attention(engine),
        threads=engine.threads,
        prefill_chunk=engine.prefill_chunk,
        segment_tokens=engine.segment_tokens or default.segment_tokens,
    )


def _attention(engine: "EngineSettings") -> "AttentionChoice":
    """What the settings ask for. Of settings that say nothing sensible the first question hears."""
    from unabridged.app.assistant import attention_choice
    from unabridged.engine.events import AttentionChoice

    try:
        return attention_choice(engine)
    except SettingsInvalid:
        return AttentionChoice()
