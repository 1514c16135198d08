"""Calls of tools that cannot be enforced in full: checked when they are whole, and the answer fails if they are not."""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.errors import BadRequest
from ringleader.node.shelf import Entry
from ringleader.values import ArgumentsDelta, CallEnded, Delta, Finish, Finished, Tool
from tests.unit.node.test_answer import WEATHER, Scene, asked, read

SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}},
    "required": ["x"],
}
UNIQUE = Tool("tag", "", SCHEMA)


@pytest.fixture
def scene(entry: Entry) -> Scene:
    return Scene(entry)


async def called(
    scene: Scene, *arguments: str, choice: Any, finish: Finish = "stop", into: list[Delta] | None = None
) -> list[Delta]:
    deltas: list[Delta] = [] if into is None else into
    name, answer = await scene.running(asked(tools=(WEATHER, UNIQUE), tool_choice=choice))
    assert "'uniqueItems'" in answer.warnings[0]
    ((_, prompt, spec),) = scene.ring.submitted
    opening = scene.entry.voice.tokenizer.decode(prompt[len(prompt) - spec.opening_tokens :])
    opening = opening if spec.opening_tokens else ""
    calls = [f'<tool_call>\n{{"name": "tag", "arguments": {each}}}\n</tool_call>' for each in arguments]
    text = "\n".join(calls)
    assert text.startswith(opening)
    scene.say(name, text.removeprefix(opening), finish)
    await read(answer.deltas, deltas)
    return deltas


@pytest.mark.parametrize("choice", ["auto", "required", "tag"])
async def test_a_call_that_breaks_what_was_not_enforced_fails_the_answer_and_never_ends(
    scene: Scene, choice: str
) -> None:
    deltas: list[Delta] = []
    with pytest.raises(BadRequest, match=r"The call of 'tag' does not match .* at \$\.x: \[1, 1\] has") as caught:
        await called(scene, '{"x": [1, 1]}', choice=choice, into=deltas)
    assert (caught.value.param, caught.value.code) == ("tools[1].function.parameters", "invalid_tool_call")
    assert "Send the request again" in str(caught.value)
    assert not any(isinstance(delta, CallEnded | Finished) for delta in deltas)


@pytest.mark.parametrize("choice", ["auto", "required", "tag"])
async def test_a_call_that_keeps_it_is_a_call_as_any(scene: Scene, choice: str) -> None:
    deltas = await called(scene, '{"x": [1, 2]}', choice=choice)
    assert "".join(delta.text for delta in deltas if isinstance(delta, ArgumentsDelta)) == '{"x": [1, 2]}'
    last = deltas[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.warnings) == ("tool_calls", ())


async def test_each_of_several_calls_is_checked(scene: Scene) -> None:
    with pytest.raises(BadRequest, match=r"\[3, 3\] has non-unique"):
        await called(scene, '{"x": [1, 2]}', '{"x": [3, 3]}', choice="required")


async def test_a_call_that_was_cut_is_not_checked_its_finish_reason_says_enough(scene: Scene) -> None:
    name, answer = await scene.running(asked(tools=(UNIQUE,), tool_choice="auto"))
    scene.say(name, '<tool_call>\n{"name": "tag", "arguments": {"x": [1, 1', "length")
    deltas: list[Delta] = []
    await read(answer.deltas, deltas)
    last = deltas[-1]
    assert isinstance(last, Finished)
    assert last.reason == "length"


async def test_a_grammar_that_outgrows_the_engine_late_is_named_by_the_places_of_patterns(scene: Scene) -> None:
    coded = Tool("code", "", {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{3}$"}}})
    for tools, param in (((WEATHER, coded), "tools[1].function.parameters"), ((WEATHER, UNIQUE), "tools")):
        name, answer = await scene.running(asked(tools=tools))
        scene.say(name, "", "error", "the grammar allows no way on: lexer error\nStop: LexerTooComplex\n")
        with pytest.raises(BadRequest, match=f"grammar in {param.replace('[', '.')[:6]}.* Make it simpler") as caught:
            await read(answer.deltas, [])
        assert (caught.value.param, caught.value.code) == (param, "grammar_too_complex")
