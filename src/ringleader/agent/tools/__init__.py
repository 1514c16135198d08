"""Tools that come with Ringleader, each small and safe by default. They touch only what they are handed."""

from __future__ import annotations

from ringleader.agent.contracts import Registry
from ringleader.agent.tools import calculator, verify_fact


def builtin_tools() -> Registry:
    """A new registry of the tools that need no settings and touch nothing."""
    return Registry([verify_fact.verify_fact, calculator.calculator])
