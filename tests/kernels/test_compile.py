"""Every launch compiles for an RTX 4090 (sm_89) and an H200 (sm_90), fits into shared memory and spills nothing.

Launches for an H200 alone ("@90") may have its shared memory, and spill a few words: a bound on registers that lets two
programs share a multiprocessor spills what loops do not use.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.compile_plans import Needs, cards, known

# For one program, less what the driver takes.
SHARED = {"RTX 4090": 99 * 1024, "H200": 227 * 1024}
# Bytes: heads of 256 spill while decoding, on either card (no model that the engine runs has them yet), and a few words
# of dense decoding do on an H200.
SPILLS = {
    "attend_decode/8b-dense-bf16": 32,
    "attend_decode/256": 512,
    "attend_decode/256-dense": 1024,
    "attend_decode/256-extend": 512,
}
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.thorough
PLANS = [(name, card) for slow in (False, True) for name in known(slow) for card in cards(name)]


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Needs]:
    """What the launches of this run's tests need; compiled in another process, as the interpreter may rule this one."""
    here = [item for item in request.session.items if item.path == request.path]
    names = [str(item.callspec.params["plan"]) for item in here if isinstance(item, pytest.Function)]
    environment = {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.kernels.compile_plans", "--json", *names]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Needs] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("plan", "capability"), PLANS)
def test_fits(plan: str, capability: int, compiled: dict[str, Needs]) -> None:
    needs = compiled[f"{plan}/{capability}"]
    assert "error" not in needs, needs["error"]
    large = plan.endswith("@90")
    shared = SHARED["H200" if large else "RTX 4090"]
    assert needs["shared"] <= shared, f"{plan}, sm_{capability}: {needs['shared']} bytes of shared memory"
    allowed = SPILLS.get(plan, 32 if large else 0)
    assert needs["local"] <= allowed, f"{plan}, sm_{capability}: spills {needs['local']} bytes a thread"
