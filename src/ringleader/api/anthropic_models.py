"""Models as Anthropic's clients list them: pages of a list, the loaded ones first."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from ringleader.api.contracts import ModelCard
from ringleader.errors import BadRequest
from ringleader.values import Json

LIMIT_DEFAULT, LIMIT_MAX = 20, 1000


def page(cards: Sequence[ModelCard], query: Mapping[str, str]) -> dict[str, Json]:
    """One page of all models; `query` may have `limit`, `after_id` and `before_id`.

    Raises:
        BadRequest: the limit is no number of its range, or an id is not in the list.
    """
    limit = _limit(query.get("limit"))
    ids: list[str] = [card.id for card in cards]
    start, stop = 0, len(ids)
    if after := query.get("after_id"):
        start = _place(ids, after, "after_id") + 1
    if before := query.get("before_id"):
        stop = _place(ids, before, "before_id")
        start = max(start, stop - limit)
    more = stop - start > limit if not before else start > 0
    shown = [model_body(card) for card in cards[start:stop][:limit]]
    edges = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    return {"data": shown, "has_more": more, "first_id": edges[0], "last_id": edges[1]}


def model_body(card: ModelCard) -> dict[str, Json]:
    """Anthropic's model object, and what we know beyond it."""
    created = datetime.datetime.fromtimestamp(card.created, datetime.UTC)
    return {
        "type": "model",
        "id": card.id,
        "display_name": card.id,
        "created_at": created.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "lifecycle": "active",
        "max_input_tokens": card.context_max,
        "max_tokens": card.context_max,
        "loaded": card.loaded,
    }


def _limit(given: str | None) -> int:
    if given is None:
        return LIMIT_DEFAULT
    if not (given.isascii() and given.isdigit() and 1 <= int(given[:6]) <= LIMIT_MAX):
        raise BadRequest(f"limit: Input should be a number from 1 to {LIMIT_MAX}", param="limit")
    return int(given)


def _place(ids: Sequence[str], wanted: str, param: str) -> int:
    if wanted not in ids:
        raise BadRequest(f"{param}: there is no model {wanted[:64]!r} here", param=param)
    return ids.index(wanted)
