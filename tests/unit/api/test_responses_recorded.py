"""The key sets of OpenAI's own traffic (recorded in the tests of langchain-openai 1.7): ours have each of them.

Left out: `obfuscation`, which pads; `billing`, `moderation` and `tool_usage`, which only OpenAI has; and `phase`.
"""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Delta, Finished, ReasoningDelta, TextDelta
from tests.api.scripted import USAGE
from tests.unit.api.test_responses_answer import told

RESPONSE = """id object created_at status background completed_at error frequency_penalty incomplete_details
instructions max_output_tokens max_tool_calls model output parallel_tool_calls presence_penalty
previous_response_id prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store
temperature text tool_choice tools top_logprobs
top_p truncation usage user metadata"""
USED = "input_tokens input_tokens_details output_tokens output_tokens_details total_tokens"
EVENTS = {
    "output_item.added": "item output_index",
    "output_item.done": "item output_index",
    "content_part.added": "content_index item_id output_index part",
    "content_part.done": "content_index item_id output_index part",
    "output_text.delta": "content_index delta item_id logprobs output_index",
    "output_text.done": "content_index item_id logprobs output_index text",
    "reasoning_summary_part.added": "item_id output_index part summary_index",
    "reasoning_summary_part.done": "item_id output_index part summary_index",
    "reasoning_summary_text.delta": "delta item_id output_index summary_index",
    "reasoning_summary_text.done": "item_id output_index summary_index text",
    "function_call_arguments.delta": "delta item_id output_index",
    "function_call_arguments.done": "arguments item_id output_index",
    "custom_tool_call_input.delta": "delta item_id output_index",
    "custom_tool_call_input.done": "input item_id output_index",
}
ITEMS = {
    "message": "id type status content role",
    "reasoning": "id type summary encrypted_content",
    "function_call": "id type status arguments call_id name",
    "custom_tool_call": "id type status call_id input name",
}
DELTAS: list[Delta] = [
    ReasoningDelta("hm"),
    TextDelta("so"),
    *(CallStarted(0, "now"), ArgumentsDelta(0, "{}"), CallEnded(0)),
    *(CallStarted(1, "patch"), ArgumentsDelta(1, "x"), CallEnded(1)),
    Finished("tool_calls", USAGE),
]


@pytest.fixture(scope="module")
def events() -> list[Any]:
    return told(DELTAS, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"}, store=False)


def test_every_stage_of_the_response_has_their_keys(events: list[Any]) -> None:
    for event in events:
        if "response" in event:
            assert set(RESPONSE.split()) <= set(event["response"])
    assert set(USED.split()) <= set(events[-1]["response"]["usage"])


@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_has_their_keys(events: list[Any], kind: str) -> None:
    found = [event for event in events if event["type"] == f"response.{kind}"]
    assert found
    for event in found:
        assert {"type", "sequence_number", *EVENTS[kind].split()} <= set(event)


@pytest.mark.parametrize("kind", ITEMS)
def test_every_item_has_their_keys_when_it_is_added_and_done(events: list[Any], kind: str) -> None:
    items = [event["item"] for event in events if "item" in event and event["item"]["type"] == kind]
    assert len(items) == 2
    for item in items:
        assert set(ITEMS[kind].split()) <= set(item)
