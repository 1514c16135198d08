"""An Ollama body to a `ChatRequest`: what its fields say together.

Pure but for the seed that is drawn when the client gave none.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, replace

from ringleader.api.ollama_wire import (
    EFFORTS,
    AskWire,
    GenerateWire,
    OllamaChatWire,
    OllamaMessageWire,
    OllamaToolWire,
    OptionsWire,
)
from ringleader.api.openai_read import INT32_MAX, SEED_MASK
from ringleader.api.validation import parse
from ringleader.errors import BadRequest
from ringleader.values import (
    ChatRequest,
    ContentFormat,
    Effort,
    Json,
    Message,
    ModelId,
    Sampling,
    Tool,
    ToolCall,
    shown,
)

LATEST = ":latest"  # what its clients add to a name without a tag
# Ollama's defaults, which its clients count on.
TEMPERATURE, TOP_K, TOP_P = 0.8, 40, 0.9
NO_IMAGES = "images are not supported: only text is read here. Leave them out."
UNSERVED = {
    "suffix": "there is no infilling",
    "template": "the prompt is made by the model's own chat template",
    "context": "send the whole conversation to /api/chat",
}
STAYS = "models leave memory when nobody uses them (--idle-unload) or others need the room"
UNKNOWN_MAX = 8  # options that a warning names
# Samplers that do not exist here, and the values that ask for nothing.
_SAMPLERS = {"mirostat": 0, "tfs_z": 1.0, "typical_p": 1.0}


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, and how the client wants it served.

    `request` None asks for nothing but that the model is there: `load`, or with False that it goes. `name` is the
    model's as the client wrote it; `thinking` whether the answer's thinking is told.
    """

    model: ModelId
    name: str
    request: ChatRequest | None
    stream: bool
    thinking: bool
    load: bool = True
    context: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def wishes_thinking(self) -> bool:
        """Whether the client insists on it."""
        return self.request is not None and self.request.thinking is True


def read_chat(body: dict[str, Json]) -> Asked:
    """`body` of `/api/chat` as a checked request.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    wire = parse(OllamaChatWire, body)
    tools = tuple(_tool(each) for each in wire.tools or [])
    messages = _history(wire.messages or [])
    return _asked(wire, messages, tools, wire.tool_choice)


def read_generate(body: dict[str, Json]) -> Asked:
    """`body` of `/api/generate` as a checked request. Raises as `read_chat`."""
    wire = parse(GenerateWire, body)
    if wire.images:
        raise _unsupported("images", NO_IMAGES)
    for field, advice in UNSERVED.items():
        if getattr(wire, field):
            raise _unsupported(field, f"{field!r} is not supported: {advice}.")
    if wire.raw and wire.system:
        raise _unsupported(
            "system", "a raw prompt has no system message: write it into the prompt, or leave out 'raw'."
        )
    messages = [Message("system", wire.system)] if wire.system else []
    messages += [Message("user", wire.prompt)] if wire.prompt else []
    asked = _asked(wire, tuple(messages) if wire.prompt else (), (), None)
    if not wire.raw or asked.request is None:
        return asked
    return replace(asked, request=replace(asked.request, messages=(), raw=wire.prompt))


def model_of(name: str) -> ModelId:
    """The model that a client's name means."""
    return ModelId(name.removesuffix(LATEST))


def _asked(wire: AskWire, messages: tuple[Message, ...], tools: tuple[Tool, ...], choice: Json) -> Asked:
    options = parse(OptionsWire, wire.options or {}, ("options",))
    _refuse_samplers(options)
    model = model_of(wire.model)
    request = ChatRequest(
        model=model,
        messages=messages,
        sampling=_sampling(options),
        tools=tools,
        tool_choice=choice,
        max_tokens=_max_tokens(options.num_predict),
        stop=tuple(options.stop or ()),
        top_logprobs=(wire.top_logprobs or 0) if wire.logprobs or wire.top_logprobs else None,
        content=_content(wire.format),
        thinking=None if wire.think is None else wire.think is not False,
        effort=_effort(wire.think),
    )
    return Asked(
        model=model,
        name=wire.model,
        request=request if messages else None,
        stream=wire.stream is not False,
        thinking=wire.think is not False,
        load=not _is_zero(wire.keep_alive),
        context=options.num_ctx,
        warnings=_ignored(wire),
    )


def _ignored(wire: AskWire) -> tuple[str, ...]:
    """What was asked for and is not done, where the answer is good without."""
    unknown = [name for name in wire.options or {} if name not in OptionsWire.model_fields]
    listed = ", ".join(each[:64] for each in unknown[:UNKNOWN_MAX])
    told = [f"invalid option provided, and ignored: {listed}"] if unknown else []
    return (*told, f"keep_alive 0: the model stays loaded; {STAYS}") if _is_zero(wire.keep_alive) else tuple(told)


def _effort(think: Json) -> Effort | None:
    return "none" if think is False else next((level for level in EFFORTS if level == think), None)


def _max_tokens(asked: int | None) -> int | None:
    """Nothing above zero means no limit."""
    return min(asked, INT32_MAX) if asked is not None and asked > 0 else None


def _content(form: dict[str, Json] | str | None) -> ContentFormat | None:
    """A schema is enforced as far as it goes, and the rest checked afterwards: Ollama's clients send any."""
    if not form:
        return None
    if isinstance(form, str):
        return ContentFormat("json_object")
    return ContentFormat("json_schema", "format", form, strict=False)


def _sampling(options: OptionsWire) -> Sampling:
    def given(value: float | None, default: float) -> float:
        return default if value is None else value

    return Sampling(
        seed=secrets.randbits(64) if options.seed is None or options.seed < 0 else options.seed & SEED_MASK,
        temperature=given(options.temperature, TEMPERATURE),
        top_p=options.top_p or (TOP_P if options.top_p is None else 1.0),
        top_k=min(max(TOP_K if options.top_k is None else options.top_k, 0), INT32_MAX),
        min_p=given(options.min_p, 0.0),
        repetition_penalty=given(options.repeat_penalty, 1.0),
        presence_penalty=given(options.presence_penalty, 0.0),
        frequency_penalty=given(options.frequency_penalty, 0.0),
    )


def _refuse_samplers(options: OptionsWire) -> None:
    for name, neutral in _SAMPLERS.items():
        if getattr(options, name) not in (None, neutral, 0):
            raise _unsupported(f"options.{name}", "this sampler does not exist here; use temperature, top_p or min_p.")


def _is_zero(keep_alive: Json) -> bool:
    if isinstance(keep_alive, str):
        return not re.search("[1-9]", keep_alive)
    return isinstance(keep_alive, int | float) and keep_alive == 0


def _tool(wire: OllamaToolWire) -> Tool:
    return Tool(wire.function.name, wire.function.description or "", wire.function.parameters)


def _unsupported(path: str, why: str) -> BadRequest:
    return BadRequest(f"{path}: {why}", param=path, code="unsupported_value")


# ---------------------------------------------------------------- the history


def _history(wires: list[OllamaMessageWire]) -> tuple[Message, ...]:
    """Results find their calls by id, by the tool's name, or by their order: the API gives them no ids of its own."""
    messages: list[Message] = []
    open_calls: list[ToolCall] = []
    for index, wire in enumerate(wires):
        path = f"messages[{index}]"
        if wire.images:
            raise _unsupported(f"{path}.images", NO_IMAGES)
        if wire.tool_calls and wire.role != "assistant":
            raise BadRequest(f"{path}.tool_calls: only assistant messages make calls", param=f"{path}.tool_calls")
        if wire.role == "tool":
            call = _answered(wire, path, open_calls)
            open_calls.remove(call)
            messages.append(Message("tool", wire.content or "", tool_call_id=call.id, name=call.name))
            continue
        calls = tuple(
            _call(index, n, each.id, each.function.name, each.function.arguments)
            for n, each in enumerate(wire.tool_calls or [])
        )
        open_calls = list(calls)
        messages.append(Message(wire.role, wire.content or "", wire.thinking or None, calls))
    return tuple(messages)


def _call(index: int, number: int, id_: str | None, name: str, arguments: Json) -> ToolCall:
    text = arguments if arguments and isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    # Nine letters and digits, which every chat template takes.
    return ToolCall(id_ or f"o{index % 10**5:05d}{number % 1000:03d}", name, text)


def _answered(wire: OllamaMessageWire, path: str, open_calls: list[ToolCall]) -> ToolCall:
    name = wire.tool_name or wire.name
    for call in open_calls:
        if wire.tool_call_id is not None and call.id == wire.tool_call_id:
            return call
    for call in open_calls:
        if wire.tool_call_id is None and name in (None, call.name):
            return call
    which = shown(wire.tool_call_id or name) if wire.tool_call_id or name else "a tool"
    why = f"the result of {which} answers no open call of the assistant message before it"
    raise BadRequest(f"{path}: {why}. Send that message too, with its 'tool_calls'.", param=path)
