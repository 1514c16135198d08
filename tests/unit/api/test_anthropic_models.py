"""Models in Anthropic's shape, page by page."""

from __future__ import annotations

import pytest

from ringleader.api.anthropic_models import page
from ringleader.api.contracts import ModelCard
from ringleader.errors import BadRequest
from ringleader.values import ModelId

CARDS = [ModelCard(ModelId(f"m{n}"), 1700000000 + n, loaded=n == 0, context_max=8192) for n in range(5)]


def ids(query: dict[str, str]) -> list[str]:
    return [model["id"] for model in page(CARDS, query)["data"]]


def test_a_page_has_its_models_and_says_whether_there_are_more() -> None:
    whole = page(CARDS, {})
    assert (len(whole["data"]), whole["has_more"], whole["first_id"], whole["last_id"]) == (5, False, "m0", "m4")
    first = page(CARDS, {"limit": "2"})
    assert (first["has_more"], first["last_id"]) == (True, "m1")
    assert ids({"limit": "2", "after_id": "m1"}) == ["m2", "m3"]
    assert page(CARDS, {"limit": "2", "after_id": "m3"})["has_more"] is False
    assert ids({"limit": "2", "before_id": "m3"}) == ["m1", "m2"]
    assert page([], {}) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_a_model_has_the_real_ones_fields() -> None:
    model = page(CARDS, {})["data"][0]
    assert model["created_at"] == "2023-11-14T22:13:20Z"
    assert (model["type"], model["display_name"], model["max_input_tokens"]) == ("model", "m0", 8192)


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "x"}, {"limit": "9" * 5000}, {"after_id": "none"}])
def test_a_wrong_query_is_named(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest) as caught:
        page(CARDS, query)
    assert caught.value.param in query
