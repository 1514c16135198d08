"""A contract checks what goes into a tool and what comes out; a step's set is what its tier and its list leave."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from ringleader.agent.contracts import (
    BadArguments,
    Registry,
    ToolContract,
    ToolFault,
    ToolResult,
    build_tool_contracts,
    tool,
)
from ringleader.errors import ContractFault, RingleaderError


@dataclass
class Stay:
    start: date
    nights: tuple[int, ...]


@tool(tier=0)
def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1, unit: Literal["C", "F"] = "C") -> dict[str, int]:
    """Tells the weather.

    Args:
        city: where,
            in full
        days: how far ahead
    """
    return {"degrees": len(city) * days}


@tool(tier=1, effects=["network"])
async def fetch(url: str) -> str:
    """Fetches."""
    await asyncio.sleep(0)
    return f"body of {url}"


@tool(tier=2, effects=["read", "write"])
def shell(command: str) -> str:
    """Runs."""
    return command


REGISTRY = Registry([weather, fetch, shell])


def test_a_function_with_a_docstring_becomes_a_schema() -> None:
    assert weather.schema == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather.",
            "parameters": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "city": {"type": "string", "description": "where, in full"},
                    "days": {
                        "type": "integer",
                        "default": 1,
                        "minimum": 1,
                        "maximum": 7,
                        "description": "how far ahead",
                    },
                    "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                },
                "required": ["city"],
            },
        },
    }


def test_a_tool_is_still_its_function() -> None:
    assert weather("Rome", days=2) == {"degrees": 8}


async def test_arguments_go_in_as_json_text_or_as_an_object() -> None:
    for arguments in ('{"city": "Rome", "days": 2}', {"city": "Rome", "days": 2}):
        result = await weather.call(arguments)
        assert (result.text, result.value, result.failure) == ('{"degrees": 8}', {"degrees": 8}, None)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("", "city: Field required"),
        ({"city": 3}, "city: Input should be a valid string"),
        ({"city": "x", "days": 8}, "days: Input should be less than or equal to 7"),
        ({"city": "x", "unit": "K"}, "unit: Input should be 'C' or 'F'"),
        ({"city": "x", "town": "y"}, "town: Extra inputs are not permitted"),
    ],
)
async def test_wrong_arguments_come_back_as_a_text_for_the_model(arguments: Any, named: str) -> None:
    result = await weather.call(arguments)
    assert result.failure == "bad_arguments"
    assert "weather" in result.text and named in result.text
    with pytest.raises(BadArguments):
        weather.read(arguments)


async def test_wrong_arguments_are_told_with_those_that_there_are() -> None:
    assert "It takes: city, days (optional), unit (optional)." in (await weather.call({})).text


def test_halves_of_characters_become_what_decoders_make_of_them() -> None:
    assert weather.read('{"city": "a\\ud83d"}')["city"] == "a\ufffd"
    assert weather.read('{"city": "\\ud83d\\ude00"}')["city"] == "\U0001f600"
    assert weather.read('{"city": "\ud83d"}')["city"] == "\ufffd"


async def test_a_result_with_a_text_of_its_own_goes_as_it_is_within_the_limit() -> None:
    @tool(tier=0, result_chars_max=4)
    def page() -> ToolResult:
        """Has a text for the model and a value for code."""
        return ToolResult("a long text", {"n": 1})

    result = await page.call("")
    assert result.text.startswith("a lo\n[cut here") and result.value == {"n": 1}


async def test_rich_types_are_read_from_json_and_written_back() -> None:
    @tool(tier=0)
    def book(start: date, nights: tuple[int, ...]) -> Stay:
        """Books."""
        return Stay(start, nights)

    result = await book.call('{"start": "2026-05-01", "nights": [1, 2]}')
    assert result.value == {"start": "2026-05-01", "nights": [1, 2]}


async def test_a_result_of_another_type_than_promised_is_an_error_result() -> None:
    @tool(tier=0)
    def count() -> int:
        """Counts."""
        return "three"  # type: ignore[return-value]  # what is tested

    result = await count.call("{}")
    assert result.failure == "bad_result" and result.value is None


async def test_a_result_that_no_json_can_say_is_an_error_result() -> None:
    @tool(tier=0)
    def strange() -> Any:
        """Returns what no JSON says."""
        return object()

    assert (await strange.call("{}")).failure == "bad_result"


async def test_nothing_returned_reads_as_done() -> None:
    @tool(tier=0)
    def note() -> None:
        """Notes."""

    result = await note.call("")
    assert (result.text, result.failure) == ("done", None)


async def test_long_results_are_cut_and_say_so() -> None:
    @tool(tier=0, result_chars_max=10)
    def talk() -> str:
        """Talks."""
        return "x" * 25

    assert (await talk.call("")).text == "x" * 10 + "\n[cut here: the first 10 of 25 characters; ask for less at once]"


async def test_a_fault_that_the_tool_tells_goes_to_the_model_as_it_is() -> None:
    @tool(tier=0)
    def refuse() -> str:
        """Refuses."""
        raise ToolFault("not on a Sunday")

    result = await refuse.call("")
    assert (result.text, result.failure) == ("not on a Sunday", "failed")


@pytest.mark.parametrize("error", [KeyError("k"), StopIteration(), TimeoutError("its own"), SystemExit(3)])
async def test_an_unexpected_error_is_a_result_and_never_raises(error: BaseException) -> None:
    @tool(tier=0)
    def broken() -> str:
        """Breaks."""
        raise error

    result = await broken.call("")
    assert result.failure == "failed" and result.text.startswith("broken failed")

    @tool(tier=0)
    async def broken_later() -> str:
        """Breaks."""
        raise error

    result = await broken_later.call("")
    assert result.failure == "failed" and result.text.startswith("broken_later failed")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unspeakable(), "broken failed: Unspeakable"),
        (RuntimeError("half \ud800"), "broken failed: RuntimeError: half \ufffd"),
        (ToolFault("half \ud800"), "half \ufffd"),
        (asyncio.CancelledError(), "broken failed: RuntimeError: something in it was cancelled"),
    ],
)
async def test_what_an_error_says_can_always_be_carried_on(error: BaseException, words: str) -> None:
    @tool(tier=0)
    async def broken() -> str:
        """Breaks."""
        raise error

    result = await broken.call("")
    assert (result.failure, result.text) == ("failed", words)


@pytest.mark.parametrize(
    ("returned", "text", "failure"),
    [
        ("half \ud800", "half \ufffd", None),
        (b"abc", "abc", None),
        (None, "done", None),
        ("x" * 100, "xxxxxxxxxx\n[cut here: the first 10 of 100 characters; ask for less at once]", None),
        (b"\xff", "returned a value that it does not promise", "bad_result"),
        (itertools.count(), "returned a value that it does not promise", "bad_result"),
        (10**6000, "returned a value that it does not promise", "bad_result"),
        (object(), "returned a value that it does not promise", "bad_result"),
    ],
    ids=["half a character", "bytes", "None", "much", "bytes that are no text", "no end", "a large number", "no JSON"],
)
async def test_whatever_a_tool_returns_is_a_text_or_a_failure(returned: Any, text: str, failure: str | None) -> None:
    @tool(tier=0, result_chars_max=10)
    def give() -> Any:
        """Gives."""
        return returned

    result = await give.call("")
    assert text in result.text and result.failure == failure


def test_a_fault_of_large_arguments_is_no_large_text() -> None:
    foreign = ToolContract("far", "Is far.", run=print, parameters={"properties": {"n": {"type": "integer"}}})
    with pytest.raises(BadArguments) as caught:
        foreign.read({"n": "x" * 1_000_000})
    assert len(str(caught.value)) < 1000


async def test_a_tool_that_hangs_is_given_up_in_time() -> None:
    ends = threading.Event()

    @tool(tier=0, timeout_s=0.05)
    def hang() -> str:
        """Hangs."""
        ends.wait(30)
        return "late"

    @tool(tier=0, timeout_s=0.05)
    async def doze() -> str:
        """Dozes."""
        await asyncio.sleep(30)
        return "late"

    for each in (hang, doze):
        result = await each.call("")
        assert (result.failure, result.text) == ("timeout", f"{each.name} was given up after 0.05 s")
    ends.set()


async def test_cancelling_a_call_cancels_it() -> None:
    begun = asyncio.Event()

    @tool(tier=0)
    async def wait() -> str:
        """Waits."""
        begun.set()
        await asyncio.sleep(30)
        return ""

    task = asyncio.create_task(wait.call(""))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_plain_functions_run_beside_each_other() -> None:
    both = threading.Barrier(2, timeout=10)

    @tool(tier=0)
    def meet() -> str:
        """Meets another call."""
        both.wait()
        return "met"

    assert [r.text for r in await asyncio.gather(meet.call(""), meet.call(""))] == ["met", "met"]


def test_a_tool_that_writes_asks_unless_told_otherwise() -> None:
    assert shell.approval == "always" and fetch.approval == "never"
    asked = tool(tier=0, effects=["write"], approval="once")(weather.run)
    assert asked.approval == "once"


def test_declarations_that_no_model_could_use_are_refused() -> None:
    def undocumented(x: int) -> int:
        return x

    def untyped(x) -> int:  # type: ignore[no-untyped-def]  # what is tested
        """Has no type."""
        return int(x)

    def local() -> Local:  # type: ignore[name-defined]  # noqa: F821 - what is tested
        """Has a type that nobody finds."""

    def unpromised(x: int):  # type: ignore[no-untyped-def]  # what is tested
        """Promises nothing."""

    def starred(*x: int) -> int:
        """Takes any number."""
        return len(x)

    def misdescribed(x: int) -> int:
        """Describes another.

        Args:
            y: is not there
        """
        return x

    def opaque(x: threading.Lock) -> int:
        """Takes what no JSON says."""
        return 0

    for function, why in [
        (undocumented, "no description"),
        (untyped, "x has no type"),
        (local, "must be known where it is made"),
        (unpromised, "result has no type"),
        (starred, "passed by its name"),
        (misdescribed, "describes y"),
        (opaque, "opaque"),
    ]:
        with pytest.raises(ContractFault, match=why):
            tool(tier=0)(function)


@pytest.mark.parametrize("name", ["", "auto", "any", "two words", "x" * 65, "é"])
def test_names_that_providers_refuse_are_refused(name: str) -> None:
    with pytest.raises(ContractFault, match="cannot be called"):
        ToolContract(name, "Does.", run=print)


def test_a_foreign_schema_checks_arguments_without_its_patterns_and_without_fetching() -> None:
    evil = {"type": "string", "pattern": "^(a+)+$"}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "s": evil}, "required": ["n"]}
    foreign = ToolContract("remote_add", "Adds.", run=print, parameters=schema)
    assert foreign.schema["function"]["parameters"] == schema
    assert foreign.read({"n": 1, "s": "a" * 60 + "!"}) == {"n": 1, "s": "a" * 60 + "!"}
    with pytest.raises(BadArguments, match=r"n: 'x' is not of type 'integer'.*It takes: n, s \(optional\)"):
        foreign.read({"n": "x"})
    away = ToolContract("away", "Goes.", run=print, parameters={"$ref": "http://127.0.0.1:9/schema"})
    with pytest.raises(BadArguments, match="cannot be checked"):
        away.read({})
    with pytest.raises(ContractFault, match="no JSON schema"):
        ToolContract("odd", "Is odd.", run=print, parameters={"type": "thing"})


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ContractFault, match="two tools named weather"):
        Registry([weather, weather])


def test_a_step_gets_what_its_tier_and_its_list_leave() -> None:
    schemas, bound, choice = build_tool_contracts(1, None, registry=REGISTRY)
    assert bound == [weather, fetch] and choice == "auto"
    assert schemas == [weather.schema, fetch.schema]
    assert build_tool_contracts(2, ["shell", "weather", "shell"], registry=REGISTRY)[1] == [shell, weather]
    assert build_tool_contracts(2, [], registry=REGISTRY) == ([], [], "auto")


def test_a_requested_tool_above_the_tier_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert build_tool_contracts(0, ["weather", "shell"], registry=REGISTRY)[1] == [weather]
    assert "left out of a step of tier 0: shell (tier 2)" in caplog.text


def test_a_choice_is_checked_against_exactly_the_set_that_is_left() -> None:
    forced = build_tool_contracts(1, ["weather", "fetch"], {"type": "tool", "name": "fetch"}, registry=REGISTRY)[2]
    assert forced == {"type": "function", "function": {"name": "fetch"}}
    with pytest.raises(ValueError, match=r"'fetch', which is not among tools: weather\. Tools of .*fetch \(tier 1\)"):
        build_tool_contracts(0, ["weather", "fetch"], "fetch", registry=REGISTRY)
    with pytest.raises(ValueError, match="'fetch', which is not among tools: weather"):
        build_tool_contracts(2, ["weather"], "fetch", registry=REGISTRY)


def test_a_requested_name_that_nobody_has_is_told_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no tool is named 'wether'.*Did you mean weather\?") as told:
        build_tool_contracts(0, ["wether"], registry=REGISTRY)
    assert isinstance(told.value, RingleaderError)
    with pytest.raises(ValueError, match="must be a list of names"):
        build_tool_contracts(0, "weather", registry=REGISTRY)


def test_schemas_are_plain_json() -> None:
    assert json.loads(json.dumps(shell.schema)) == shell.schema
