"""Chat Completions fields that would change the answer and that we cannot honour: refused by name, never dropped.

A field that is in no table changes nothing (metadata, user, store, cache_control, ...) and is let through.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringleader.api.validation import shown
from ringleader.errors import BadRequest
from ringleader.values import Json


@dataclass(frozen=True, slots=True)
class Refused:
    """A field, the values that ask for nothing (null always is one), and what to do instead."""

    field: str
    neutral: tuple[Json, ...]
    advice: str


_NO_SAMPLER = "this sampler does not exist here; use temperature, top_p, top_k or min_p"
_NO_GRAMMAR = "use response_format with a JSON schema, or a custom tool with a lark or regex grammar"
_NO_TEXT_CONTROL = "the prompt is made by the model's own chat template"

REFUSED: tuple[Refused, ...] = (
    Refused("audio", (), "only text is served"),
    Refused("modalities", (["text"], []), "only ['text'] is served"),
    Refused("prediction", (), "predicted outputs are not served"),
    Refused("web_search_options", (), "there is no web search; give the model a tool"),
    Refused("moderation", (), "there is no moderation"),
    Refused("best_of", (1,), "ask again with another seed"),
    Refused("use_beam_search", (False,), "there is no beam search"),
    Refused("suffix", ("",), "there is no infilling"),
    Refused("echo", (False,), "the prompt is never echoed"),
    Refused("prompt_logprobs", (0,), "use logprobs for the answer's own tokens"),
    Refused("guided_json", (), _NO_GRAMMAR),
    Refused("guided_regex", (), _NO_GRAMMAR),
    Refused("guided_choice", (), _NO_GRAMMAR),
    Refused("guided_grammar", (), _NO_GRAMMAR),
    Refused("structured_outputs", ({},), _NO_GRAMMAR),
    Refused("grammar", ("",), _NO_GRAMMAR),
    Refused("json_schema", (), _NO_GRAMMAR),
    Refused("regex", (), _NO_GRAMMAR),
    Refused("ebnf", (), _NO_GRAMMAR),
    Refused("structural_tag", (), _NO_GRAMMAR),
    Refused("format", ("",), _NO_GRAMMAR),
    Refused("typical_p", (1, 0), _NO_SAMPLER),
    Refused("top_a", (0,), _NO_SAMPLER),
    Refused("tfs_z", (1,), _NO_SAMPLER),
    Refused("mirostat", (0,), _NO_SAMPLER),
    Refused("dynatemp_range", (0,), _NO_SAMPLER),
    Refused("dry_multiplier", (0,), _NO_SAMPLER),
    Refused("xtc_probability", (0,), _NO_SAMPLER),
    Refused("repeat_penalty", (1,), "the field's name here is repetition_penalty"),
    Refused("length_penalty", (1,), _NO_SAMPLER),
    Refused("min_tokens", (0,), "an answer ends where the model ends it"),
    Refused("ignore_eos", (False,), "an answer ends where the model ends it"),
    Refused("stop_token_ids", ([],), "use stop with strings"),
    Refused("include_stop_str_in_output", (False,), "stop strings are never part of the answer"),
    Refused("bad_words", ([],), "use logit_bias"),
    Refused("allowed_token_ids", ([],), "use logit_bias"),
    Refused("logits_processors", ([],), "use logit_bias"),
    Refused("chat_template", (), _NO_TEXT_CONTROL),
    Refused("chat_template_kwargs", ({},), _NO_TEXT_CONTROL),
    Refused("add_generation_prompt", (True,), _NO_TEXT_CONTROL),
    Refused("continue_final_message", (False,), _NO_TEXT_CONTROL),
    Refused("documents", ([],), "put the documents into a message"),
    Refused("thinking", (), "the model thinks as its template has it"),
    Refused("enable_thinking", (), "the model thinks as its template has it"),
    Refused("thinking_budget", (), "the model thinks as its template has it"),
    Refused("reasoning", ({},), "the model thinks as its template has it"),
)

# "medium" is what the API documents as the default: saying it asks for nothing beyond what happens anyway.
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_EFFORT_NEUTRAL = (None, "medium")


def refuse_unserved(body: dict[str, Json]) -> None:
    """Let a Chat Completions `body` pass if each field in it can be honoured or changes nothing.

    Raises:
        BadRequest: the first that cannot, with what to do instead.
    """
    refuse(body, REFUSED)
    refuse_effort(body.get("reasoning_effort"), "reasoning_effort")


def refuse(body: dict[str, Json], table: tuple[Refused, ...]) -> None:
    """Raises BadRequest for the first field of `table` that asks for something."""
    for refused in table:
        value = body.get(refused.field)
        if value is not None and not _among(value, refused.neutral):
            message = f"'{refused.field}' is not supported: {refused.advice}."
            raise BadRequest(message, param=refused.field, code="unsupported_parameter")


def _among(value: Json, neutral: tuple[Json, ...]) -> bool:
    """Equality that keeps true and 1 apart."""
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in neutral)


def refuse_effort(value: Json, param: str) -> None:
    """Raises BadRequest for any effort but the default one; `param` is the field's path."""
    if value in _EFFORT_NEUTRAL:
        return
    if value not in _EFFORTS:
        known = ", ".join(repr(effort) for effort in _EFFORTS)
        message = f"Invalid value: {shown(value)} for '{param}'. Supported values are: {known}."
        raise BadRequest(message, param=param)
    message = f"'{param}' {shown(value)} is not supported: the model thinks as its template has it. Leave it out."
    raise BadRequest(message, param=param, code="unsupported_value")
