"""The small model that `ringleader node --draft-model` names: what it weighs, and which models it can draft for.

Its tokenizer must be theirs. For a model that was named at the start, another one is an error; any other is served
without its drafts, which the log says once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from ringleader.cluster.messages import PlanWish
from ringleader.errors import BadRequest
from ringleader.models.headers import read_costs
from ringleader.models.store import Store
from ringleader.node.shelf import Entry
from ringleader.shard.families import check_family
from ringleader.tokenizer import Tokenizer, difference, load_tokenizer
from ringleader.values import Draft, ModelId

log = logging.getLogger("ringleader.node")


@dataclass(slots=True)
class DraftModel:
    """One that was found here, with the models that it was compared with."""

    draft: Draft
    tokenizer: Tokenizer
    _suits: dict[ModelId, bool] = field(default_factory=dict)

    def wish(self, wish: PlanWish, entry: Entry) -> PlanWish:
        """The wish for this model: with the drafts of ours, where they suit it."""
        suits = self._suits.get(entry.model)
        if suits is None:
            unlike = difference(entry.voice.tokenizer, self.tokenizer)
            suits = self._suits[entry.model] = not unlike
            if unlike:
                log.warning(
                    "%s is served without drafts of %s, whose tokenizer is another one: %s",
                    entry.model,
                    self.draft.reference,
                    unlike,
                )
        return replace(wish, draft=self.draft) if suits else wish


def find_draft_model(store: Store, reference: str, served: tuple[str, ...]) -> DraftModel | None:
    """The draft model that `reference` names, if it names one, for the models that are named at the start. Reads files
    for some seconds.

    Raises BadRequest where its tokenizer is not that of each of these, and as `Store.resolve` and `read_costs`.
    """
    if not reference:
        return None
    directory = store.resolve(reference)
    costs = read_costs(directory, store.model_id(reference))
    check_family(costs.family)
    tokenizer = load_tokenizer(directory)
    for name in served:
        if unlike := difference(load_tokenizer(store.resolve(name)), tokenizer):
            raise BadRequest(
                f"--draft-model {reference} cannot draft for {name}: its tokenizer is another one: {unlike}. "
                "Take a small model of the same family, or leave it out",
                param="draft_model",
            )
    portable = str(directory) if Path(reference).expanduser().exists() else reference
    return DraftModel(Draft(portable, costs.weight_bytes, sum(costs.kv_bytes_per_token)), tokenizer)
