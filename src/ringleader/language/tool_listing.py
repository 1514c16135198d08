"""Tools as a chat template's list of tools, with nothing of their schemas lost on the way.

Some templates write schemas in a language of their own and leave out what it cannot say: definitions, descriptions
of nested values. That is found by rendering each tool once with every name and word in it replaced by one that
stands nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ringleader.language.dialects.typed_schema import resolved
from ringleader.language.recursion import deeper_than
from ringleader.language.schema import DEPTH_MAX, NO_ARGUMENTS
from ringleader.language.traits import USER, rendered
from ringleader.values import Json, Tool

LISTED_MAX = 512  # tools whose way is remembered
NODES_MAX = 2000  # of a schema whose references are written out; more would be a flood, or a circle
PREFIX = "word"
NUMBERED = ("properties", "$defs", "definitions", "patternProperties")  # whose keys are names, not keywords


@dataclass(frozen=True, slots=True)
class Listing:
    """`listed` is what the template is handed; `unsaid` are the names and JSON schemas of tools that it does not
    show as a whole."""

    listed: tuple[Json, ...]
    unsaid: tuple[tuple[str, Json], ...]

    @property
    def text(self) -> str:
        """A system text that says what the template does not; "" if there is nothing."""
        lines = [json.dumps({"name": name, "parameters": schema}, ensure_ascii=False) for name, schema in self.unsaid]
        return "\n".join(["The parameters of these tools in full, as JSON schemas:", *lines]) if lines else ""


def as_json(tool: Tool) -> Json:
    """The tool as clients write it and templates read it."""
    parameters = dict(tool.parameters or NO_ARGUMENTS)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def listing(template: str, tools: Sequence[Tool], special: tuple[str, str], *, plain_parameters: bool) -> Listing:
    """Each tool in the form that this template shows best. With `plain_parameters` false it wants a description
    of every parameter."""
    listed: list[Json] = []
    unsaid: list[tuple[str, Json]] = []
    for tool in tools:
        text, whole = _best(template, json.dumps(as_json(tool)), special, plain_parameters)
        listed.append(json.loads(text))
        if not whole:
            unsaid.append((tool.name, as_json(tool)["function"]["parameters"]))
    return Listing(tuple(listed), tuple(unsaid))


@lru_cache(maxsize=LISTED_MAX)
def _best(template: str, text: str, special: tuple[str, str], plain: bool) -> tuple[str, bool]:
    """The tool (as JSON text) to hand over, and whether the template shows all of it."""
    tool = json.loads(text)
    parameters = tool["function"]["parameters"]
    if deeper_than(parameters, DEPTH_MAX):
        return text, True
    ways = [parameters if plain else _described(parameters)]
    if "$ref" in text and (inlined := _inlined(ways[0], ways[0])) is not None:
        ways.append({key: value for key, value in inlined.items() if key not in {"$defs", "definitions"}})
    losses = [_lost(template, tool, way, special) for way in ways]
    best = min(range(len(ways)), key=lambda n: losses[n])
    return json.dumps({**tool, "function": {**tool["function"], "parameters": ways[best]}}), losses[best] == 0


def _lost(template: str, tool: Json, parameters: Json, special: tuple[str, str]) -> int:
    """How many of the names and words in these parameters the template does not show."""
    words: dict[tuple[str, str], str] = {}
    marked = _marked(parameters, words)
    asked = {**tool, "function": {**tool["function"], "parameters": marked}}
    shown = rendered(template, [{"role": "user", "content": USER}], [asked], special)
    if shown is None:
        return len(words) + 1
    return sum(word not in shown for word in words.values())


def _marked(schema: Json, words: dict[tuple[str, str], str]) -> Json:
    """The schema with names of properties, strings of enums and descriptions replaced by words of their own."""

    def word(kind: str, text: str) -> str:
        return words.setdefault((kind, text), f"{PREFIX}{len(words)}x")

    if not isinstance(schema, Mapping):
        return [_marked(each, words) for each in schema] if isinstance(schema, list) else schema
    marked: dict[str, Json] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            marked[key] = {word("name", name): _marked(each, words) for name, each in value.items()}
        elif key in NUMBERED and isinstance(value, Mapping):
            marked[key] = {name: _marked(each, words) for name, each in value.items()}
        elif key == "required" and isinstance(value, list):
            marked[key] = [words.get(("name", name), name) if isinstance(name, str) else name for name in value]
        elif key == "description" and isinstance(value, str) and value:
            marked[key] = word("description", value)
        elif key in {"enum", "const"}:
            values = [word("value", each) if isinstance(each, str) and each else each for each in _list(value)]
            marked[key] = values if isinstance(value, list) else values[0]
        elif key in {"default", "examples", "example"}:
            marked[key] = value
        else:
            marked[key] = _marked(value, words)
    return marked


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _described(parameters: Json) -> Json:
    """The same with a description, if only an empty one, of each parameter."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return parameters
    filled = {
        name: {"description": "", **each} if isinstance(each, Mapping) else each for name, each in properties.items()
    }
    return {**parameters, "properties": filled}


def _inlined(schema: Json, root: Json) -> Json | None:
    """The schema with what its references mean in their place; None if that has no end, or is a flood."""
    budget = iter(range(NODES_MAX))
    try:
        return _written_out(schema, root, budget)
    except (StopIteration, RecursionError):
        return None


def _written_out(schema: Json, root: Json, budget: Iterator[int]) -> Json:
    next(budget)
    if isinstance(schema, list):
        return [_written_out(each, root, budget) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    meant = resolved(schema, root)
    return {
        key: value if key in {"$defs", "definitions"} else _written_out(value, root, budget)
        for key, value in meant.items()
    }
