"""Arguments of tools: a model of a function's parameters, its JSON schema, and errors that a language model can use."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import jsonschema
import pydantic
import referencing
import referencing.exceptions
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from ringleader.agent.characters import whole_text
from ringleader.agent.docstrings import Docstring
from ringleader.errors import ContractFault
from ringleader.values import Json

FAULT_CHARS_MAX = 400  # of one fault: jsonschema repeats the whole value in it
FAULTS_SHOWN_MAX = 8  # of one call's arguments: a model mends what it reads first
_HALF = re.compile(r"\\u[dD]|[\ud800-\udfff]")
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class BadArguments(ValueError):
    """A call's arguments are not what the tool takes. The text is for the model: what is wrong, and what is wanted."""


def model_of(
    function: Callable[..., Any], name: str, documented: Docstring
) -> tuple[type[BaseModel], TypeAdapter[Any]]:
    """The arguments of `function` as a model, and a checker of what it returns.

    Raises:
        ContractFault: a parameter or the result has no type, takes any number of values, has a type that JSON schema
            cannot say, or the docstring describes an argument that is not there.
    """
    parameters = inspect.signature(function).parameters
    strangers = documented.arguments.keys() - parameters.keys()
    if strangers:
        raise ContractFault(f"tool {name}: its docstring describes {_listed(strangers)}, which it does not take")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as unknown:
        message = f"tool {name}: {unknown}; the types of a tool must be known where it is made"
        raise ContractFault(message) from unknown
    fields = {p.name: _field(p, hints, name, documented) for p in parameters.values()}
    if "return" not in hints:
        raise ContractFault(f"tool {name}: its result has no type; write `-> str`, or what it returns")
    try:
        model = pydantic.create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        schema_of(model)
        return model, TypeAdapter(hints["return"])
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError) as wrong:
        raise ContractFault(f"tool {name}: {str(wrong).splitlines()[0]}") from wrong


def _field(parameter: inspect.Parameter, hints: Mapping[str, Any], tool: str, documented: Docstring) -> Any:
    name = parameter.name
    if parameter.kind not in _KINDS:
        raise ContractFault(f"tool {tool}: the parameter {name} must be one that is passed by its name")
    if name not in hints:
        raise ContractFault(f"tool {tool}: the parameter {name} has no type")
    if name.startswith("_") or hasattr(BaseModel, name):
        raise ContractFault(f"tool {tool}: the parameter {name} cannot be called so; choose another name")
    default = ... if parameter.default is parameter.empty else parameter.default
    described = documented.arguments.get(name)
    hint = Annotated[hints[name], Field(description=described)] if described else hints[name]
    return (hint, default)


class _Untitled(GenerateJsonSchema):
    """Titles repeat what the names say, and every prompt would pay for them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _unchecked(*_: Any) -> Iterator[Any]:
    return iter(())


def _additional(validator: Any, allowed: Json, instance: Json, schema: Mapping[str, Json]) -> Iterator[Any]:
    if "patternProperties" not in schema:
        yield from jsonschema.Draft202012Validator.VALIDATORS["additionalProperties"](
            validator, allowed, instance, schema
        )


# A pattern that somebody else wrote can keep Python's matcher busy for ever.
_FOREIGN = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # jsonschema's stubs say nothing of it
    jsonschema.Draft202012Validator,
    {
        "pattern": _unchecked,
        "patternProperties": _unchecked,
        "unevaluatedProperties": _unchecked,
        "additionalProperties": _additional,
    },
)


def schema_of(model: type[BaseModel]) -> dict[str, Json]:
    """The JSON schema of a model's arguments, as providers take it."""
    schema = model.model_json_schema(schema_generator=_Untitled)
    for each in (schema, *schema.get("$defs", {}).values()):
        each.pop("title", None)
        if each is schema:
            each.pop("description", None)  # the tool's own says it
    schema.setdefault("properties", {})
    return schema


def read_object(raw: str | Mapping[str, Json], tool: str) -> Mapping[str, Json]:
    """The arguments of a call as an object; none at all is an empty one, as many models write it.

    Raises:
        BadArguments: not JSON, or not an object.
    """
    if not isinstance(raw, str):
        return raw
    if not raw.strip():
        return {}
    try:
        read = json.loads(raw)
    except (ValueError, RecursionError) as broken:
        raise BadArguments(f"the arguments of {tool} are not JSON: {broken}. Send one JSON object.") from broken
    if not isinstance(read, dict):
        raise BadArguments(f"the arguments of {tool} are not a JSON object. Send one, like {{}}.")
    return _whole(read) if _HALF.search(raw) else read


def _whole(read: dict[str, Json]) -> dict[str, Json]:
    """Halves of characters, which JSON can spell and nothing else can hold, become U+FFFD as in any decoder."""
    return dict(json.loads(whole_text(json.dumps(read, ensure_ascii=False))))


def check(model: type[BaseModel], raw: Mapping[str, Json], tool: str) -> dict[str, Any]:
    """The checked arguments by name, as the function takes them.

    Raises:
        BadArguments: names each argument that is wrong, and which ones there are.
    """
    try:
        # By way of JSON: what a model writes has JSON's types, so "2024-05-01" is a date here and a tuple is a list.
        read = model.model_validate_json(json.dumps(raw), strict=False)
    except ValidationError as wrong:
        faults = [f"{_place(fault['loc'])}: {fault['msg']}" for fault in wrong.errors(include_url=False)]
        raise BadArguments(explained(tool, faults, schema_of(model))) from wrong
    return {name: getattr(read, name) for name in model.model_fields}


def check_by_schema(schema: Mapping[str, Json], raw: Mapping[str, Json], tool: str) -> None:
    """Checks what a foreign schema says, but for its regular expressions: those are left to the tool's own side.

    Raises:
        BadArguments: names each argument that is wrong, and which ones there are.
    """
    validator = _FOREIGN(schema, registry=referencing.Registry())  # an empty one: nothing is fetched for a $ref
    try:
        faults = [
            f"{fault.json_path.removeprefix('$.')}: {fault.message[:FAULT_CHARS_MAX]}"
            for fault in validator.iter_errors(raw)
        ]
    except (referencing.exceptions.Unresolvable, RecursionError) as broken:
        raise BadArguments(f"the schema of {tool} cannot be checked against: {broken}") from broken
    if faults:
        raise BadArguments(explained(tool, faults, schema))


def check_schema(schema: Mapping[str, Json], tool: str) -> None:
    """Raises ContractFault when a foreign schema is none."""
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as wrong:
        raise ContractFault(f"tool {tool}: its parameters are no JSON schema: {wrong.message}") from wrong


def explained(tool: str, faults: list[str], schema: Mapping[str, Json]) -> str:
    """What a model reads when its arguments are wrong: each fault, then what the tool takes."""
    more = len(faults) - FAULTS_SHOWN_MAX
    shown = "; ".join(faults[:FAULTS_SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")
    required = schema.get("required", [])
    takes = [f"{name}{'' if name in required else ' (optional)'}" for name in schema.get("properties", {})]
    return f"wrong arguments for {tool}: {shown}. It takes: {', '.join(takes) or 'nothing'}."


def _place(path: tuple[int | str, ...]) -> str:
    words = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(words).lstrip(".") or "arguments"


def _listed(names: typing.Iterable[str]) -> str:
    return ", ".join(sorted(names))
