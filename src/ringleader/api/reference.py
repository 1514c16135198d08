"""`docs/reference/`: one page for each part of the API, written from its OpenAPI document.

`python -m ringleader.api.reference docs/reference` writes the pages anew; a test says when they are stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ringleader.api.app import ROUTES, make_app
from ringleader.api.openapi import document
from ringleader.values import Json

HEAD = "<!-- Written by python -m ringleader.api.reference: change the routes and models in src/ringleader/api. -->\n"
NAMES_MAX = 12  # of an enumeration


def api_document() -> dict[str, Json]:
    """The document of the whole API, as a node serves it."""
    nobody: Any = object()  # no handler is called
    routes = make_app(nobody, nobody, nobody, tokenizing=nobody, responses=nobody, library=nobody)[ROUTES]
    return document(routes)


def pages(told: Mapping[str, Json]) -> dict[str, str]:
    """The pages by file name."""
    by_tag: dict[str, list[tuple[str, Json]]] = {}
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append((f"{method.upper()} {path}", operation))
    schemas = told["components"]["schemas"]
    written = {f"{tag.replace(' ', '-')}.md": _page(tag, doors, schemas) for tag, doors in by_tag.items()}
    index = "".join(f"- [{name.removesuffix('.md')}]({name})\n" for name in sorted(written))
    about = "Served by every node as `/openapi.json`, of which these pages are made.\n\n"
    return {**written, "README.md": f"{HEAD}\n# The API\n\n{about}{index}"}


def main(directory: str) -> None:
    """Write the pages to `directory`, and remove those of parts that are no more."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    made = pages(api_document())
    for old in target.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (target / name).write_text(text, encoding="utf-8")


def _page(tag: str, doors: list[tuple[str, Json]], schemas: Mapping[str, Json]) -> str:
    """Its doors, then the objects that these speak of."""
    sections = [_section(title, operation, schemas) for title, operation in doors]
    top = {name for _, operation in doors for name in _refs(operation)}
    inner = sorted(_reached(top, schemas) - top)
    objects = [f"### {name}\n\n" + "\n".join(_table(schemas[name], schemas)) + "\n" for name in inner]
    return f"{HEAD}\n# {tag[0].upper()}{tag[1:]}\n\n" + "\n".join([*sections, *objects])


def _reached(names: set[str], schemas: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    left = set(names)
    while left:
        found |= left
        left = {name for each in left for name in _refs(schemas[each])} - found
    return found


def _refs(value: Json) -> Iterator[str]:
    """The names of all objects that a schema, or a part of the document, refers to itself."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[1]
        for each in value.values():
            yield from _refs(each)
    elif isinstance(value, list):
        for each in value:
            yield from _refs(each)


def _section(title: str, operation: Json, schemas: Mapping[str, Json]) -> str:
    lines = [f"## `{title}`", "", operation["summary"], ""]
    if query := [each for each in operation.get("parameters", ()) if each["in"] == "query"]:
        rows = [f"| `{each['name']}` | {each['description']} |" for each in query]
        lines += ["| parameter | |", "|---|---|", *rows, ""]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        lines += ["Body:", "", *_table(body["schema"], schemas), ""]
    for status, answer in operation["responses"].items():
        for kind, content in answer.get("content", {}).items():
            if status != "default" and int(status) < 400:
                what = "Answer" if kind == "application/json" else f"Streamed (`{kind}`)"
                lines += [f"{what}:", "", *_table(content["schema"], schemas), ""]
    return "\n".join(lines)


def _table(schema: Json, schemas: Mapping[str, Json]) -> list[str]:
    found = _resolved(schema, schemas)
    required = set(found.get("required", ()))
    about = [" ".join(found["description"].split()), ""] if "description" in found else []
    if not found.get("properties"):
        return [*about, _type(schema, schemas)]
    rows = [
        f"| `{name}` | {_type(each, schemas, nulls=name in required)} | {'yes' if name in required else ''} |"
        for name, each in found["properties"].items()
    ]
    return [*about, "| field | type | required |", "|---|---|---|", *rows]


def _resolved(schema: Json, schemas: Mapping[str, Json]) -> Json:
    return schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def _type(schema: Json, schemas: Mapping[str, Json], *, nulls: bool = False) -> str:
    """A schema in a few words for a table's cell. `nulls`: null is told of, too, as it is no other word for absent."""
    if "$ref" in schema:
        return f"object ({schema['$ref'].rsplit('/', 1)[1]})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            kinds = [_type(each, schemas) for each in schema[key] if nulls or each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"][:NAMES_MAX])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}), schemas)}"
    bounds = _bounds(schema)
    return f"{schema.get('type', 'any JSON')}{bounds}"


def _bounds(schema: Json) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    told = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
    return f" ({', '.join(told)})" if told else ""


if __name__ == "__main__":
    main(sys.argv[1])
