"""How much a model reasons, as far as its chat template can be told: found by asking the template, never by its name.

What cannot be had as it was wished is served as the nearest thing that can, and said in a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from ringleader.language.sandbox import TemplateFault, expand, variables
from ringleader.language.traits import EFFORT, PROBE_DAY, TRAITS_MAX, USER, context
from ringleader.values import Effort

LEVELS: tuple[Effort, ...] = tuple(level for level in get_args(Effort) if level != "none")  # least first
USUAL: Effort = "medium"  # the API's word for what a model does by itself
NAMED: tuple[Effort, ...] = ("low", "medium", "high")  # what models know whose templates write any word down
OFF = ("none", "no_think")
NONSENSE = "levelprobe79"


@dataclass(frozen=True, slots=True)
class Levels:
    """What a template can be told. `known` are the levels that it tells apart, least first; `off` is its word for
    no reasoning, `off_unasked` that this is what it does by itself; `switched` that it has a switch; `opens` that
    its prompts end inside of reasoning, which can be closed."""

    known: tuple[Effort, ...] = ()
    off: str | None = None
    off_unasked: bool = False
    switched: bool = False
    opens: bool = False

    @property
    def can_stop(self) -> bool:
        """Whether the model can be kept from reasoning."""
        return self.switched or self.opens or self.off is not None

    def nearest(self, wanted: Effort) -> Effort:
        """The level that is nearest; of two, the one with more. Only where some are known."""
        place = LEVELS.index(wanted)
        return min(reversed(self.known), key=lambda level: abs(LEVELS.index(level) - place))


@dataclass(frozen=True, slots=True)
class Steered:
    """What a template is told: its switch, its level (None leaves each to it), and what the client should know."""

    thinking: bool | None
    level: str | None = None
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=TRAITS_MAX)
def levels(template: str, bos_token: str, eos_token: str, open_text: str) -> Levels:
    """What `template` can be told, by rendering it with each level. `open_text` begins the model's reasoning."""

    def shown(effort: str | None, thinking: bool = True) -> str | None:
        special, turns = (bos_token, eos_token), [{"role": "user", "content": USER}]
        try:
            given = context(template, turns, None, special, today=PROBE_DAY, thinking=thinking, effort=effort)
            return expand(template, given, PROBE_DAY)
        except TemplateFault:
            return None

    plain = shown(None)
    switched = shown(None, thinking=False) != plain
    opens = bool(open_text) and plain is not None and plain.rstrip().endswith(open_text)
    if EFFORT not in variables(template):
        return Levels(switched=switched, opens=opens)
    unknown = shown(NONSENSE)
    if unknown is not None and NONSENSE in unknown:
        known = tuple(level for level in LEVELS if level in NAMED or shown(level) == plain)
        return Levels(known, switched=switched, opens=opens)
    apart = {level for level in LEVELS if shown(level) not in (None, plain, unknown)}
    if apart and plain is not None and shown(USUAL) == plain:
        apart.add(USUAL)
    off = next((word for word in OFF if shown(word) not in (None, unknown)), None)
    off_unasked = off is not None and shown(off) == plain
    return Levels(tuple(level for level in LEVELS if level in apart), off, off_unasked, switched, opens)


def steer(can: Levels, thinking: bool | None, effort: Effort | None, *, reasons: bool) -> Steered:
    """What to tell a template for what a client wishes. `reasons`: the model is one that reasons at all."""
    if not reasons and not can.known:
        nothing = effort in (None, "none", "minimal")
        return Steered(thinking, warnings=() if nothing else (_said(effort, "this model does not reason"),))
    if thinking is False or effort == "none":
        return _stopped(can, effort)
    if effort is None:
        return Steered(thinking, can.nearest(USUAL) if thinking and can.off_unasked and can.known else None)
    if effort == "minimal" and can.can_stop and effort not in can.known:
        return Steered(False, can.off, (_said(effort, "this model does not reason then"),))
    if not can.known:
        without = () if effort == USUAL else (_said(effort, "this model knows no levels, it reasons as it does"),)
        return Steered(True, warnings=without)
    level = can.nearest(effort)
    return Steered(True, level, () if level == effort else (_said(effort, f"this model's nearest level is '{level}'"),))


def _stopped(can: Levels, effort: Effort | None) -> Steered:
    """No reasoning, or as little as the model can be brought to."""
    if can.can_stop:
        idle = effort not in (None, "none", "minimal")
        return Steered(False, can.off, (_said(effort, "it changes nothing without reasoning"),) if idle else ())
    if effort is None:
        return Steered(False)
    level = (can.known[0] if effort == "none" else can.nearest(effort)) if can.known else None
    asked = "it reasons as it does" if level is None else f"it is told '{level}'"
    return Steered(False, level, (_said(effort, f"this model cannot be kept from reasoning; {asked}"),))


def _said(effort: Effort | None, what: str) -> str:
    return f"reasoning effort '{effort}': {what}"
