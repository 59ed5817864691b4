"""Heavy libraries load only where they are needed: each entry point in a process of its own."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "llama_cpp")


def loaded_after(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys; print(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "unabridged.app.cli",
        "unabridged.app.server",
        "unabridged.app.assistant",
        "unabridged.app.supervisor",
        "unabridged.app.client",
        "unabridged.ui.tui",
        "unabridged.ingest.adding.add",
        "unabridged.ingest.library",
        "unabridged.models.tokenizer",
        "unabridged.models.registry",
        "unabridged.engine.events",
        "unabridged.engine.options",
        "unabridged.engine.plan.words",
        "unabridged.app.planning",
        "unabridged.app.plan_found",
        "unabridged.app.metrics",
    ],
)
def test_no_inference_library_outside_the_engine_process(module: str) -> None:
    assert loaded_after(f"import {module}").isdisjoint(HEAVY)


def test_the_command_line_starts_without_server_and_interface() -> None:
    assert loaded_after("import unabridged.app.cli").isdisjoint({"fastapi", "uvicorn", "textual", "pypdf", "pypdfium2"})


def test_the_interface_knows_no_engine_and_no_library() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import unabridged.ui.tui, sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    ours = {name for name in loaded if name.startswith("unabridged.")}
    assert not {name for name in ours if name.startswith("unabridged.ingest")}
    assert {name for name in ours if name.startswith("unabridged.engine")} <= {
        "unabridged.engine",
        "unabridged.engine.events",
    }
    assert ours.isdisjoint({"unabridged.app.assistant", "unabridged.app.server", "unabridged.app.cli"})


def test_an_engine_without_a_gpu_starts_without_kernels() -> None:
    assert "triton" not in loaded_after(
        "import unabridged.engine.worker, unabridged.engine.choice, unabridged.engine.generate"
    )
