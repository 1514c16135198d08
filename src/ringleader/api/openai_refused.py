"""Chat Completions fields that would change the answer and that we cannot honour: refused by name, never dropped.

A field that is in no table changes nothing (metadata, user, store, cache_control, ...) and is let through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from ringleader.errors import BadRequest
from ringleader.values import Effort, Json, shown


@dataclass(frozen=True, slots=True)
class Refused:
    """A field, the values that ask for nothing (null always is one), and what to do instead."""

    field: str
    neutral: tuple[Json, ...]
    advice: str


_NO_SAMPLER = "this sampler does not exist here; use temperature, top_p, top_k or min_p"
_NO_GRAMMAR = "use response_format with a JSON schema, or a custom tool with a lark or regex grammar"
_NO_TEXT_CONTROL = "the prompt is made by the model's own chat template"
_EFFORT = "use reasoning_effort, or enable_thinking"

REFUSED: tuple[Refused, ...] = (
    Refused("audio", (), "only text is served"),
    Refused("modalities", (["text"], []), "only ['text'] is served"),
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
    Refused("add_generation_prompt", (True,), _NO_TEXT_CONTROL),
    Refused("continue_final_message", (False,), _NO_TEXT_CONTROL),
    Refused("documents", ([],), "put the documents into a message"),
    Refused("thinking", (), _EFFORT),
    Refused("thinking_budget", (), _EFFORT),
    Refused("reasoning", ({},), _EFFORT),
)

EFFORTS: tuple[Effort, ...] = get_args(Effort)
_SWITCHES = ("enable_thinking", "thinking")  # what templates call it, as other servers' clients send it


def refuse_unserved(body: dict[str, Json]) -> None:
    """Let a Chat Completions `body` pass if each field in it can be honoured or changes nothing.

    Raises:
        BadRequest: the first that cannot, with what to do instead.
    """
    refuse(body, REFUSED)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client wishes of the model's reasoning: that there is some or none, and how much."""

    thinking: bool | None = None
    effort: Effort | None = None


def read_thinking(body: dict[str, Json]) -> Wish:
    """What the client of Chat Completions wishes of the model's reasoning.

    Raises:
        BadRequest: it wishes for anything else of the template, or for two things.
    """
    arguments = body.get("chat_template_kwargs") or {}
    efforts = {read_effort(body.get("reasoning_effort"), "reasoning_effort")}
    if isinstance(arguments, dict):
        efforts.add(read_effort(arguments.get("reasoning_effort"), "chat_template_kwargs.reasoning_effort"))
    efforts.discard(None)
    wishes: set[bool | None] = {effort != "none" for effort in efforts if effort != "minimal"}
    wishes |= _switches(body, "enable_thinking") | _switches(arguments, "chat_template_kwargs")
    wishes.discard(None)
    if len(wishes) > 1 or len(efforts) > 1:
        message = "'reasoning_effort', 'enable_thinking' and 'chat_template_kwargs' contradict each other: send one."
        raise BadRequest(message, param="reasoning_effort")
    thinking = wishes.pop() if wishes else None
    effort = efforts.pop() if efforts else None
    return Wish(thinking, effort or ("none" if thinking is False else None))


def _switches(given: Json, param: str) -> set[bool | None]:
    """The switches in the body itself, or among a template's arguments, where nothing else can be served."""
    if param == "enable_thinking":
        given = {param: given.get(param)}
    if not isinstance(given, dict):
        raise BadRequest(f"Invalid type for '{param}': expected an object.", param=param, code="invalid_type")
    found: set[bool | None] = set()
    for name, value in given.items():
        if name == "reasoning_effort":
            continue
        if name not in _SWITCHES:
            message = f"'{param}.{name}' is not supported: {_NO_TEXT_CONTROL}."
            raise BadRequest(message, param=f"{param}.{name}", code="unsupported_parameter")
        if value is not None and not isinstance(value, bool):
            where = param if param == name else f"{param}.{name}"
            raise BadRequest(f"Invalid type for '{where}': expected a boolean.", param=where, code="invalid_type")
        found.add(value)
    return found


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


def read_effort(value: Json, param: str) -> Effort | None:
    """`value` of the field at `param`, checked. Raises BadRequest for one that is no effort."""
    if value is None:
        return None
    for effort in EFFORTS:
        if effort == value:
            return effort
    known = ", ".join(repr(effort) for effort in EFFORTS)
    raise BadRequest(f"Invalid value: {shown(value)} for '{param}'. Supported values are: {known}.", param=param)
