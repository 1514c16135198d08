"""Plans: read from YAML, run step after step, saved where they rest."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent import events
from ringleader.agent.outcome import Bounds
from ringleader.agent.plans import PlanRun, parse_plan, read_plan, restore_plan
from ringleader.errors import BadRequest, ContractFault
from tests.unit.agent.acting import REGISTRY, Scripted, called, said

PLAN = """
roles:
  checker: You check every claim before you say anything.
  writer: You write one plain sentence.
bounds:
  turns_max: 6
steps:
  - name: check
    role: checker
    tier: 1
    tools: [look]
    metadata: {tool_choice: look, ticket: 7}
    prompt: Is it there?
  - name: report
    role: writer
    prompt: Write it down.
"""
NAMED = {"type": "function", "function": {"name": "look"}}


async def told_by(run: PlanRun) -> list[Any]:
    return [event async for event in run.events()]


def test_a_plan_has_roles_choices_and_bounds() -> None:
    plan = parse_plan(PLAN)
    check, report = (planned.step for planned in plan.steps)
    assert check.instructions == "You check every claim before you say anything."
    assert (check.tier, check.tools, check.tool_choice) == (1, ("look",), "look")
    assert check.metadata["ticket"] == 7
    assert report.tools == ()
    assert plan.bounds == Bounds(turns_max=6)


async def test_the_choice_in_a_steps_metadata_reaches_the_backend_and_answers_reach_later_steps() -> None:
    backend = Scripted(called(("look", {"where": "a"})), said("it is there"), said("It is written."))
    run = PlanRun(parse_plan(PLAN), backend, registry=REGISTRY)
    told = await told_by(run)
    assert [asked["tool_choice"] for asked in backend.asked] == [NAMED, "auto", "auto"]
    last = backend.asked[2]["messages"]
    assert last[0]["content"] == "You write one plain sentence."
    assert "<result step='check'>\nit is there\n</result>" in last[1]["content"]
    assert last[1]["content"].endswith("Write it down.")
    assert run.answers == {"check": "it is there", "report": "It is written."}
    assert [event.step for event in told if isinstance(event, events.StepEnded)] == ["check", "report"]
    assert run.outcome is not None
    assert run.outcome.ok


async def test_a_step_without_an_answer_ends_the_plan() -> None:
    backend = Scripted(said("no call at all"))
    run = PlanRun(parse_plan(PLAN), backend, registry=REGISTRY)
    await told_by(run)
    assert run.outcome is not None
    assert run.outcome.kind == "choice_ignored"
    assert len(backend.asked) == 1


async def test_uses_says_which_answers_a_step_is_told() -> None:
    steps = ["{name: a, prompt: p}", "{name: b, prompt: p}", "{name: c, prompt: p, uses: [a]}", "{prompt: p, uses: []}"]
    text = "steps:\n" + "\n".join(f"- {each}" for each in steps)
    backend = Scripted(said("from a"), said("from b"), said("from c"), said("end"))
    await told_by(PlanRun(parse_plan(text), backend, registry=REGISTRY))
    assert "from a" in backend.asked[2]["messages"][0]["content"]
    assert "from b" not in backend.asked[2]["messages"][0]["content"]
    assert backend.asked[3]["messages"][0]["content"] == "p"


async def test_a_plan_that_rests_goes_on_from_what_was_kept() -> None:
    text = "steps:\n- {name: a, prompt: p}\n- {name: b, prompt: p, tier: 1, tools: [write], tool_choice: write}\n"
    kept: list[Any] = []
    first = PlanRun(
        parse_plan(text),
        Scripted(said("from a"), called(("write", {"text": "x"}))),
        registry=REGISTRY,
        keep=lambda saved: kept.append(json.loads(json.dumps(saved))),
    )
    await told_by(first)
    assert first.resting
    plan, answers, current = restore_plan(kept[-1])
    assert answers == {"a": "from a"}

    async def approve(calls: Any) -> dict[str, bool]:
        return {call.id: True for call in calls}

    backend = Scripted(said("written"))
    again = PlanRun(plan, backend, registry=REGISTRY, approve=approve, answers=answers, current=current)
    await told_by(again)
    assert again.answers == {"a": "from a", "b": "written"}
    assert "from a" in str(backend.asked[0]["messages"])
    assert not again.resting


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: []", "steps"),
        ("a: [", "not YAML"),
        ("just text", "holds str at its top"),
        ("", "is empty"),
        ("n: " + "9" * 5000, "not YAML"),
        ("steps: [{prompt: p, prompt: q}]", "the key 'prompt' stands twice"),
        ("steps: [&a {prompt: p, metadata: {me: *a}}]", "contains itself"),
        (
            "l: [&a [0, 0], " + ", ".join(f"&{y} [*{x}, *{x}, *{x}, *{x}]" for x, y in pairwise("abcdefghij")) + "]",
            "values",
        ),
        ("steps: [{prompt: p, tier: yes}]", r"steps\[0\].tier"),
        ("bounds: {wall_s: .nan}\nsteps: [{prompt: p}]", "bounds.wall_s must be"),
        ("steps: [{prompt: ''}]", r"steps\[0\].prompt"),
        ("steps: [{prompt: p, tol: 1}]", r"steps\[0\].tol"),
        ("steps: [{prompt: p, tier: -1}]", r"steps\[0\].tier"),
        ("steps: [{name: a, prompt: p}, {name: a, prompt: p}]", "two steps are named 'a'"),
        ("steps: [{name: a, prompt: p, uses: [b]}]", "no earlier step"),
        ("roles: {x: y}\nsteps: [{prompt: p, role: z}]", "roles are: x"),
        ("steps: [{prompt: p, tool_choice: a, metadata: {tool_choice: b}}]", "two choices"),
        ("bounds: {turns_max: 0}\nsteps: [{prompt: p}]", "turns_max must be a number above 0"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
    ],
)
def test_a_plan_that_is_wrong_is_told_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_plan(text)


def test_a_plans_tools_and_choices_are_checked_before_anything_runs() -> None:
    with pytest.raises(ContractFault, match=r"step 'step-2': .*lokk"):
        parse_plan("steps: [{prompt: p}, {prompt: p, tools: [look], tool_choice: lokk}]").check(REGISTRY)


def test_a_file_that_cannot_be_read_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere\.yaml cannot be read"):
        read_plan(tmp_path / "nowhere.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequest, match="UTF-8"):
        read_plan(tmp_path / "bytes.yaml")
    with pytest.raises(BadRequest, match="over 4194304 bytes"):
        read_plan(Path("/dev/zero"))


def test_yaml_that_merges_what_it_has_named_is_read() -> None:
    plan = parse_plan("steps: [&a {name: a, prompt: p}, {<<: *a, name: b}]")
    assert [(each.step.name, each.step.prompt) for each in plan.steps] == [("a", "p"), ("b", "p")]


@pytest.mark.parametrize("saved", [None, [], {}, {"version": 2}, {"version": 1, "plan": {"steps": 3}}])
def test_what_was_not_kept_by_us_is_refused(saved: Any) -> None:
    with pytest.raises(BadRequest, match="saved state"):
        restore_plan(saved)
