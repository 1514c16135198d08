"""Answers with a form: what the desk does when their text is whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringleader.node.shelf import Entry
from ringleader.values import ArgumentsDelta, CallStarted, ContentFormat, Delta, Finish, Finished, Tool
from tests.unit.node.test_answer import Scene, asked, read, text_of

UNIQUE = ContentFormat("json_schema", "n", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, False)


@pytest.fixture
def scene(entry: Entry) -> Scene:
    return Scene(entry)


async def answered(scene: Scene, text: str, finish: Finish = "stop", **fields: Any) -> tuple[list[Delta], Finished]:
    name, answer = await scene.running(asked(**{"content": UNIQUE, **fields}))
    scene.say(name, text[:3])
    scene.say(name, text[3:], finish)
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    last = deltas[-1]
    assert isinstance(last, Finished)
    return deltas, last


async def test_text_that_breaks_what_was_not_enforced_ends_with_a_warning(scene: Scene) -> None:
    deltas, last = await answered(scene, "[1, 1]")
    assert text_of(deltas) == "[1, 1]"
    assert last.warnings == ("the answer does not match response_format at $: [1, 1] has non-unique elements",)


async def test_text_that_keeps_it_ends_without_one(scene: Scene) -> None:
    assert (await answered(scene, "[1, 2]"))[1].warnings == ()
    assert (await answered(scene, "[1, 1]", content=replace(UNIQUE, schema={"type": "array"})))[1].warnings == ()


async def test_text_that_was_cut_is_not_checked_its_finish_reason_says_enough(scene: Scene) -> None:
    assert (await answered(scene, "[1, 1", "length"))[1].warnings == ()
    deltas, last = await answered(scene, "[1, 1]", stop=(", 1",))
    assert (text_of(deltas), last.reason, last.warnings) == ("[1", "stop", ())


async def test_the_grammar_of_the_form_goes_to_the_ring_and_its_gaps_into_the_header(scene: Scene) -> None:
    _, answer = await scene.running(asked(content=UNIQUE))
    assert "integer" in scene.ring.submitted[0][2].grammar
    assert "uniqueItems" in answer.warnings[0]


async def test_an_input_of_a_custom_tool_comes_without_its_json(scene: Scene) -> None:
    run = Tool("run", kind="custom")
    name, answer = await scene.running(asked(tools=(run,), tool_choice="run"))
    ((_, prompt, spec),) = scene.ring.submitted
    opening = scene.entry.voice.tokenizer.decode(prompt[len(prompt) - spec.opening_tokens :])
    whole = '<tool_call>\n{"name": "run", "arguments": {"input": "say \\"hi\\"\\n"}}\n</tool_call>'
    assert whole.startswith(opening)
    scene.say(name, whole.removeprefix(opening), "stop")
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    assert isinstance(deltas[0], CallStarted)
    assert "".join(delta.text for delta in deltas if isinstance(delta, ArgumentsDelta)) == 'say "hi"\n'
    last = deltas[-1]
    assert isinstance(last, Finished)
    assert last.reason == "tool_calls"
