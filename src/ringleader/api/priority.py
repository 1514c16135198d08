"""Which requests go before others: `priority`, an integer as vLLM has it, and OpenAI's `service_tier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

ServiceTier = Literal["auto", "default", "flex", "scale", "priority"]

PRIORITY_MAX = 1000  # either way; each step counts for 32 requests, so that more would say nothing more
# The other tiers are about how OpenAI bills.
TIERS: Mapping[str, int] = {"flex": 1, "priority": -1}


def priority_of(priority: int | None, service_tier: str | None) -> int:
    """Lower goes first; 0 where the client said nothing. The number counts where both are given."""
    return TIERS.get(service_tier or "", 0) if priority is None else priority


def served_tier(service_tier: str) -> str:
    """What an answer says of the tier that was asked for: the one that it had here."""
    return service_tier if service_tier in TIERS else "default"
