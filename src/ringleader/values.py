"""The values that cross rooms: immutable, checked once at construction, free of I/O.

Every room may import this module; it imports none of them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType

NodeId = NewType("NodeId", str)
ModelId = NewType("ModelId", str)
RequestId = NewType("RequestId", str)
PlanHash = NewType("PlanHash", str)  # 32 hexadecimal digits

Json = Any  # a decoded JSON value; narrowed where it is read


def shown(value: Json) -> str:
    """`value` for an error message: short, whatever the client sent. As JSON, but strings stand in single quotes."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "an integer of hundreds of digits"
    if isinstance(value, str):
        text = f"'{value[:65]}'" if value.isprintable() else f"'{json.dumps(value[:65])[1:-1]}'"
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 64 else text[:61] + "..."


# ---------------------------------------------------------------- models and where they lie


@dataclass(frozen=True, slots=True, order=True)
class LayerRange:
    """Layers `start` to `stop - 1`. Never empty."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"layer range {self.start}..{self.stop} is empty or negative")

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.start}-{self.stop - 1}"


@dataclass(frozen=True, slots=True)
class ModelCosts:
    """What a model weighs, read from its safetensors headers and config: what a plan is made of.

    `layer_bytes[i]` are the weights of layer i as stored; `head_bytes` what only the head shard needs
    (embedding), `tail_bytes` what only the tail needs (final norm and output head; the embedding again
    where it is tied). `kv_bytes_per_token[i]` is what layer i's cache grows by for each token.
    `digest` identifies the files, so that two nodes know that they hold the same model. `active_bytes[i]` is
    what one token reads of layer i: less than all of it where the layer has experts. () means all of each.
    """

    model: ModelId
    digest: str
    family: str
    layer_bytes: tuple[int, ...]
    head_bytes: int
    tail_bytes: int
    kv_bytes_per_token: tuple[int, ...]
    hidden_size: int
    context_max: int
    active_bytes: tuple[int, ...] = ()
    cache_bytes: int = 2  # of one number in its caches

    def __post_init__(self) -> None:
        if not self.layer_bytes or len(self.layer_bytes) != len(self.kv_bytes_per_token):
            raise ValueError("a model has at least one layer and one KV size for each layer")
        if self.active_bytes and len(self.active_bytes) != len(self.layer_bytes):
            raise ValueError("a model tells what a token reads of each layer, or of none")

    @property
    def layers(self) -> int:
        return len(self.layer_bytes)

    @property
    def weight_bytes(self) -> int:
        return sum(self.layer_bytes) + self.head_bytes + self.tail_bytes


@dataclass(frozen=True, slots=True)
class Draft:
    """A small model that makes drafts beside a ring's head: how nodes find it (a store name or a path), and what it
    takes there, for all requests that the ring has room for."""

    reference: str
    weight_bytes: int
    kv_bytes_per_token: int


# ---------------------------------------------------------------- a chat request, one shape for all APIs


@dataclass(frozen=True, slots=True)
class CustomGrammar:
    """What the input of a custom tool must look like: a Lark grammar (its rule is `start`) or a regular expression."""

    syntax: Literal["lark", "regex"]
    definition: str


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that the model may call: a function with arguments, or a custom tool with one free text.

    `parameters` is a function's JSON schema, or None for no arguments. `grammar` is a custom tool's, or None
    for any text.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Json] | None = None
    strict: bool | None = None
    kind: Literal["function", "custom"] = "function"
    grammar: CustomGrammar | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in the history. `arguments` is the JSON text as the client sent it (perhaps not valid JSON).

    Of a custom tool, `arguments` is the input itself.
    """

    id: str
    name: str
    arguments: str
    kind: Literal["function", "custom"] = "function"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `content` None and "" mean the same. A "tool" turn answers the call `tool_call_id`."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the tail picks tokens. Temperature 0 is greedy. Ranges are checked at the API's door.

    `top_k` 0 and `top_p` 1 are off; penalties 0 (repetition: 1) are off. `logit_bias` pairs token id and
    bias. `seed` is always set (the door draws one when the client gave none): a token is a function of
    (seed, position), so batches, retries and re-plans change nothing.
    """

    seed: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]  # how much to reason, least first


@dataclass(frozen=True, slots=True)
class ContentFormat:
    """What an answer's text must be: any JSON object, or JSON that is valid against `schema` (None: any JSON).

    `strict` False lets parts of the schema that cannot be enforced be checked afterwards instead; True and
    None refuse such a schema. `name` is the client's, for messages.
    """

    kind: Literal["json_object", "json_schema"]
    name: str = ""
    schema: Mapping[str, Json] | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request. `tool_choice` is the client's own JSON; `language.tool_choice` reads it.

    `content` None means free text. It says nothing of calls. `max_tokens` None means: to the end of the
    context. `top_logprobs` None means no logprobs at all, 0 only those of the chosen tokens. `thinking` wishes that the
    model reasons, or that it does not; None leaves it to the model's own template. `effort` is how much, for models
    that know levels.
    `raw`: a prompt as it is (text, or token ids), with no messages and no template; whatever is answered is text.
    Lower `priority` goes first. `prediction` is text that the client expects in the answer: it comes sooner where
    that is right.
    """

    model: ModelId
    messages: tuple[Message, ...]
    sampling: Sampling
    tools: tuple[Tool, ...] = ()
    tool_choice: Json = None
    parallel_tool_calls: bool = True
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    content: ContentFormat | None = None
    thinking: bool | None = None
    effort: Effort | None = None
    raw: str | tuple[int, ...] | None = None
    priority: int = 0
    prediction: str = ""


# ---------------------------------------------------------------- what the ring must know of a request


@dataclass(frozen=True, slots=True)
class SlotSpec:
    """What the tail must know of a request. The last `opening_tokens` of the prompt begin the grammar.

    `grammar` is llguidance's own text, empty for none. `followers` False switches forced followers off.
    `demanded` says that an answer which does not complete the grammar is worth nothing (a forced call, a
    structured answer): it is then steered to an ending within `max_tokens`; without it, only calls that began
    are. `think_close` are the ids that end reasoning, () where there is none; what is demanded after it is left
    `think_reserve` tokens more than its shortest form. `resumed_tokens` of the answer came from a ring that was lost:
    they follow the prompt's own, count against `max_tokens`, and the next draw is the one that would have followed.
    `drafts` False switches drafts off; they are looked up in `prediction`, what the client expects, too.
    """

    sampling: Sampling
    max_tokens: int
    prompt_tokens: int
    opening_tokens: int = 0
    grammar: str = ""
    top_logprobs: int | None = None
    followers: bool = True
    demanded: bool = False
    think_close: tuple[int, ...] = ()
    think_reserve: int = 0
    resumed_tokens: int = 0
    drafts: bool = True
    prediction: tuple[int, ...] = ()


Coding = Literal["same", "bf16", "int8"]  # how activations travel: as they are, or in fewer bytes
Finish = Literal["", "stop", "length", "error"]  # how a slot ended; "" while it goes on
Fault = Literal["ours", "busy", "too_long"]  # whose an error is that a ring reports of one request
Ride = Literal["alone", "even", "ragged"]  # how slots share a pass: not, rows of one length only, or of any lengths


# ---------------------------------------------------------------- an answer


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of one token of the answer, and of the likeliest ones at its place.

    From the model's own distribution, before temperature and grammar; a token that the grammar forced
    has 0.0 and no alternatives.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and passes of one request. The opening counts as prompt: it is prefilled, not generated.

    `opening_tokens` are those of the prompt that open a forced call. `forced_tokens` of the
    `completion_tokens` needed no sampling; `passes` counts trips round the ring. `drafted_tokens` were guessed, and
    `accepted_tokens` of them are in the answer. `cached_tokens` of the prompt were not computed for it: an earlier
    request began alike, and its part was kept. `shard_s` are the seconds that each shard computed in its passes, those
    that it shared with others in full.
    """

    prompt_tokens: int
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    forced_tokens: int = 0
    opening_tokens: int = 0
    passes: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    cached_tokens: int = 0
    shard_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More visible text. `logprobs` has (decoded token text, its bytes, logprob) where they were asked for."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's thinking."""

    text: str
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CallStarted:
    """Tool call number `index` (0, 1, ...) has begun and its whole name is known."""

    index: int
    name: str
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the JSON text of call `index`'s arguments. The pieces concatenate to one JSON object.

    Of a custom tool's call they concatenate to its input.
    """

    index: int
    text: str
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEnded:
    """Call `index` is complete: its arguments are one JSON object (a custom tool's: its input)."""

    index: int
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The last delta of every answer that was not lost. `warnings` are what only its end could tell; `stopped_by` is
    the stop string that ended it, where one did."""

    reason: FinishReason
    usage: Usage
    warnings: tuple[str, ...] = ()
    stopped_by: str | None = None


Delta = TextDelta | ReasoningDelta | CallStarted | ArgumentsDelta | CallEnded | Finished


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted request's answer. Closing `deltas` early cancels the request everywhere.

    `deltas` raises `PeerFault` when the ring is lost under it. `warnings` go into the `Warning` header;
    `prompt_tokens` are those of the prompt with its opening, as the usage at the end counts them.
    """

    model: ModelId
    deltas: AsyncIterator[Delta]
    warnings: tuple[str, ...] = field(default=())
    prompt_tokens: int = 0
