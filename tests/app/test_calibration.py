"""`models calibrate`: which text is read, and that the result is stored with the model it was made for."""

import json
from pathlib import Path

import pytest
from tests.engine.tiny import save_tiny

from unabridged.app.calibration import PIECES, calibrate
from unabridged.engine.attention.index_basis import load
from unabridged.models.errors import ModelUnsupported
from unabridged.models.registry import Problem, Registry

PROSE = " ".join(f"The {number}th ferry left the old harbour before the market closed." for number in range(2000))


def test_the_result_is_stored_with_the_model(tmp_path: Path) -> None:
    model = Registry(save_tiny(tmp_path / "mine").parent).get("mine")
    text = tmp_path / "prose.txt"
    text.write_text(PROSE)
    told: list[str] = []
    path = calibrate(model, [text], told.append)
    assert path == model.calibration
    found = load(path, model.fingerprint)
    assert len(found.layers) == 2
    assert found.tokens == PIECES * int(told[0].split()[-2])
    assert Problem(path.name, "is not part of the model") not in Registry(tmp_path).verify("mine")


def test_a_model_whose_attention_needs_the_cpu_is_refused(tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "mine")
    raw = json.loads((folder / "config.json").read_text())
    raw |= {"architectures": ["MistralForCausalLM"], "sliding_window": 64}
    (folder / "config.json").write_text(json.dumps(raw))
    text = tmp_path / "prose.txt"
    text.write_text(PROSE)
    with pytest.raises(ModelUnsupported, match="mine needs no calibration: layers with a sliding window"):
        calibrate(Registry(tmp_path).get("mine"), [text], print)
