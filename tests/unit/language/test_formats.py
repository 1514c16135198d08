"""Text of a form and custom tools, from the request to what the client sees, on models without sense."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.prompt import Prompt, compose, parser, voice
from ringleader.tokenizer import Tokenizer
from ringleader.values import (
    ChatRequest,
    ContentFormat,
    CustomGrammar,
    Delta,
    Json,
    Message,
    Tool,
    ToolCall,
)
from tests.unit.language.builders import NOW, WEATHER, Collected, collect, request
from tests.unit.language.conftest import TAGS
from tests.unit.language.dialects.family import Family, all_families
from tests.unit.language.vocabulary import THINKING
from tests.unit.language.walking import walk

CONTEXT = 4096
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "maxItems": 3},
        "age": {"type": "integer"},
    },
    "required": ["name", "age"],
}
PERSON = ContentFormat("json_schema", "person", SCHEMA)
RUN = Tool("run", "Runs a script.", kind="custom")
PICK = Tool("pick", kind="custom", grammar=CustomGrammar("regex", r"[a-c]{2,4}(\n[0-9]|\"é)"))
PATCH = Tool(
    "patch", kind="custom", grammar=CustomGrammar("lark", 'start: "*** " WORD ("\\n" WORD)*\nWORD: /[a-z<]{1,6}/')
)
CUSTOM = (WEATHER, RUN, PICK, PATCH)
SEEDS = range(4)
FAMILIES = all_families()


@pytest.fixture(params=[*FAMILIES, "thinking"], ids=lambda param: param if isinstance(param, str) else param.label)
def family(request: pytest.FixtureRequest) -> Family:
    """Each family in turn, and one whose prompt ends inside the reasoning."""
    if isinstance(request.param, Family):
        return request.param
    return Family("thinking", "json_tags", lambda calls: "", TAGS, THINKING)


def composed(family: Family, asked: ChatRequest) -> Prompt:
    """Skips what a family says it does not have."""
    try:
        return compose(family.voice, asked)
    except BadRequest as refusal:
        if refusal.code == "unsupported_value":
            pytest.skip(str(refusal))
        raise


def answered(family: Family, asked: ChatRequest, seed: int, step: int = 0) -> Collected:
    """What the client sees of a random legal answer, read `step` ids at a time (0: all at once)."""
    prompt = composed(family, asked)
    ids = walk(family.tokenizer, prompt.grammar, seed, prompt.opening, family.endings)
    reader = parser(family.voice, prompt, asked)
    deltas: list[Delta] = reader.open(prompt.opening)
    for at in range(0, len(ids), step or len(ids)):
        deltas += reader.feed(ids[at : at + (step or len(ids))])
    deltas += reader.finish("stop")
    return collect(delta for delta in deltas if getattr(delta, "text", None) != "")


# ---------------------------------------------------------------- text of a form


@pytest.mark.parametrize("seed", SEEDS)
def test_text_matches_its_schema_and_reasoning_stays_beside_it(family: Family, seed: int) -> None:
    found = answered(family, replace(request(tools=()), content=PERSON), seed)
    jsonschema.validate(json.loads(found.text), SCHEMA)
    assert found.calls == []


def test_reasoning_comes_before_the_json(family: Family) -> None:
    if family.thought is None:
        pytest.skip("this family has no reasoning")
    asked = replace(request(tools=()), content=ContentFormat("json_schema", "n", {"const": {"a": "b"}}))
    reader = parser(family.voice, composed(family, asked), asked)
    text = family.thought("Hm.") + family.said('{"a": "b"}')
    found = collect([*reader.feed(family.tokenizer.encode(text)), *reader.finish("stop")])
    assert (found.reasoning, found.text) == ("Hm.", '{"a": "b"}')
    ids = family.tokenizer.encode(text)
    matcher = LLMatcher(family.tokenizer.grammar_view, composed(family, asked).grammar, log_level=0)
    assert matcher.try_consume_tokens(ids) == len(ids)
    assert matcher.is_accepting()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_json_object_is_an_object(family: Family, seed: int) -> None:
    asked = replace(request(tools=()), content=ContentFormat("json_object"))
    assert isinstance(json.loads(answered(family, asked, seed).text), dict)


def test_beside_tools_the_answer_is_calls_or_text_of_the_form(family: Family) -> None:
    kinds = set()
    for seed in range(30):
        found = answered(family, replace(request("auto"), content=PERSON), seed)
        kinds.add(bool(found.calls))
        if found.text:
            jsonschema.validate(json.loads(found.text), SCHEMA)
        assert bool(found.text) != bool(found.calls)
    assert kinds == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_demanded_call_is_one_whatever_text_would_have_to_be(family: Family, seed: int) -> None:
    found = answered(family, replace(request("now"), content=PERSON), seed)
    assert (found.text, found.calls) == ("", [["now", "{}"]])


def test_a_choice_of_none_leaves_only_the_form(family: Family) -> None:
    found = answered(family, replace(request("none"), content=PERSON), 3)
    jsonschema.validate(json.loads(found.text), SCHEMA)


def test_markers_as_text_inside_the_json_stay_text(plain: Tokenizer) -> None:
    asked = replace(request("auto"), content=ContentFormat("json_schema", "n", {"const": ["<tool_call>\n{}"]}))
    asked = replace(asked, tool_choice="none")
    wanted = '["<tool_call>\\n{}"]'
    made = voice(plain, CONTEXT)
    prompt = compose(made, replace(asked, tool_choice="auto"))
    reader = parser(made, prompt, replace(asked, tool_choice="auto"))
    deltas = reader.feed(plain.encode(wanted)) + reader.finish("stop")
    assert collect(deltas).text == wanted


def test_the_form_does_not_change_the_prompt(family: Family) -> None:
    plain, formed = composed(family, request("auto")), composed(family, replace(request("auto"), content=PERSON))
    assert plain.ids == formed.ids
    assert formed.opening == ()


def test_a_form_that_cannot_be_enforced_is_refused_or_warned_of(plain: Tokenizer) -> None:
    made, schema = voice(plain, CONTEXT), {"type": "array", "uniqueItems": True}
    with pytest.raises(BadRequest) as caught:
        compose(made, replace(request(tools=()), content=ContentFormat("json_schema", "n", schema)))
    assert caught.value.param == "response_format"
    lenient = compose(made, replace(request(tools=()), content=ContentFormat("json_schema", "n", schema, False)))
    assert "uniqueItems" in lenient.warnings[0]
    assert lenient.content is not None
    assert lenient.content.check is not None
    assert lenient.content.check.schema == schema


# ---------------------------------------------------------------- custom tools


def forced(name: str) -> ChatRequest:
    return request({"type": "custom", "custom": {"name": name}}, CUSTOM)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "pattern"),
    [("run", r"(?s:.*)"), ("pick", r"[a-c]{2,4}(\n[0-9]|\"é)"), ("patch", r"\*\*\* [a-z<]{1,6}(\n[a-z<]{1,6})*")],
)
def test_a_forced_custom_call_has_an_input_of_its_grammar(family: Family, name: str, pattern: str, seed: int) -> None:
    found = answered(family, forced(name), seed)
    ((called, text),) = found.calls
    assert (called, found.text, found.ended) == (name, "", [0])
    assert re.fullmatch(pattern, text), text
    assert answered(family, forced(name), seed, step=1) == found


def test_all_kinds_of_tools_are_called_where_any_may_be(family: Family) -> None:
    names: set[str] = set()
    for seed in range(40):
        found = answered(family, request("required", CUSTOM), seed)
        assert found.text == ""
        assert len(found.ended) == len(found.calls)
        if any(name == "patch" for name, _ in found.calls):
            assert len(found.calls) == 1
        names |= {name for name, _ in found.calls}
    assert names == {"get_weather", "run", "pick", "patch"}


def test_text_may_come_before_a_raw_call_and_its_input_keeps_what_looks_like_markup(plain: Tokenizer) -> None:
    asked = request("auto", (NOW, Tool("sh", kind="custom", grammar=CustomGrammar("lark", "start: /(?s:.*)/"))))
    made = voice(plain, CONTEXT)
    prompt = compose(made, asked)
    text = "So:\n<tool_call>sh\nls\n</tool_call>\n<tool_call>\n{}"
    for step in (1, 3, 1000):
        reader, ids = parser(made, prompt, asked), plain.encode(text)
        deltas: list[Delta] = []
        for at in range(0, len(ids), step):
            deltas += reader.feed(ids[at : at + step])
        assert collect(deltas).ended == []
        found = collect([*deltas, *reader.finish("stop")])
        assert (found.text, found.calls) == ("So:", [["sh", "ls\n</tool_call>\n<tool_call>\n{}"]])
        assert found.ended == [0]
        assert reader.finish_reason("stop") == "tool_calls"


def test_a_raw_call_that_was_cut_off_has_not_ended(plain: Tokenizer) -> None:
    made, asked = voice(plain, CONTEXT), forced("patch")
    prompt = compose(made, asked)
    reader = parser(made, prompt, asked)
    deltas = [*reader.open(prompt.opening), *reader.feed(plain.encode(" ab")), *reader.finish("length")]
    assert collect(deltas).calls == [["patch", "*** ab"]]
    assert collect(deltas).ended == []
    assert reader.finish_reason("length") == "length"


def test_the_opening_of_a_custom_call_goes_up_to_its_input(opener: Tokenizer) -> None:
    made = voice(opener, CONTEXT)
    assert opener.decode(compose(made, forced("patch")).opening).startswith("<tool_call>patch\n")
    assert '"run", "arguments": {"input":' in opener.decode(compose(made, forced("run")).opening)


def test_custom_tools_and_their_calls_are_in_the_prompt(family: Family) -> None:
    turns = (
        Message("user", "go"),
        Message("assistant", tool_calls=(ToolCall("c1", "run", 'echo "é"\n', "custom"),)),
        Message("tool", "done", tool_call_id="c1"),
    )
    text = family.tokenizer.decode(composed(family, replace(request("auto", CUSTOM), messages=turns)).ids)
    assert "Runs a script." in text
    opens = family.voice.dialect.opens
    how = f"{opens[0].marker.text}patch, then a new line" if opens else "To call it, write the text"
    assert how in text or json.dumps(how)[1:-1] in text  # descriptions stand in JSON
    assert 'echo "é"' in text.replace('\\"', '"')


def test_a_custom_grammar_that_is_none_is_refused_under_any_choice(plain: Tokenizer) -> None:
    broken = Tool("f", kind="custom", grammar=CustomGrammar("lark", "start: nothing"))
    for choice in ("auto", "none", "required"):
        with pytest.raises(BadRequest) as caught:
            compose(voice(plain, CONTEXT), request(choice, (NOW, broken)))
        assert caught.value.param == "tools[1].custom.format.grammar.definition"


def test_allowed_tools_may_be_custom_ones(family: Family) -> None:
    allowed = {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "pick"}}]}
    found = answered(family, request({"type": "allowed_tools", "allowed_tools": allowed}, CUSTOM, parallel=False), 5)
    assert [name for name, _ in found.calls] == ["pick"]
