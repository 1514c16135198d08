"""Ollama's requests as they stand on the wire. Shapes and ranges only: `ollama_read` reads what fields say together."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import from_json

from ringleader.api.validation import Wire
from ringleader.values import Effort

# As Go writes them, in which Ollama's clients do: "5m", "1h30m", "-1s"; zero needs no unit.
_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "max")
STOPS_MAX = 64  # each is looked for at every character of the answer


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


def _arguments(value: Any) -> Any:
    if value is not None and not isinstance(value, dict | str):
        raise ValueError("an object")
    if isinstance(value, str) and value and not _is_object(value):
        raise ValueError("an object or its text")
    return value


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(text), dict)
    except ValueError:
        return False


def _keep_alive(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        raise ValueError("seconds or a duration such as '5m'")
    if isinstance(value, str) and not _DURATION.fullmatch(value):
        raise ValueError("a duration with its unit, such as '5m' or '1h30m'")
    return value


def _format(value: Any) -> Any:
    if value not in (None, "", "json") and not isinstance(value, dict):
        raise ValueError("'json' or a JSON schema")
    return value


def _think(value: Any) -> Any:
    if value is not None and not isinstance(value, bool) and value not in EFFORTS:
        raise ValueError(f"true, false or one of {', '.join(EFFORTS)}")
    return value


class OllamaCalledWire(Wire):
    """The function of a call in the history. Arguments are an object; some clients send its text."""

    name: Annotated[str, Field(min_length=1)]
    arguments: Annotated[Any, AfterValidator(_arguments)] = None


class OllamaCallWire(Wire):
    """A call in the history; newer clients send its id back."""

    id: str | None = None
    function: OllamaCalledWire


class OllamaMessageWire(Wire):
    """Any turn. A result names its tool (`tool_name`, once `name`), and its call where the client knows its id."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[Any] | None = None
    tool_calls: list[OllamaCallWire] | None = None
    tool_name: str | None = None
    name: str | None = None
    tool_call_id: str | None = None


class OllamaFunctionWire(Wire):
    """A function that the model may call."""

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,128}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OllamaToolWire(Wire):
    """A tool."""

    type: Literal["function"] = "function"
    function: OllamaFunctionWire


class OptionsWire(Wire):
    """The options that say how tokens are picked and where the answer ends; the last ones speak of a machine of
    Ollama's or of samplers that it once had: their types are checked, and they change nothing."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: int | None = None
    num_predict: int | None = None
    num_ctx: Annotated[int, Field(ge=0)] | None = None
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None,
        Field(max_length=STOPS_MAX),
        BeforeValidator(
            _as_list, json_schema_input_type=str | Annotated[list[str], Field(max_length=STOPS_MAX)] | None
        ),
    ] = None
    mirostat: int | None = None
    tfs_z: float | None = None
    typical_p: float | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_last_n: int | None = None
    penalize_newline: bool | None = None
    num_keep: int | None = None
    num_batch: int | None = None
    num_gpu: int | None = None
    num_thread: int | None = None
    main_gpu: int | None = None
    low_vram: bool | None = None
    f16_kv: bool | None = None
    use_mmap: bool | None = None
    use_mlock: bool | None = None
    numa: bool | None = None


class AskWire(Wire):
    """What both ways of asking have in common. null is the same as absent wherever a default exists."""

    model: Annotated[str, Field(min_length=1)]
    stream: bool | None = None
    format: Annotated[Any, AfterValidator(_format)] = None
    think: Annotated[Any, AfterValidator(_think)] = None
    options: dict[str, Any] | None = None
    keep_alive: Annotated[Any, AfterValidator(_keep_alive)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None


class OllamaChatWire(AskWire):
    """The body of `POST /api/chat`. `tool_choice` is an addition of ours, in OpenAI's spelling."""

    messages: list[OllamaMessageWire] | None = None
    tools: list[OllamaToolWire] | None = None
    tool_choice: Any = None


class GenerateWire(AskWire):
    """The body of `POST /api/generate`."""

    prompt: str | None = None
    system: str | None = None
    suffix: str | None = None
    template: str | None = None
    context: list[int] | None = None
    raw: bool | None = None
    images: list[Any] | None = None


class NamedWire(Wire):
    """The body of what is asked about one model. `name` is the older spelling."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


class PullWire(NamedWire):
    """The body of `POST /api/pull`."""

    stream: bool | None = None
    insecure: bool | None = None
