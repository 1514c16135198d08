"""What a chat template shows, found by asking it: small conversations are rendered once per template.

A turn whose text does not appear, or that is refused, is not supported. Nothing here guesses from a template's source.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ringleader.language.sandbox import TemplateFault, expand, variables
from ringleader.values import Json

Turn = dict[str, Json]

SYSTEM, LATER, USER, AGAIN = "sysprobe71", "sysprobe72", "userprobe73", "userprobe74"
NAME, VALUE, RESULT, THOUGHT = "nameprobe75", "valueprobe76", "resultprobe77", "thoughtprobe78"
NINE_LETTERS = "abcdef123"  # the shape that those want who do not take any id
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
THINKING_SWITCHES = ("enable_thinking", "thinking")  # Qwen, GLM and others; DeepSeek and Granite
EFFORT = "reasoning_effort"  # gpt-oss, DeepSeek V4, Hunyuan
PROBE_DAY = datetime.date(2024, 1, 1)  # some templates fail without a date
TRAITS_MAX = 64


@dataclass(frozen=True, slots=True)
class Traits:
    """What a template shows.

    Turns. `system`: a first system turn; `system_late`: one that is not the first; `system_alone`: without any
    user turn; `system_in_loop`: also while tools are used. `repeats`: two turns of one role in a row.
    `assistant_first`: a conversation that begins with an answer. `user_after_result`: a question right after results.

    Tools. `tools`: the list of tools; `plain_parameters`: also those whose parameters have no description;
    `none_as_list`: it wants an empty list, not None, where there are none.

    Calls. `calls`: calls and results of the history, each once; `results`: results in a turn of their own, also those
    of calls that stand as text in the turn before; `many_calls`: several in one turn; `any_id`: ids of
    any shape (some insist on nine letters and digits); `empty_content`: with the text "" (some want None);
    `object_arguments`: arguments as an object (some want JSON text); `any_arguments`: arguments that are no object.
    `call_text`: text in the turn of a call; `call_after_text`: text in a turn of its own before it.

    `reasoning` is the key of a turn under which it shows reasoning, "" for none; `reasoning_beside_text`: also
    where the turn has text and calls.
    """

    system: bool = False
    system_late: bool = False
    system_alone: bool = False
    system_in_loop: bool = False
    repeats: bool = False
    assistant_first: bool = False
    user_after_result: bool = False
    tools: bool = False
    plain_parameters: bool = False
    none_as_list: bool = False
    calls: bool = False
    results: bool = False
    many_calls: bool = False
    any_id: bool = False
    empty_content: bool = False
    object_arguments: bool = False
    any_arguments: bool = False
    call_text: bool = False
    call_after_text: bool = False
    reasoning: str = ""
    reasoning_beside_text: bool = False


def context(
    template: str,
    turns: Sequence[Turn],
    tools: Sequence[Json] | None,
    special: tuple[str, str],
    *,
    prompted: bool = True,
    today: datetime.date | None = None,
    thinking: bool | None = None,
    effort: str | None = None,
) -> dict[str, Json]:
    """The template's variables. `special` is the text of its BOS and EOS tokens; `prompted` asks for the begin of
    an answer, `thinking` for one with reasoning or without, `effort` for so much of it, where the template can be
    asked. A template that knows `functions` instead of tools (Firefunction) gets them as JSON text."""
    found: dict[str, Json] = {
        "messages": list(turns),
        "tools": None if tools is None else list(tools),
        "bos_token": special[0],
        "eos_token": special[1],
        "add_generation_prompt": prompted,
    }
    known = variables(template)
    if "functions" in known and "tools" not in known:
        found["functions"] = json.dumps([tool["function"] for tool in tools or ()], ensure_ascii=False, indent=4)
        found["datetime"] = (today or PROBE_DAY).strftime("%Y-%m-%d %A")
    if thinking is not None:
        found |= {switch: thinking for switch in THINKING_SWITCHES if switch in known}
    if effort is not None and EFFORT in known:
        found[EFFORT] = effort
    return found


@lru_cache(maxsize=TRAITS_MAX)
def probe(template: str, bos_token: str, eos_token: str) -> Traits:
    """What `template` shows, found by rendering a few dozen small conversations: some tens of milliseconds."""
    return _Probe(template, (bos_token, eos_token)).traits()


class _Probe:
    """Asks one template. Each answer may decide how the next question is put."""

    def __init__(self, template: str, special: tuple[str, str]) -> None:
        self._template, self._special = template, special
        self._none: list[Json] | None = None if self._shows([_user()], USER, tools=None) else []
        self._tools = [_tool({"type": "string"})]
        self._plain = self._shows([_user()], NAME, tools=self._tools)
        if not self._plain and self._shows([_user()], NAME, tools=[described := _tool(_described("string"))]):
            self._tools = [described]

    def traits(self) -> Traits:
        system = _turn("system", SYSTEM)
        answered = [_user(), _turn("assistant", VALUE)]
        again = _turn("user", AGAIN)
        return Traits(
            system=self._plainly([system, _user()], SYSTEM, USER),
            system_late=self._plainly([system, *answered, _turn("system", LATER), again], SYSTEM, LATER, AGAIN),
            system_alone=self._plainly([system], SYSTEM) and (not self._takes_tools() or self._shows([system], SYSTEM)),
            repeats=self._plainly([_user(), again], USER, AGAIN)
            and self._plainly([*answered, answered[1], again], USER, AGAIN),
            assistant_first=self._plainly([answered[1], _user()], VALUE, USER),
            tools=self._takes_tools(),
            plain_parameters=self._plain,
            none_as_list=self._none is not None and self._plainly([_user()], USER),
            **self._of_calls(system, again),
        )

    def _of_calls(self, system: Turn, again: Turn) -> dict[str, Json]:
        """The form in which calls are shown, found first, and what can be shown beside them in that form."""
        forms = [
            _Form(id_, content, as_text)
            for as_text in (False, True)
            for content in ("", None)
            for id_ in ("call_probe123456", NINE_LETTERS)
        ]
        form = next((form for form in forms if self._shows_once(form.loop(), VALUE, RESULT)), None)
        if form is None:
            return self._of_results(again)
        user, call, result = loop = form.loop()
        _, second, more = replace(form, id=NINE_LETTERS[::-1]).loop(value=f"{VALUE}9")
        two = {**call, "tool_calls": [*call["tool_calls"], *second["tool_calls"]]}
        said = {**call, "content": LATER}
        broken = form.loop(arguments=f'{{"key": "{VALUE}')
        done = [_turn("assistant", SYSTEM), again]
        reasoning = next((key for key in REASONING_KEYS if self._shows(_with(loop, {key: THOUGHT}), THOUGHT)), "")
        beside = _with([user, said, result], {reasoning: THOUGHT})
        return {
            "calls": True,
            "results": True,
            "many_calls": self._shows([user, two, result, more], f"{VALUE}9"),
            "any_id": form.id != NINE_LETTERS,
            "empty_content": form.content == "",
            "object_arguments": not form.as_text,
            "any_arguments": self._shows(broken, VALUE, RESULT),
            "call_text": self._shows([user, said, result, *done], LATER, NAME, RESULT, SYSTEM, AGAIN),
            "call_after_text": self._shows(
                [user, _turn("assistant", LATER), call, result, *done], LATER, NAME, RESULT, SYSTEM, AGAIN
            ),
            "system_in_loop": self._shows([system, *loop], SYSTEM),
            "user_after_result": self._shows([*loop, again], RESULT, AGAIN),
            "reasoning": reasoning,
            "reasoning_beside_text": bool(reasoning) and self._shows(beside, THOUGHT, LATER),
        }

    def _of_results(self, again: Turn) -> dict[str, Json]:
        """Of a template that shows no calls. If it lists no tools, a turn of theirs is nothing that its model knows."""
        user, _, result = _Form(NINE_LETTERS, "", as_text=False).loop()
        loop = [user, _turn("assistant", VALUE), result]
        if not self._takes_tools() or not self._shows_once(loop, VALUE, RESULT):
            return {}
        after = [*loop, {**result, "content": LATER}, again]
        return {"results": True, "user_after_result": self._shows(after, RESULT, LATER, AGAIN)}

    def _shows_once(self, turns: Sequence[Turn], *wanted: str) -> bool:
        """As `_shows`, of the tool's name and these words, each once: some templates write a call twice."""
        shown = rendered(self._template, turns, self._tools, self._special)
        return shown is not None and NAME in shown and all(shown.count(word) == 1 for word in wanted)

    def _takes_tools(self) -> bool:
        return self._plain or self._tools != [_tool({"type": "string"})]

    def _plainly(self, turns: Sequence[Turn], *wanted: str) -> bool:
        return self._shows(turns, *wanted, tools=self._none)

    def _shows(self, turns: Sequence[Turn], *wanted: str, tools: Sequence[Json] | None = ()) -> bool:
        """Whether all these words appear, with the probe's tool in the list of tools if not said otherwise."""
        shown = rendered(self._template, turns, self._tools if tools == () else tools, self._special)
        return shown is not None and all(word in shown for word in wanted)


def rendered(
    template: str, turns: Sequence[Turn], tools: Sequence[Json] | None, special: tuple[str, str]
) -> str | None:
    """The text for a conversation that is none, or None where the template refuses it."""
    try:
        return expand(template, context(template, turns, tools, special, today=PROBE_DAY), PROBE_DAY)
    except TemplateFault:
        return None


def _turn(role: str, content: str) -> Turn:
    return {"role": role, "content": content}


def _user() -> Turn:
    return _turn("user", USER)


def _with(loop: Sequence[Turn], more: Mapping[str, str]) -> list[Turn]:
    """The same with something more in the turn of the call."""
    return [{**turn, **more} if "tool_calls" in turn else turn for turn in loop]


def _described(type_: str) -> Json:
    return {"type": type_, "description": "probe"}


def _tool(parameter: Json) -> Json:
    parameters = {"type": "object", "properties": {"key": parameter}, "required": ["key"]}
    return {"type": "function", "function": {"name": NAME, "description": "probe", "parameters": parameters}}


@dataclass(frozen=True, slots=True)
class _Form:
    """In which a call is put to a template."""

    id: str
    content: str | None
    as_text: bool

    def loop(self, arguments: Json = None, value: str = VALUE) -> list[Turn]:
        """A question, a call, and its result."""
        made: Json = {"key": value} if arguments is None else arguments
        if self.as_text and not isinstance(made, str):
            made = json.dumps(made)
        call = {"id": self.id, "type": "function", "function": {"name": NAME, "arguments": made}}
        return [
            _user(),
            {"role": "assistant", "content": self.content, "tool_calls": [call]},
            {"role": "tool", "content": RESULT, "tool_call_id": self.id, "name": NAME},
        ]
