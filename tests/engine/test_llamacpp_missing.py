import sys
from pathlib import Path

import pytest

from unabridged.engine.errors import EngineUnavailable
from unabridged.engine.llamacpp import LlamaCppBackend
from unabridged.engine.options import EngineOptions


def test_without_the_package_the_way_to_it_is_named(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(EngineUnavailable) as caught:
        LlamaCppBackend(smollm2, EngineOptions())
    assert caught.value.hint == "pip install 'unabridged[llama-cpp]'"
