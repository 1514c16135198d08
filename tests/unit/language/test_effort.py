"""How much a model reasons, on small templates that are told it in the ways that real ones know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringleader.language.effort import Levels, Steered, levels, steer
from ringleader.language.prompt import compose, voice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Effort
from tests.unit.language.builders import request
from tests.unit.language.vocabulary import CHATML, with_template

ECHO = CHATML + "{% if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}"
ECHO += "{{ 'Reasoning: ' + reasoning_effort }}"
BEYOND = CHATML + "{% if reasoning_effort in ['high', 'max'] %}{{ reasoning_effort }}{% endif %}<think>"
STRICT = (
    "{% if reasoning_effort is not defined %}{% set reasoning_effort = 'no_think' %}"
    "{% elif reasoning_effort not in ['high', 'low', 'no_think'] %}{{ raise_exception('no') }}{% endif %}"
    + CHATML
    + "<think>{% if reasoning_effort == 'no_think' %}</think>{% endif %}"
)
NONE_ONLY = CHATML + "{% if reasoning_effort == 'none' %}<think></think>{% endif %}"
SWITCH = CHATML + "{% if enable_thinking is false %}<think></think>{% endif %}"


@pytest.mark.parametrize(
    ("template", "known"),
    [
        (CHATML, Levels()),
        (CHATML + "<think>", Levels(opens=True)),
        (SWITCH, Levels(switched=True)),
        (ECHO, Levels(("low", "medium", "high"))),
        (BEYOND, Levels(("medium", "high", "max"), opens=True)),
        (STRICT, Levels(("low", "high"), "no_think", off_unasked=True)),
        (NONE_ONLY, Levels((), "none")),
        ("{{ broken", Levels()),
    ],
)
def test_a_template_is_asked_what_it_can_be_told(template: str, known: Levels) -> None:
    assert levels(template, "", "", "<think>") == known


ALWAYS = Levels(("low", "medium", "high"))
CLOSED = Levels(opens=True)
HUNYUAN = Levels(("low", "high"), "no_think", off_unasked=True)
DEEPSEEK = Levels(("medium", "high", "max"), switched=True, opens=True)


@pytest.mark.parametrize(
    ("can", "effort", "told", "said"),
    [
        (ALWAYS, "high", Steered(True, "high"), ""),
        (ALWAYS, "xhigh", Steered(True, "high"), "nearest level is 'high'"),
        (ALWAYS, "minimal", Steered(True, "low"), "nearest level is 'low'"),
        (ALWAYS, "none", Steered(False, "low"), "cannot be kept from reasoning; it is told 'low'"),
        (Levels(), "none", Steered(False), "cannot be kept from reasoning; it reasons as it does"),
        (Levels(), "low", Steered(True), "knows no levels"),
        (CLOSED, "none", Steered(False), ""),
        (CLOSED, "minimal", Steered(False), "does not reason then"),
        (CLOSED, "medium", Steered(True), ""),
        (CLOSED, "high", Steered(True), "knows no levels"),
        (HUNYUAN, "none", Steered(False, "no_think"), ""),
        (HUNYUAN, "minimal", Steered(False, "no_think"), "does not reason then"),
        (HUNYUAN, "medium", Steered(True, "high"), "nearest level is 'high'"),
        (HUNYUAN, None, Steered(None), ""),
        (DEEPSEEK, "low", Steered(True, "medium"), "nearest level is 'medium'"),
        (DEEPSEEK, "xhigh", Steered(True, "max"), "nearest level is 'max'"),
    ],
)
def test_an_effort_becomes_the_nearest_thing_that_the_model_can(
    can: Levels, effort: Effort | None, told: Steered, said: str
) -> None:
    made = steer(can, None, effort, reasons=True)
    assert replace(made, warnings=()) == told
    assert all(said in text for text in made.warnings)
    assert len(made.warnings) == (1 if said else 0)


@pytest.mark.parametrize(("effort", "warned"), [("none", 0), ("minimal", 0), ("medium", 1), ("high", 1)])
def test_a_model_that_does_not_reason_says_so_only_where_reasoning_was_wished_for(effort: Effort, warned: int) -> None:
    made = steer(Levels(), None, effort, reasons=False)
    assert len(made.warnings) == warned
    assert all("does not reason" in text for text in made.warnings)


def test_a_wish_for_reasoning_wakes_a_model_that_does_not_reason_unasked() -> None:
    assert steer(HUNYUAN, True, None, reasons=True) == Steered(True, "high")
    assert steer(HUNYUAN, False, None, reasons=True) == Steered(False, "no_think")
    assert steer(ALWAYS, True, None, reasons=True) == Steered(True)
    assert steer(ALWAYS, False, None, reasons=True) == Steered(False)


def test_an_effort_beside_a_wish_against_reasoning_counts_where_the_model_reasons_all_the_same() -> None:
    assert steer(ALWAYS, False, "high", reasons=True).level == "high"
    made = steer(CLOSED, False, "high", reasons=True)
    assert (made.thinking, made.level) == (False, None)
    assert "changes nothing" in made.warnings[0]


def test_a_level_stands_in_the_prompt_and_a_missing_one_in_the_warnings(thinking: Tokenizer) -> None:
    leveled = voice(with_template(thinking, f"{ECHO}<think>"), 4096)
    asked = replace(request(tools=()), effort="xhigh")
    prompt = compose(leveled, asked)
    assert leveled.tokenizer.decode(prompt.ids).endswith("Reasoning: high<think>")
    assert prompt.warnings == ("reasoning effort 'xhigh': this model's nearest level is 'high'",)
    without = compose(voice(thinking, 4096), asked)
    assert without.warnings == ("reasoning effort 'xhigh': this model knows no levels, it reasons as it does",)
    assert without.thinking_open
    assert not compose(voice(thinking, 4096), replace(asked, effort="none")).thinking_open
