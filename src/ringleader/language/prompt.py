"""From a checked request to what is scheduled: prompt ids, opening, grammar. The whole of "text in", in order."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringleader.errors import BadRequest
from ringleader.language.content import ContentRule, content_rule
from ringleader.language.custom import as_function, as_functions_in, check_custom, is_raw
from ringleader.language.dialects.detect import detect
from ringleader.language.dialects.dialect import Dialect, Reasoning
from ringleader.language.effort import Steered, levels, steer
from ringleader.language.enforcement import Check
from ringleader.language.grammar import build
from ringleader.language.keywords import with_pointers
from ringleader.language.length import check_length
from ringleader.language.opening import forced_opening
from ringleader.language.raw_prompt import NO_CALLS, raw_ids, raw_parser
from ringleader.language.schema import check_tools
from ringleader.language.stream import StreamParser
from ringleader.language.template import CHATML, render
from ringleader.language.tool_choice import ToolChoice, normalise
from ringleader.tokenizer import Tokenizer
from ringleader.values import ChatRequest, Message, Tool


@dataclass(frozen=True, slots=True)
class Voice:
    """How one model reads and writes: made once when it is loaded, shared by its requests.

    `dialect_how` and `thinking_how` say in words by what evidence the two were found; `overridden`, that a
    person named the dialect.
    """

    tokenizer: Tokenizer
    dialect: Dialect
    context_max: int
    dialect_how: str = ""
    thinking_how: str = ""
    overridden: bool = False

    @property
    def think_close(self) -> tuple[int, ...]:
        """The ids that end this model's reasoning; () for a model that does not reason."""
        if self.dialect.thinking is None:
            return ()
        close = self.dialect.thinking.close
        return (close.token,) if close.token is not None else tuple(self.tokenizer.encode(close.text))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request as the ring sees it. `ids` ends with `opening`, the begin of a forced call (() if none).

    `grammar` constrains the answer from the opening's first id on: the tail's matcher consumes the opening
    and then what is sampled. `thinking_open` says that the prompt ends inside the model's reasoning; `content`
    what the answer's text must be; `checks` what the calls of some tools must match when they are whole;
    `patterned` the places in the request of what may outgrow the grammar engine at some text.
    """

    ids: tuple[int, ...]
    opening: tuple[int, ...]
    grammar: str | None
    choice: ToolChoice
    warnings: tuple[str, ...]
    thinking_open: bool
    content: ContentRule | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    patterned: tuple[str, ...] = ()

    @property
    def demanded(self) -> bool:
        """Whether an answer that does not complete the grammar is worth nothing."""
        return self.choice.mode == "required" or self.content is not None


def voice(tokenizer: Tokenizer, context_max: int, override: str | None = None) -> Voice:
    """The voice of a model with this tokenizer and a context of so many tokens.

    `override` names the dialect to use instead of the detected one. Raises ModelUnsupported for an unknown name.
    """
    found = detect(tokenizer, override)
    if found.template is not None:
        tokenizer = tokenizer.with_template(found.template)
    return Voice(tokenizer, found.dialect, context_max, found.how, found.thinking_how, override is not None)


def compose(voice: Voice, request: ChatRequest, today: datetime.date | None = None) -> Prompt:
    """Everything that is known before the first pass.

    Takes milliseconds, and up to a second for very large schemas: call it off the event loop.

    Raises:
        BadRequest: the choice, the history, a schema or the template says no; names the field.
        ContextTooLong: the prompt and `max_tokens` (or one token) do not fit the context.
    """
    if request.raw is not None:
        given = raw_ids(voice.tokenizer, request.raw, request.max_tokens, voice.context_max)
        return Prompt(given, opening=(), grammar=None, choice=NO_CALLS, warnings=(), thinking_open=False)
    tokenizer = voice.tokenizer
    check_custom(request.tools)
    content = content_rule(request.content)
    tools = check_tools(request.tools)
    choice = normalise(request.tool_choice, tools, request.parallel_tool_calls)
    content = None if choice.mode == "required" else content  # it speaks of text, and there will be none
    check_history(request.messages)
    shown = tuple(as_function(tool, raw_begin(voice)) for tool in tools)
    steered = _steered(voice, request)
    text, reasoning = _text(voice, as_functions_in(request.messages), shown, today, steered)
    ids = tokenizer.encode(text)
    check_length(len(ids), request.max_tokens, voice.context_max)  # before the costlier grammar
    callable_ = tuple(tool if is_raw(tool) else as_function(tool, "") for tool in request.tools)
    grammar = build(voice.dialect, callable_, choice, tokenizer, reasoning=reasoning, content=content)
    opening = forced_opening(grammar, tokenizer) if choice.mode == "required" else ()
    check_length(len(ids) + len(opening), request.max_tokens, voice.context_max)
    return Prompt(
        ids=(*ids, *opening),
        opening=opening,
        grammar=None if grammar is None else grammar.text,
        choice=choice,
        warnings=steered.warnings + (() if grammar is None else grammar.warnings),
        thinking_open=reasoning == "begun",
        content=content,
        checks={} if grammar is None else grammar.checks,
        patterned=() if grammar is None else grammar.patterned,
    )


def parser(voice: Voice, prompt: Prompt, request: ChatRequest) -> StreamParser:
    """A fresh parser for one answer. Feed it the opening first: `parser.open(prompt.opening)`."""
    if request.raw is not None:
        return raw_parser(voice.tokenizer, prompt.ids, request.stop)
    return StreamParser(
        voice.dialect,
        voice.tokenizer,
        prompt.choice,
        request.stop,
        prompt.thinking_open,
        constrained=prompt.grammar is not None,
        schemas={tool.name: with_pointers(as_function(tool, "").parameters or {}) for tool in request.tools},
        custom=frozenset(tool.name for tool in request.tools if tool.kind == "custom" and not is_raw(tool)),
        raw=frozenset(tool.name for tool in request.tools if is_raw(tool)),
        formed=prompt.content is not None,
    )


def check_history(messages: Sequence[Message]) -> None:
    """See that there are messages, and that every tool result answers a call of the turn before it.

    Raises:
        BadRequest: names the message by its index.
    """
    if not messages:
        raise BadRequest("'messages' is empty; send at least one message.", param="messages")
    called: set[str] | None = None
    for index, message in enumerate(messages):
        if message.role != "tool":
            called = {call.id for call in message.tool_calls} or None
        elif called is None:
            raise BadRequest(
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                "with 'tool_calls'.",
                param=f"messages[{index}].role",
            )
        elif message.tool_call_id not in called:
            raise BadRequest(
                f"tool_call_id {message.tool_call_id!r} names none of the calls before it: "
                f"{', '.join(sorted(called))}. Use the id of the call that this is the result of.",
                param=f"messages[{index}].tool_call_id",
            )


def raw_begin(voice: Voice) -> str:
    """What a raw call begins with, as text."""
    return voice.dialect.opens[0].marker.text if voice.dialect.opens else ""


def _steered(voice: Voice, request: ChatRequest) -> Steered:
    """What the template is told of how much to reason. What it knows is found only where somebody wishes for it."""
    if request.thinking is None and request.effort is None:
        return Steered(None)
    tokenizer, thinking = voice.tokenizer, voice.dialect.thinking
    reasons = (thinking is not None and thinking.expected) or voice.dialect.frames({}) is not None
    open_text = "" if thinking is None else thinking.open.text.rstrip()
    source = CHATML if tokenizer.chat_template is None else tokenizer.chat_template
    can = levels(source, tokenizer.bos_token, tokenizer.eos_token, open_text)
    return steer(can, request.thinking, request.effort, reasons=reasons)


def _text(
    voice: Voice,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    today: datetime.date | None,
    steered: Steered,
) -> tuple[str, Reasoning]:
    """The prompt's text, and where it leaves the model. Reasoning that is not wanted and that a template opens all the
    same is closed at once."""
    tokenizer, thinking = voice.tokenizer, voice.dialect.thinking
    text = render(
        tokenizer.chat_template,
        messages,
        tools,
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        today=today,
        history=voice.dialect.history,
        thinking=steered.thinking,
        effort=steered.level,
    )
    end = text.rstrip()
    if thinking is not None and end.endswith(thinking.open.text.rstrip()):
        if steered.thinking is not False:
            return text, "begun"
        return f"{end}\n\n{thinking.close.text}\n\n", "over"
    over = thinking is not None and end.endswith(thinking.close.text.rstrip())
    return text, "over" if over else "possible"
