"""AGENTIC_EK_PROVIDER: a provider of the caller's own in the place of a backend."""

from __future__ import annotations

import asyncio
import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent.contracts import ContractFault
from ringleader.agent.delegated import VARIABLE, load_provider, provider_of_environment
from ringleader.agent.runner import StepRun
from ringleader.errors import BadRequest
from tests.unit.agent.acting import REGISTRY, step

DONE = {"content": "all done", "tool_calls": [], "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
CALL = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": '{"where": "a"}'}}
NAMED = {"type": "function", "function": {"name": "look"}}


class Provider:
    """Plays dicts and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    def __call__(self, request: dict[str, Any]) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Honouring(Provider):
    supports_tool_choice = True


class Slow(Provider):
    async def __call__(self, request: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        return Provider.__call__(self, request)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("a_providers_home")
    monkeypatch.setitem(sys.modules, "a_providers_home", module)
    monkeypatch.setenv(VARIABLE, "a_providers_home:provider")
    return module


async def run(of: Any, home: types.ModuleType, provider: Any) -> StepRun:
    home.provider = provider  # type: ignore[attr-defined] # a module made for this
    made = StepRun(of, registry=REGISTRY)
    await made.drive()
    return made


@pytest.mark.parametrize("kind", [Provider, Slow])
async def test_a_provider_takes_the_canonical_dict_and_gives_one_back(home: types.ModuleType, kind: Any) -> None:
    provider = kind(DONE)
    made = await run(step(tools=["look"], role="checker"), home, provider)
    (asked,) = provider.asked
    assert set(asked) == {"messages", "tools", "max_tokens"}
    assert asked["messages"] == [
        {"role": "system", "content": "You are the checker."},
        {"role": "user", "content": "do it"},
    ]
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["look"]
    assert made.outcome is not None
    assert made.outcome.text == "all done"


async def test_by_default_a_choice_is_not_threaded_and_one_warning_names_choice_and_step(
    home: types.ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider({"content": None, "tool_calls": [CALL], "finish_reason": "tool_calls"}, DONE)
    with caplog.at_level(logging.WARNING):
        made = await run(step("look", name="verify"), home, provider)
    assert ["tool_choice" in asked for asked in provider.asked] == [False, False]
    (warning,) = [record.getMessage() for record in caplog.records if "tool_choice" in record.getMessage()]
    assert "'verify'" in warning
    assert "'look'" in warning
    assert made.outcome is not None
    assert made.outcome.ok


async def test_auto_is_not_warned_of(home: types.ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    await run(step(), home, Provider(DONE))
    assert not caplog.records


async def test_a_provider_that_declares_it_gets_the_choice_and_only_for_the_first_turn(
    home: types.ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Honouring({"content": None, "tool_calls": [CALL], "finish_reason": "tool_calls"}, DONE)
    made = await run(step("look"), home, provider)
    assert [asked["tool_choice"] for asked in provider.asked] == [NAMED, "auto"]
    assert provider.asked[1]["messages"][-1]["content"] == "seen a"
    assert not caplog.records
    assert made.outcome is not None
    assert made.outcome.ok


async def test_a_provider_that_declares_it_and_breaks_it_does_not_pass(home: types.ModuleType) -> None:
    made = await run(step("look"), home, Honouring(DONE))
    assert made.outcome is not None
    assert made.outcome.kind == "choice_ignored"


async def test_calls_that_a_provider_made_itself_are_not_made_again(home: types.ModuleType) -> None:
    provider = Provider(DONE | {"tool_calls": [CALL]})
    made = await run(step(), home, provider)
    assert made.state.calls_made == 0
    assert made.outcome is not None
    assert made.outcome.ok


async def test_a_provider_that_made_the_forced_call_itself_has_kept_the_choice(home: types.ModuleType) -> None:
    made = await run(step("look"), home, Honouring(DONE | {"tool_calls": [CALL]}))
    assert made.outcome is not None
    assert made.outcome.ok
    assert made.state.calls_made == 0


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ZeroDivisionError("by nought"), "ZeroDivisionError: by nought"),
        (SystemExit(3), "SystemExit: 3"),
        ("text", "not the dict"),
        ({"content": 7}, "content"),
    ],
)
async def test_a_provider_that_breaks_ends_the_step_with_its_name(
    home: types.ModuleType, answer: Any, words: str
) -> None:
    made = await run(step(), home, Slow(answer))
    assert made.outcome is not None
    assert made.outcome.kind == "backend_failed"
    assert words in made.outcome.message
    assert "a_providers_home:provider" in made.outcome.message


async def test_a_choice_outside_the_set_fails_fast_here_too(home: types.ModuleType) -> None:
    with pytest.raises(ContractFault, match="lokk"):
        await run(step("lokk"), home, Provider(DONE))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("json.dumps", "write package.module:callable"),
        (":x", "write package.module:callable"),
        ("no_such_module:x", "cannot be imported"),
        ("json:no_such_name", "cannot be imported"),
        ("sys:version", "cannot be called"),
    ],
)
def test_a_provider_that_is_none_is_told_with_the_variable(named: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        load_provider(named)
    assert VARIABLE in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('at once')", "RuntimeError: at once"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def (", "SyntaxError"),
        ("class provider:\n    def __init__(self, needed): ...", "TypeError"),
    ],
)
def test_a_provider_whose_module_breaks_is_told_with_the_variable(
    source: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_broken_home.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "a_broken_home", raising=False)
    with pytest.raises(BadRequest, match=f"{VARIABLE} is .*cannot be imported: .*{words}"):
        load_provider("a_broken_home:provider")


def test_a_class_is_made_an_object_of(home: types.ModuleType) -> None:
    home.provider = type("Made", (), {"__call__": lambda self, request: DONE})  # type: ignore[attr-defined] # as above
    made = provider_of_environment()
    assert made is not None
    assert not made.supports_tool_choice


def test_nothing_is_delegated_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert provider_of_environment() is None
