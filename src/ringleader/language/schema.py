"""A tool's JSON schema on its way into a grammar: guarded, closed, and tried out before anything is scheduled.

The guards come first and use no recursion: a schema is a stranger's data of any depth and size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from ringleader.errors import BadRequest
from ringleader.language.patterns import exactly
from ringleader.language.recursion import children, deeper_than, endless, listed
from ringleader.values import Json, Tool, shown

# The grammar engine's JSON reader stops at 128 levels; each level of a schema costs two or three.
DEPTH_MAX = 100
# Real agents' largest tool is under 50 kB; a schema of this size compiles within a quarter of a second.
SCHEMA_CHARS_MAX = 200_000
TOOLS_CHARS_MAX = 1_000_000
# The engine gives up on objects with some 500 optional properties, and only when it reaches them.
OPTIONAL_MAX = 400
VERDICTS_MAX = 256  # agents send the same tools with every turn
REASON_CHARS_MAX = 300
DEAD_END = "no JSON object meets it, or it is too large."
TOO_DEEP = f"it nests deeper than {DEPTH_MAX} levels of JSON, of which an object in an object takes two. Flatten it."

# Free whitespace lets a weak model loop for ever, so JSON is written with none to choose.
WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# "\\u0061" spells a declared name "a" in a way that the engine takes for a further name, of any value.
PLAIN_ESCAPES = 'nrbtf\\"'
NO_ARGUMENTS: Mapping[str, Json] = {"type": "object", "properties": {}}
# The engine holds the numbers of a schema as doubles: it would write another integer than a larger one.
EXACT_MAX = 2**53
_QUOTED = re.compile(r"\s*\d+ \| ")  # a line of the grammar in the engine's message
COMPOSITION = ("allOf", "anyOf", "oneOf", "$ref")
RANGES = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the engine enforces a schema. `error` is its reason if not, a sentence; `warnings` what it leaves out."""

    error: str | None
    warnings: tuple[str, ...] = ()


def check_tools(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The tools without repeated ones, safe to be walked by recursive code.

    Raises:
        BadRequest: a schema is no object, too deep or too large, or two tools share a name.
    """
    seen: dict[str, Tool] = {}
    total = 0
    for index, tool in enumerate(tools):
        param = f"tools[{index}].function"
        if tool.parameters is not None:
            total += _guard(tool.parameters, tool.name, f"{param}.parameters")
        if total > TOOLS_CHARS_MAX:
            reason = f"the tools' schemas are longer than {TOOLS_CHARS_MAX} characters together"
            raise BadRequest(f"{reason}; send fewer tools.", param="tools")
        if seen.setdefault(tool.name, tool) != tool:
            raise BadRequest(f"two different tools are named '{tool.name}'; rename one.", param=f"{param}.name")
    return tuple(seen.values())


def _guard(parameters: Json, name: str, param: str) -> int:
    if not isinstance(parameters, Mapping):
        raise invalid(
            name, param, f"it is not an object but {type(parameters).__name__}. Send a JSON schema of an object."
        )
    if deeper_than(parameters, DEPTH_MAX):
        raise invalid(name, param, TOO_DEEP)
    size = len(json.dumps(parameters, default=str))
    if size > SCHEMA_CHARS_MAX:
        raise invalid(name, param, f"it has {size} characters; the limit is {SCHEMA_CHARS_MAX}. Shorten it.")
    return size


def invalid(name: str, param: str, reason: str) -> BadRequest:
    """The error for a tool whose parameters cannot be used."""
    return BadRequest(
        f"Invalid schema for function '{name}': {reason}", param=param, code="invalid_function_parameters"
    )


def closed(parameters: Mapping[str, Json] | None) -> dict[str, Json]:
    """The schema's copy for the grammar: an object, and no keys but the declared ones unless it says so.

    An open schema (JSON's default) invites a model to invent keys. Left open are nested objects that declare
    no properties (free maps), and parts that are composed with others on the same value (`allOf`, or
    branches beside `properties`), where closing one part would forbid what another part demands.

    Raises:
        ValueError: not a schema of an object, or one that contradicts itself; says why.
    """
    root = dict(parameters or NO_ARGUMENTS)
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError(f"its type is {shown(kind)}; a function's parameters must have the type 'object'.")
    root.pop("x-guidance", None)
    root["type"] = "object"
    if not any(key in root for key in (*COMPOSITION, "patternProperties")):
        root.setdefault("properties", {})
    return closed_value(root)


def closed_value(root: Mapping[str, Json]) -> dict[str, Json]:
    """`closed` for a schema of a value of any type.

    Raises:
        ValueError: it contradicts itself; says how.
    """
    shared: set[str] = set()
    copy = _close(root, True, shared)
    if shared:  # a definition that is composed somewhere: no definition is closed at its own level
        copy = _close(root, "#" not in shared, shared)
    assert isinstance(copy, dict)
    return copy


def _close(node: Json, closable: bool, shared: set[str]) -> Json:
    if not isinstance(node, Mapping):
        return node
    _refuse_contradiction(node)
    if not closable and isinstance(node.get("$ref"), str):
        shared.add(node["$ref"])
    alone = closable and not _is_composed(node)
    branches = closable and "allOf" not in node and not ("properties" in node or "$ref" in node)
    node = {**node, **exactly(node)}
    copy = dict(node)
    for key, value in node.items():
        if key in {"properties", "patternProperties"} and isinstance(value, Mapping):
            copy[key] = {name: _close(child, True, shared) for name, child in value.items()}
        elif key in {"$defs", "definitions"} and isinstance(value, Mapping):
            copy[key] = {name: _close(child, not shared, shared) for name, child in value.items()}
        elif key in {"items", "additionalItems", "additionalProperties"} and not isinstance(value, list):
            copy[key] = _close(value, True, shared)
        elif key in {"anyOf", "oneOf", "allOf", "prefixItems", "items"} and isinstance(value, list):
            inner = key in {"prefixItems", "items"} or (branches and key != "allOf")
            copy[key] = [_close(child, inner, shared) for child in value]
    for key, sign in (("maximum", 1), ("minimum", -1)):
        if isinstance(node.get(key), int) and sign * node[key] > EXACT_MAX:  # a 64-bit bound: no double holds it
            copy[key] = sign * EXACT_MAX
    if alone and "unevaluatedProperties" not in node and _declares_what_it_requires(node):
        copy.setdefault("additionalProperties", False)
    return copy


def _is_inexact(value: Json) -> bool:
    """Whether there is an integer anywhere in `value` that a double does not hold for certain."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, int) and abs(node) > EXACT_MAX:
            return True
        waiting.extend(children(node))
    return False


def _declares_what_it_requires(node: Mapping[str, Json]) -> bool:
    """Whether the object that `node` describes can do without keys that it does not declare."""
    properties = node.get("properties")
    return isinstance(properties, Mapping) and all(name in properties for name in _names(node.get("required")))


def _names(required: Json) -> list[str]:
    return [name for name in listed(required) if isinstance(name, str)]


def _is_composed(node: Mapping[str, Json]) -> bool:
    """Whether other parts of the same schema may add keys to the object that `node` describes."""
    if "$ref" in node or "allOf" in node:
        return True
    branches = [*listed(node.get("anyOf")), *listed(node.get("oneOf"))]
    return any(not isinstance(b, Mapping) or "properties" in b or any(k in b for k in COMPOSITION) for b in branches)


def _refuse_contradiction(node: Mapping[str, Json]) -> None:
    """What can never be met, or not by this engine, which itself notices it late or never."""
    if node.get("enum") == []:
        raise ValueError("it has an empty enum, which no value can meet.")
    least, most = node.get("minimum"), node.get("maximum")
    bounds = [bound for bound, sign in ((least, 1), (most, -1)) if isinstance(bound, int) and sign * bound > 0]
    if _is_inexact([node.get("const"), node.get("enum"), bounds]):
        raise ValueError("it names an integer beyond 2**53, which the grammar engine does not hold exactly.")
    for low, high in RANGES:
        least, most = node.get(low), node.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            raise ValueError(f"its {low} {least} is greater than its {high} {most}, which no value can meet.")

    properties, required = node.get("properties"), listed(node.get("required"))
    if isinstance(properties, Mapping) and len(properties) - len(required) > OPTIONAL_MAX:
        raise ValueError(f"an object in it has more than {OPTIONAL_MAX} optional properties.")


def grammar_text(schema: Mapping[str, Json], *, lenient: bool) -> str:
    """The schema as the JSON text that follows `%json`, with how it is to be written."""
    options: dict[str, Json] = {**WRITTEN, "lenient": True} if lenient else dict(WRITTEN)
    if _takes_further_names(schema):
        options["json_allowed_escapes"] = PLAIN_ESCAPES
    return json.dumps({"x-guidance": options, **schema})


def _takes_further_names(schema: Json) -> bool:
    """Whether some object in it may have keys beside those that are declared."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        names = isinstance(node, Mapping) and (node.get("properties") or node.get("patternProperties"))
        if names and node.get("additionalProperties") is not False:
            return True
        waiting.extend(children(node))
    return False


@lru_cache(maxsize=VERDICTS_MAX)
def judge(text: str) -> Verdict:
    """Try a schema (from `grammar_text`): compile it, and see that a value can be begun and come to an end."""
    failed, messages = LLMatcher.validate_grammar_with_warnings(lark_of(text))
    if failed:
        return Verdict(sentence(_reason(messages[0])))
    if (pointer := endless(json.loads(text))) is not None:
        return Verdict(f"it recurs for ever: no finite value meets {pointer}.")
    if _is_dead_end(lark_of(text)):
        return Verdict(DEAD_END)
    return Verdict(None, tuple(_reason(message) for message in messages))


def lark_of(text: str) -> str:
    """The grammar of one JSON value of this schema, as the engine takes it."""
    return str(LLMatcher.grammar_from_lark(f"start: json\njson: %json {text}"))


def _is_dead_end(grammar: str) -> bool:
    matcher = LLMatcher(bytes_view(), grammar, log_level=0)
    matcher.consume_tokens(matcher.compute_ff_tokens())
    allowed = any(matcher.compute_bitmask())
    return bool(matcher.is_error()) or not (allowed or matcher.is_accepting())


@lru_cache(maxsize=1)
def bytes_view() -> LLTokenizer:
    """A vocabulary of single bytes: verdicts then do not depend on any model, and the trial is quick."""
    return LLTokenizer(TokenizerWrapper(_Bytes()))


class _Bytes:
    """The shape that llguidance's TokenizerWrapper asks for."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([n]) for n in range(256)), b"\xff<end>")
    special_token_ids = (256,)

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


def _reason(message: str) -> str:
    """The engine's message in our words, without its position in the grammar and the quoted grammar lines."""
    lines = [line.strip() for line in message.split("\n") if not _QUOTED.match(line) and line.strip(" ^")]
    text = " ".join(lines).split("failed to compile JSON schema: ", 1)[-1]
    if keys := re.fullmatch(r"Unimplemented keys: \[(.*)\]", text):
        names = keys[1].replace('"', "'")
        return f"the {'keywords' if ',' in names else 'keyword'} {names} cannot be enforced"
    if format_ := re.fullmatch(r"Unknown format: (.*)", text):
        return f"the format '{format_[1]}' is unknown here and says nothing"
    if text.startswith("oneOf "):
        return "the keyword 'oneOf' cannot be enforced where its branches overlap"
    if pattern := re.fullmatch(r"regex parse error: (.*) error: (.*)", text, re.DOTALL):
        return f"the pattern {pattern[1]} is not supported: {pattern[2]}"
    if empty := re.fullmatch(r"Unsatisfiable schema: Regex is empty: +\(SearchRegex /(.*)/\)", text, re.DOTALL):
        return f"no text matches the pattern {empty[1]}"
    if foreign := re.match(r"Resource '(?:json-schema:///)?(.*?)' is not present in a registry", text):
        return f"nothing is known of '{foreign[1]}', which a $ref names, and nothing is fetched"
    if around := re.fullmatch(r"lookarounds not supported yet; (\w+) in regex /(.*)/", text, re.DOTALL):
        what = "word boundaries" if around[1].startswith("Word") else "anchors inside of it"
        return f"the pattern {around[2]} is not supported: {what} cannot be enforced"
    return text


def sentence(text: str, chars_max: int = REASON_CHARS_MAX) -> str:
    """`text` as a sentence that another may follow, cut between words where it is longer."""
    text = text.strip()
    if len(text) > chars_max:
        text = text[: chars_max - 4].rsplit(" ", 1)[0] + " ..."
    return text if text.endswith((".", "!", "?")) else f"{text}."
