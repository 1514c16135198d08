"""What the answers of Ollama's doors look like, for /openapi.json only; `shapes` says how and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from ringleader.api.shapes import ScoredToken, Shape


class OllamaErrorBody(Shape):
    """An error as Ollama's clients read it; the line that ends a stream, too."""

    error: str


# ---------------------------------------------------------------- answers


class OllamaFunction(Shape):
    """`arguments` is an object, and whole."""

    index: int
    name: str
    arguments: dict[str, JsonValue]


class OllamaCall(Shape):
    """A call of a tool."""

    id: str
    function: OllamaFunction


class OllamaMessage(Shape):
    """What the model says."""

    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaCall] = Field(default_factory=list)


class _Answered(Shape):
    model: str
    created_at: str
    done: bool
    logprobs: list[ScoredToken] = Field(default_factory=list)
    done_reason: Literal["stop", "length", "load"] | None = None
    total_duration: int | None = None
    load_duration: int | None = None
    prompt_eval_count: int | None = None
    prompt_eval_duration: int | None = None
    eval_count: int | None = None
    eval_duration: int | None = None
    warnings: list[str] = Field(default_factory=list)


class OllamaChatBody(_Answered):
    """A whole answer, or one line of it. What has a default is there in the last line, or where there is any.

    Durations are nanoseconds; `warnings` tell what was found at the answer's end.
    """

    message: OllamaMessage


class GeneratedBody(_Answered):
    """The same for a bare prompt."""

    response: str
    thinking: str | None = None
    tool_calls: list[OllamaCall] = Field(default_factory=list)


# ---------------------------------------------------------------- models


class OllamaVersion(Shape):
    """`version` is that of the API."""

    version: str
    ringleader: str


class OllamaDetails(Shape):
    """What a model is; "" for what is not known."""

    parent_model: str
    format: Literal["safetensors"]
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaModel(Shape):
    """A model that a request may name."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: OllamaDetails


class OllamaTags(Shape):
    """All of them, the loaded ones first."""

    models: list[OllamaModel]


class RunningModel(Shape):
    """A model that is loaded."""

    name: str
    model: str
    size: int
    digest: str
    details: OllamaDetails
    size_vram: int
    context_length: int
    expires_at: str


class RunningModels(Shape):
    """All of them."""

    models: list[RunningModel]


class ShownModel(Shape):
    """One model in full. The keys of `model_info` begin with "general." or its family."""

    license: str
    modelfile: str
    parameters: str
    template: str
    details: OllamaDetails
    model_info: dict[str, JsonValue]
    capabilities: list[str]
    modified_at: str


class PulledBody(Shape):
    """How far a pull has come, in bytes; "success" is its end, and the whole answer to who asks for no stream."""

    status: str
    digest: str | None = None
    total: int | None = None
    completed: int | None = None
