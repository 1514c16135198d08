"""The response object, at every stage of an answer: what was asked echoed, what came, and what it took. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ringleader.api.openai_answer import Spell
from ringleader.api.priority import served_tier
from ringleader.api.responses_read import SEALED, ResponseAsked
from ringleader.values import Json, Usage


@dataclass(frozen=True, slots=True)
class ResponseFrame:
    """What all stages of one response share. `created` in Unix seconds."""

    id: str
    created: int
    model: str
    asked: ResponseAsked
    spell: Spell
    stored: bool = False

    @property
    def sealed(self) -> bool:
        """Whether reasoning is also given in a form to be carried back."""
        return SEALED in self.asked.include

    def body(
        self,
        status: str,
        output: list[dict[str, Json]],
        *,
        usage: Usage | None = None,
        completed_at: int | None = None,
        incomplete: str | None = None,
        error: Mapping[str, Json] | None = None,
    ) -> dict[str, Json]:
        """The object in this state."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "completed_at": completed_at,
            "error": error,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            **self._echo(),
            "output": output,
            "usage": None if usage is None else usage_body(usage),
        }

    def _echo(self) -> dict[str, Json]:
        wire = self.asked.wire
        reasoning = wire.reasoning
        summary = None if reasoning is None else reasoning.summary or reasoning.generate_summary
        return {
            "instructions": wire.instructions,
            "max_output_tokens": wire.max_output_tokens,
            "max_tool_calls": wire.max_tool_calls,
            "model": self.model,
            "parallel_tool_calls": self.asked.calls.parallel,
            "previous_response_id": wire.previous_response_id,
            "prompt_cache_key": wire.prompt_cache_key,
            "prompt_cache_retention": wire.prompt_cache_retention,
            "reasoning": {"effort": None if reasoning is None else reasoning.effort, "summary": summary},
            "safety_identifier": wire.safety_identifier,
            "service_tier": served_tier(wire.service_tier or "default"),
            "store": self.stored,
            "temperature": 1.0 if wire.temperature is None else wire.temperature,
            "top_p": 1.0 if wire.top_p is None else wire.top_p,
            "presence_penalty": wire.presence_penalty or 0.0,
            "frequency_penalty": wire.frequency_penalty or 0.0,
            "text": self._text(),
            "tool_choice": wire.tool_choice if wire.tool_choice is not None else "auto",
            "tools": [_tool(entry) for entry in wire.tools or ()],
            "top_logprobs": wire.top_logprobs or 0,
            "truncation": wire.truncation or "disabled",
            "user": wire.user,
            "metadata": dict(wire.metadata or {}),
        }

    def _text(self) -> dict[str, Json]:
        wire = self.asked.wire.text
        form: dict[str, Json] = {"type": "text"}
        if wire is not None and wire.format is not None:
            form = wire.format.model_dump(by_alias=True, exclude_none=True)
            if wire.format.type != "json_schema":
                form = {"type": wire.format.type}
        return {"format": form, "verbosity": (wire.verbosity if wire is not None else None) or "medium"}


def _tool(entry: Json) -> dict[str, Json]:
    """A tool as it was sent, with the fields that OpenAI's always have."""
    if entry["type"] == "function":
        return {"description": None, "parameters": None, "strict": None, **entry}
    if entry["type"] == "custom":
        return {"description": None, **entry, "format": entry.get("format") or {"type": "text"}}
    return dict(entry)


def usage_body(usage: Usage) -> dict[str, Json]:
    """OpenAI's usage object, and what the answer cost the ring under `ringleader`."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "ringleader": {
            "passes": usage.passes,
            "forced_tokens": usage.forced_tokens,
            "opening_tokens": usage.opening_tokens,
        },
    }
