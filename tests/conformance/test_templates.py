"""Chat templates of real models: tools, histories of two turns, detection, and forced calls after them.

They are read where they lie (see `real_templates`), and are no part of the project; without them all of this is
skipped.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.api.ids import new_id
from ringleader.language.dialects.detect import detect
from ringleader.language.effort import levels
from ringleader.language.prompt import Voice, compose, parser, voice
from ringleader.language.read_back import reads_back
from ringleader.language.template import render
from ringleader.language.traits import Traits, probe
from ringleader.values import CallEnded, ChatRequest, Message, Tool, ToolCall
from tests.conformance.real_templates import TABLE, VARIABLE, Expected, folder, templates, tokenizer_of
from tests.unit.language.builders import collect, request
from tests.unit.language.walking import walk

pytestmark = pytest.mark.skipif(
    not templates(), reason=f"no chat templates in {folder()}; name a folder of them in {VARIABLE}"
)
DAY = datetime.date(2025, 1, 2)
LOOKUP = Tool(
    "lookup",
    "lookupdescribed",
    {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "description": "kinddescribed", "enum": ["kindone", "kindtwo"]},
            "limit": {"type": "integer", "minimum": 0, "maximum": 99},
            "where": {
                "type": "object",
                "properties": {
                    "town": {"type": "string", "description": "towndescribed", "maxLength": 12},
                    "flags": {"type": "array", "items": {"$ref": "#/$defs/flag"}, "maxItems": 2},
                },
                "required": ["town"],
            },
        },
        "required": ["kind", "limit", "where"],
        "$defs": {"flag": {"type": "object", "properties": {"flagname": {"type": "boolean"}}}},
    },
)
NOW = Tool("now", "nowdescribed", None)
TOOLS = (LOOKUP, NOW)
SCHEMAS: dict[str, Any] = {tool.name: tool.parameters or {"additionalProperties": False} for tool in TOOLS}
TOLD = ("lookupdescribed", "kinddescribed", "kindtwo", "towndescribed", "flagname", "nowdescribed")
NAMES = ("lookup", "now")


def arguments(town: str, limit: int = 3) -> str:
    return json.dumps({"kind": "kindone", "limit": limit, "where": {"town": town}})


def calls(*towns: str) -> tuple[ToolCall, ...]:
    """A call of `lookup` for each town, of `now` for "", with ids as this server makes them."""
    return tuple(
        ToolCall(new_id("call_"), "lookup", arguments(town)) if town else ToolCall(new_id("call_"), "now", "{}")
        for town in towns
    )


FIRST, SECOND = calls("Oslo", ""), calls("Lima")
LOOP = (
    Message("user", "firstquestion"),
    Message("assistant", None, reasoning="firstthought", tool_calls=FIRST),
    Message("tool", "timeresult", tool_call_id=FIRST[1].id),  # not in the order of the calls
    Message("tool", "osloresult", tool_call_id=FIRST[0].id),
    Message("assistant", "", reasoning="secondthought", tool_calls=SECOND),
    Message("tool", "limaresult", tool_call_id=SECOND[0].id),
)
AFTER = (*LOOP, Message("assistant", "firstanswer"), Message("user", "secondquestion"))
IN_ORDER = ("firstquestion", "Oslo", "osloresult", "timeresult", "Lima", "limaresult")
SYSTEMS = (Message("system", "systemone"), Message("system", "systemtwo"))
BROKEN = ToolCall(new_id("call_"), "lookup", '{"kind": "brokenone')
CONVERSATIONS: dict[str, tuple[tuple[Message, ...], tuple[str, ...]]] = {
    "a question": (LOOP[:1], ("firstquestion",)),
    "used tools": (LOOP, IN_ORDER),
    "used tools, under system turns": ((*SYSTEMS, *LOOP), (*IN_ORDER,)),
    "an answer and a second question": (AFTER, (*IN_ORDER, "firstanswer", "secondquestion")),
    "a question right after results": ((*LOOP, AFTER[-1]), (*IN_ORDER, "secondquestion")),
    "a late system turn": ((*SYSTEMS, *AFTER[:-1], Message("system", "systemthree"), AFTER[-1]), IN_ORDER),
    "an instruction after results": ((*LOOP, Message("system", "systemthree")), ()),
    "two questions in a row": ((*AFTER, Message("user", "thirdquestion")), ("secondquestion", "thirdquestion")),
    "a greeting first": ((Message("assistant", "greeting"), *LOOP), ("greeting", *IN_ORDER)),
    "a system turn alone": (SYSTEMS[:1], ("systemone",)),
    "an answer last": (AFTER[:-1], ("firstanswer",)),
    "arguments that are no JSON": (
        (LOOP[0], Message("assistant", "", tool_calls=(BROKEN,)), Message("tool", "oops", tool_call_id=BROKEN.id)),
        ("firstquestion", "brokenone", "oops"),
    ),
}


@pytest.fixture(params=templates(), ids=lambda path: path.stem)
def file(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    if found.stem not in TABLE:
        pytest.fail(f"{found.stem} is new: say in real_templates.TABLE which dialect it speaks")
    return found


@cache
def voice_of(file: Path) -> Voice:
    return voice(tokenizer_of(file), 200_000)


def traits_of(file: Path) -> Traits:
    tokenizer = voice_of(file).tokenizer
    return probe(file.read_text(encoding="utf-8"), tokenizer.bos_token, tokenizer.eos_token)


def written(file: Path, messages: Sequence[Message], tools: Sequence[Tool] = TOOLS, *, prompted: bool = True) -> str:
    spoken = voice_of(file)
    return render(
        spoken.tokenizer.chat_template,
        messages,
        tools,
        bos_token=spoken.tokenizer.bos_token,
        eos_token=spoken.tokenizer.eos_token,
        add_generation_prompt=prompted,
        today=DAY,
        history=spoken.dialect.history,
    )


# ---------------------------------------------------------------- detection


def test_the_dialect_is_the_expected_one(file: Path) -> None:
    found = detect(tokenizer_of(file))
    assert found.dialect.name == TABLE[file.stem].dialect, found.how


def test_a_call_is_read_as_the_template_writes_it(file: Path) -> None:
    spoken = voice_of(file)
    assert reads_back(spoken.tokenizer, spoken.dialect) is TABLE[file.stem].reads


@pytest.mark.parametrize("towns", [("Oslo",), ("",), ("Oslo", "", "Lima")], ids=["one", "no arguments", "three"])
def test_the_grammar_takes_calls_as_the_template_writes_them(file: Path, towns: tuple[str, ...]) -> None:
    spoken, row = voice_of(file), TABLE[file.stem]
    if not row.reads or row.untaken:
        pytest.skip(row.untaken or "the template writes no calls, or none that are read")
    if len(towns) > 1 and (row.most < len(towns) or not traits_of(file).many_calls):
        pytest.skip("the template writes no such number of calls in a turn")
    # After reasoning, so that what some templates write of it does not matter here.
    wish = request("required", TOOLS, LOOP[:1])
    forced = compose(replace(spoken, dialect=replace(spoken.dialect, thinking=None)), wish, DAY)
    whole = written(file, (LOOP[0], Message("assistant", tool_calls=calls(*towns))), prompted=False)
    failed = []
    for answer in _answers(file, whole):
        read = _through_last_call(spoken, wish, answer, len(towns))
        matcher = LLMatcher(spoken.tokenizer.grammar_view, forced.grammar, log_level=0)
        taken = matcher.try_consume_tokens(read)
        if read and taken == len(read):
            return
        failed.append((spoken.tokenizer.decode(read[:taken]), spoken.tokenizer.decode(read[taken:])))
    pytest.fail(f"{len(towns)} calls, each try as what was taken and what was not: {failed}")


def _answers(file: Path, whole: str) -> Iterator[str]:
    """The answer in a history: what comes after the prompt, or (past the reasoning of nobody) the calls alone."""
    prompt = written(file, LOOP[:1])
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(prompt, whole, strict=False))))
    yield whole[same:]
    for opens in voice_of(file).dialect.opens:
        if (begin := whole.find(opens.marker.text, max(0, same - len(opens.marker.text)))) >= 0:
            yield whole[begin:]


def _through_last_call(spoken: Voice, wish: ChatRequest, answer: str, count: int) -> list[int]:
    """The ids of the answer to the end of its last call; () if it is not read as so many calls."""
    reader = parser(spoken, replace(compose(spoken, replace(wish, tool_choice="auto"), DAY), thinking_open=False), wish)
    read: list[int] = []
    ended = 0
    for token in spoken.tokenizer.encode(answer):
        read.append(token)
        ended += sum(isinstance(delta, CallEnded) for delta in reader.feed([token]))
        if ended == count:
            return read
    return []


# ---------------------------------------------------------------- tools and history


def test_the_tools_are_told_in_full(file: Path) -> None:
    text = written(file, LOOP[:1])
    assert [word for word in (*NAMES, *TOLD) if word not in text] == []


@pytest.mark.parametrize("kind", CONVERSATIONS)
def test_every_conversation_is_shown_in_its_order(file: Path, kind: str) -> None:
    messages, words = CONVERSATIONS[kind]
    for tools in (TOOLS, ()):
        text = written(file, messages, tools)
        assert "None" not in text.replace("NoneType", "")
        at = text.rfind("firstquestion") if "firstquestion" in words else 0
        places = [text.find(word, at if n else 0) for n, word in enumerate(words)]
        assert -1 not in places, f"{words[places.index(-1)]} is lost"
        assert places == sorted(places)
        said = [message.content for message in messages if message.role == "system"]
        assert [word for word in said if word not in text] == []


def test_a_call_and_its_result_have_one_id_where_ids_are_shown(file: Path) -> None:
    given = [call.id for call in (*FIRST, *SECOND)]
    text = written(file, LOOP)
    found = re.findall(rf"{'|'.join(given)}|call0000\d|functions\.\w+:\d", text[text.rfind("firstquestion") :])
    assert len(found) in {0, 3, 6}  # none, those of calls (or results) only, both
    if len(found) == 6:
        first, second, one, two, third, three = found
        assert (first, second, third) == (one, two, three) or (first, one, third) == (second, two, three)


def test_what_the_model_thought_while_it_used_tools_is_shown_again(file: Path) -> None:
    if not traits_of(file).reasoning:
        pytest.skip("the template shows no reasoning")
    text = written(file, LOOP)
    assert 0 <= text.find("firstthought") < text.find("Oslo") < text.find("secondthought") < text.find("Lima")


# ---------------------------------------------------------------- forced calls


@pytest.mark.parametrize("choice", ["required", "lookup", "one"])
def test_a_forced_call_arrives_whatever_the_model_prefers(file: Path, choice: str) -> None:
    spoken = voice_of(file)
    wish = request("required" if choice == "one" else choice, TOOLS, (*SYSTEMS, *LOOP), parallel=choice != "one")
    prompt = compose(spoken, wish, DAY)
    assert prompt.opening or spoken.dialect.thinking or spoken.dialect.frames({}) or choice == "required"
    for seed in range(3):
        reader = parser(spoken, prompt, wish)
        answer = walk(spoken.tokenizer, prompt.grammar, seed, prompt.opening, _endings(spoken, TABLE[file.stem]))
        found = collect(reader.open(prompt.opening) + reader.feed(answer) + reader.finish("stop"))
        assert found.text == ""
        assert found.ended == list(range(len(found.calls)))
        assert prompt.choice.least <= len(found.calls) <= prompt.choice.most
        for name, values in found.calls:
            assert name in prompt.choice.permitted
            jsonschema.validate(json.loads(values), SCHEMAS[name])


def _endings(spoken: Voice, row: Expected) -> tuple[str, ...]:
    """What lets a random walk out of reasoning and of values that are plain text."""
    dialect, thinking = spoken.dialect, spoken.dialect.thinking
    frames = dialect.frames({})
    inside = (*dialect.markers, *(() if frames is None else frames.markers))
    found = [*(marker.text for marker in inside), "<|channel|>commentary", "'"]
    return (*(() if thinking is None else (thinking.close.text,)), *found, *row.endings)


LEVELS = {
    "openai-gpt-oss-120b": ("low", "medium", "high"),
    "tencent-Hy3": ("low", "high"),
    "deepseek-ai-DeepSeek-V4": ("medium", "max"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("medium", "high", "max"),
}


@pytest.mark.parametrize("file", templates(), ids=lambda file: file.stem)
def test_levels_of_reasoning_are_known_where_the_template_has_some(file: Path) -> None:
    source = tokenizer_of(file).chat_template or ""
    assert levels(source, "<s>", "</s>", "<think>").known == LEVELS.get(file.stem, ())
