"""One suite for all dialects: what is asked of each is the same, only its spelling differs (see `family.py`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.language.prompt import Prompt, compose, parser
from ringleader.language.stream import StreamParser
from ringleader.values import ChatRequest, Delta, FinishReason, Json, Tool
from tests.unit.language.builders import NOTE, NOW, Collected, collect, request
from tests.unit.language.dialects.family import Call, Family, all_families
from tests.unit.language.walking import walk

UPDATE = Tool(
    "update",
    "Change a record.",
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "minimum": 0, "maximum": 99},
            "title": {"type": "string", "maxLength": 12},
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}$"},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "flag": {"type": "boolean"},
            "note": {"anyOf": [{"type": "string", "maxLength": 8}, {"type": "null"}]},
            "either": {"type": ["string", "integer"], "maxLength": 6, "maximum": 50},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 3},
            "place": {
                "type": "object",
                "properties": {"zip": {"type": "string", "pattern": "^[0-9]{4}$"}, "deep": {"$ref": "#/$defs/deep"}},
                "required": ["zip"],
            },
        },
        "required": ["id", "title", "unit", "place"],
        "$defs": {"deep": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}},
    },
)
EMPTY = Tool("get_all-9", "Everything.", None)
TOOLS = (NOTE, NOW, UPDATE, EMPTY)
SCHEMAS: dict[str, Any] = {tool.name: tool.parameters or {} for tool in TOOLS}

TEXTS = [
    "",
    "plain",
    "ÄÖÜ 🐢 日本 \u2028",
    'quotes " and \\ back\\slashes \\n \\"',
    "lines\n\nof\ncode\n",
    "\nx\n",
    "  spaces \t",
    "3",
    "null",
    '{"a": 1}',
    "True",
]
FULL: dict[str, Any] = {
    "id": 7,
    "title": 'a "b"\n<c>',
    "code": "AB12",
    "unit": "f",
    "flag": False,
    "note": None,
    "either": "x1",
    "tags": ["a", "é{"],
    "place": {"zip": "0123", "deep": {"ok": True}},
}


def calls_of(family: Family) -> list[list[Call]]:
    """Answers to be understood exactly, each a list of calls."""
    texts = [*TEXTS, *(f"see {text} there" for text in family.markup)]
    single: list[list[Call]] = [[("note", {"text": text})] for text in texts]
    single += [
        [("now", {})],
        [("get_all-9", {})],
        [("update", FULL)],
        [("update", {"id": 0, "title": "", "unit": "c", "either": 12, "note": "nul", "place": {"zip": "9999"}})],
    ]
    # The declared order is the only legal one.
    single[-1] = [(name, {key: values[key] for key in FULL if key in values}) for name, values in single[-1]]
    return [*single, [("now", {}), ("update", FULL)], [("note", {"text": "a"})] * 3] if family.many else single


def spelled(family: Family, calls: Sequence[Call]) -> list[int]:
    """The calls as ids; a marker inside a value is spelled in ordinary tokens, as text always is."""
    tokenizer = family.tokenizer
    found: list[int] = []
    text = family.write(calls)
    for part, is_value in _parts(text, [text_ for call in calls for text_ in _markup_in(family, call)]):
        found += [t for char in part for t in tokenizer.encode(char)] if is_value else tokenizer.encode(part)
    return found


def _markup_in(family: Family, call: Call) -> list[str]:
    values = [value for value in call[1].values() if isinstance(value, str)]
    return [form for value in values if value for form in {value, json.dumps(value, ensure_ascii=False)[1:-1]}]


def _parts(text: str, values: Sequence[str]) -> list[tuple[str, bool]]:
    for value in sorted(values, key=len, reverse=True):
        if len(value) > 8 and value in text:
            before, after = text.split(value, 1)
            return [*_parts(before, values), (value, True), *_parts(after, values)]
    return [(text, False)]


def asked(choice: Json, tools: tuple[Tool, ...] = TOOLS, **more: Any) -> ChatRequest:
    return request(choice, tools, **more)


PROMPTS: dict[str, Prompt] = {}  # made once for each family and choice: compiling is the slow part


def composed(family: Family, wish: ChatRequest) -> tuple[Prompt, StreamParser]:
    key = f"{family.label} {wish.tool_choice} {wish.parallel_tool_calls}"
    if key not in PROMPTS:
        PROMPTS[key] = compose(family.voice, wish)
    return PROMPTS[key], parser(family.voice, PROMPTS[key], wish)


def heard(
    family: Family, ids: Sequence[int], choice: Json = "auto", reason: FinishReason = "stop", size: int = 1
) -> Collected:
    """What a client sees of an answer made of these ids."""
    _, reader = composed(family, asked(choice))
    deltas: list[Delta] = []
    for at in range(0, len(ids), size):
        deltas += reader.feed(ids[at : at + size])
    return collect(deltas + reader.finish(reason))


def decoded(found: Collected) -> list[Call]:
    return [(name, json.loads(arguments)) for name, arguments in found.calls]


def accepts(family: Family, prompt: Prompt, ids: Sequence[int], *, whole: bool = True) -> bool:
    matcher = LLMatcher(family.tokenizer.grammar_view, prompt.grammar, log_level=0)
    return matcher.try_consume_tokens(list(ids)) == len(ids) and (matcher.is_accepting() or not whole)


@pytest.fixture(params=all_families(), ids=lambda family: family.label)
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


def test_the_dialect_is_found_by_its_template_and_vocabulary(family: Family) -> None:
    assert family.voice.dialect.name == family.dialect
    assert family.voice.dialect_how
    assert family.voice.thinking_how


# ---------------------------------------------------------------- forced


@pytest.mark.parametrize("seed", range(40))
def test_a_forced_call_arrives_and_validates_whatever_the_model_prefers(family: Family, seed: int) -> None:
    choice = ["update", "required", {"type": "allowed_tools", "mode": "required", "tools": ["note", "update"]}][
        seed % 3
    ]
    wish = asked(choice, parallel=seed % 2 == 0)
    prompt, reader = composed(family, wish)
    answer = walk(family.tokenizer, prompt.grammar, seed, prompt.opening, family.endings)
    found = collect(reader.open(prompt.opening) + reader.feed(answer) + reader.finish("stop"))
    assert found.text == ""
    assert found.ended == list(range(len(found.calls)))
    assert reader.finish_reason("stop") == "tool_calls"
    assert prompt.choice.least <= len(found.calls) <= prompt.choice.most
    for name, arguments in decoded(found):
        assert name in prompt.choice.permitted
        jsonschema.validate(arguments, SCHEMAS[name])
        assert set(arguments) <= set(SCHEMAS[name].get("properties", {}))


def test_a_forced_answer_is_nothing_but_calls(family: Family) -> None:
    prompt, _ = composed(family, asked("required"))
    end = family.tokenizer.eos_ids[0]
    for text in ["", "OK", "I will not."]:
        ids = family.tokenizer.encode(family.said(text))
        assert not accepts(family, prompt, [*ids, end], whole=False)
    assert accepts(family, prompt, spelled(family, [("now", {})]))


def test_a_forced_call_may_be_thought_about(family: Family) -> None:
    if family.thought is None:
        pytest.skip("this family has no reasoning")
    prompt, reader = composed(family, asked("now"))
    ids = [*family.tokenizer.encode(family.thought("Hm.\n3 < 4")), *spelled(family, [("now", {})])]
    assert family.thought("Hm.").startswith(family.tokenizer.decode(prompt.opening))
    assert accepts(family, prompt, ids)
    found = collect(reader.feed(ids) + reader.finish("stop"))
    assert (found.reasoning, found.text, decoded(found)) == ("Hm.\n3 < 4", "", [("now", {})])


def test_the_opening_begins_every_answer_and_is_what_the_tokenizer_makes_of_it(family: Family) -> None:
    for choice in ("update", "required", "now"):
        prompt, _ = composed(family, asked(choice))
        body = prompt.ids[: len(prompt.ids) - len(prompt.opening)]
        assert not set(prompt.opening) & set(family.tokenizer.eos_ids)
        if family.tokenizer.encode(family.tokenizer.decode(body)) == list(body):
            assert family.tokenizer.encode(family.tokenizer.decode(prompt.ids)) == list(prompt.ids)
        if family.thought is None:
            assert prompt.opening or choice == "required"
            answer = walk(family.tokenizer, prompt.grammar, 1, (), family.endings)
            text = family.tokenizer.decode(prompt.opening)
            assert family.tokenizer.decode(answer).startswith(text)


# ---------------------------------------------------------------- what is written is what is read


def test_calls_are_legal_and_read_exactly(family: Family) -> None:
    for calls in calls_of(family):
        ids = spelled(family, calls)
        for choice in ("required", "auto"):
            prompt, _ = composed(family, asked(choice))
            assert accepts(family, prompt, ids), (choice, family.tokenizer.decode(ids))
        found = heard(family, ids)
        assert decoded(found) == list(calls), family.tokenizer.decode(ids)
        assert (found.text, found.ended) == ("", list(range(len(calls))))


def test_how_the_ids_are_grouped_changes_nothing(family: Family) -> None:
    for calls in calls_of(family):
        ids = spelled(family, calls)
        whole = heard(family, ids, size=len(ids))
        for size in (1, 2, 3, 7):
            assert heard(family, ids, size=size) == whole


def test_an_answer_may_be_cut_anywhere(family: Family) -> None:
    ids = spelled(family, [("note", {"text": 'a "b"\nc'}), ("update", FULL)][-1 if not family.many else 0 :])
    before: list[int] = []
    for end in range(len(ids)):
        found = heard(family, ids[:end], reason="length")
        assert len(found.ended) <= len(found.calls)
        assert found.ended[: len(before)] == before, "a call that had ended is lost"
        before = found.ended
        heard(family, ids[:end], reason="stop")
        for n, (_, arguments) in enumerate(found.calls):
            if n in found.ended:
                json.loads(arguments)


def test_a_call_that_is_not_whole_has_no_end(family: Family) -> None:
    ids = spelled(family, [("note", {"text": "plain words and more"})])
    cut = ids[: len(ids) // 2]
    assert heard(family, cut, reason="length").ended == []


def test_a_string_streams_while_it_is_written(family: Family) -> None:
    _, reader = composed(family, asked("note"))
    text = "ab cd " * 100
    pieces = [d for token in spelled(family, [("note", {"text": text})]) for d in reader.feed([token])]
    assert len(pieces) > 50


# ---------------------------------------------------------------- not forced


def test_auto_may_talk_and_may_talk_and_then_call(family: Family) -> None:
    prompt, _ = composed(family, asked("auto"))
    tokenizer = family.tokenizer
    for text in ["Hello there.", "3 < 4, {} and [x]", "two\n\nlines"]:
        ids = tokenizer.encode(family.said(text))
        assert accepts(family, prompt, ids)
        assert heard(family, ids) == Collected(text=text, order=["TextDelta"])
        if not family.talks:
            continue
        both = tokenizer.encode(family.joined(text, family.write([("now", {})])))
        assert accepts(family, prompt, both)
        found = heard(family, both)
        assert (found.text, decoded(found), found.ended) == (text, [("now", {})], [0])


def test_a_call_that_auto_begins_must_be_a_right_one(family: Family) -> None:
    prompt, _ = composed(family, asked("auto"))
    for wrong in [("evil", {}), ("update", {**FULL, "unit": "x"}), ("update", {"id": 1})]:
        assert not accepts(family, prompt, family.tokenizer.encode(family.write([wrong])))


def test_a_tool_that_is_not_permitted_cannot_be_called(family: Family) -> None:
    prompt, _ = composed(family, asked({"type": "allowed_tools", "mode": "auto", "tools": ["note"]}))
    assert not accepts(family, prompt, spelled(family, [("now", {})]))
    assert accepts(family, prompt, spelled(family, [("note", {"text": "x"})]))


def test_none_forbids_calls_and_shows_what_is_written_instead(family: Family) -> None:
    prompt, _ = composed(family, asked("none"))
    assert not accepts(family, prompt, spelled(family, [("now", {})]))
    ids = family.tokenizer.encode(family.said("Hello there."))
    assert accepts(family, prompt, ids)
    assert heard(family, ids, "none").text == "Hello there."
    assert heard(family, spelled(family, [("now", {})]), "none").calls == []


def test_no_call_can_end_in_its_middle(family: Family) -> None:
    ids = spelled(family, [("note", {"text": "abc"})])
    start = next(n for n in range(len(ids)) if heard(family, ids[: n + 1], reason="length").calls)
    end = next(n for n in range(len(ids)) if heard(family, ids[: n + 1], reason="length").ended)
    for choice in ("auto", "required"):
        prompt, _ = composed(family, asked(choice))
        for n in range(start, end):
            assert not accepts(family, prompt, ids[: n + 1])


@pytest.mark.parametrize("seed", range(10))
def test_whatever_auto_writes_is_either_text_or_a_valid_call(family: Family, seed: int) -> None:
    prompt, reader = composed(family, asked("auto"))
    ids = family.tokenizer.encode(family.joined("So:", family.write([("update", FULL)])))
    cut = ids[: int(len(ids) * seed / 10)]
    answer = walk(family.tokenizer, prompt.grammar, seed, cut, family.endings)
    found = collect(reader.feed([*cut, *answer]) + reader.finish("stop"))
    assert found.ended == list(range(len(found.calls)))
    for name, arguments in decoded(found):
        jsonschema.validate(arguments, SCHEMAS[name])
