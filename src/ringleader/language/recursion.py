"""Questions about nested JSON that are answered without recursing into it: how deep is it, does it ever end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ringleader.values import Json

NOT_SCHEMAS = ("enum", "const", "default", "examples")  # keywords whose values are data
PROOFS_MAX = 32  # passes over the definitions; each proves whole chains, so real schemas need two or three


def deeper_than(value: Json, limit: int) -> bool:
    """Whether a JSON value nests more than `limit` levels; walks level by level."""
    level = [value]
    for _ in range(limit):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


def endless(schema: Mapping[str, Json]) -> str | None:
    """A `$ref` of the schema that no finite value meets (`{"$ref": "#"}` at its plainest), or None.

    The engine accepts those and then fails in the middle of an answer. Found as a least fixed point: what is
    not shown to be finite is endless.
    """
    unproven = {ref: target for ref in _references(schema) if (target := _resolve(schema, ref)) is not None}
    order = list(unproven)
    for _ in range(PROOFS_MAX):
        found = [ref for ref in order if ref in unproven and _is_finite(unproven[ref], unproven, pop=ref)]
        order.reverse()  # chains of definitions run both ways
        if not found:
            break
    return next(iter(unproven), None)


def _is_finite(node: Json, unproven: dict[str, Json], *, pop: str | None = None) -> bool:
    finite = isinstance(node, bool) or not isinstance(node, Mapping) or _parts_are_finite(node, unproven)
    if finite and pop is not None:
        del unproven[pop]  # at once, so that one pass proves a whole chain
    return finite


def _parts_are_finite(node: Mapping[str, Json], unproven: dict[str, Json]) -> bool:
    reference = node.get("$ref")
    if isinstance(reference, str) and reference in unproven:
        return False
    for key in ("anyOf", "oneOf"):
        branches = listed(node.get(key))
        if branches and not any(_is_finite(branch, unproven) for branch in branches):
            return False
    needed = listed(node.get("allOf"))
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        needed = needed + [properties.get(n) for n in listed(node.get("required")) if isinstance(n, str)]
    least = node.get("minItems")
    if isinstance(least, int) and least > 0:
        needed = [*needed, node.get("items"), *listed(node.get("prefixItems"))[:least]]
    return all(_is_finite(part, unproven) for part in needed)


def _references(schema: Json) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            yield node["$ref"]
        waiting.extend(children(node))


def _resolve(schema: Json, pointer: str) -> Json:
    """What a local pointer means, or None for others (which the engine refuses or knows better)."""
    node = schema
    if not is_pointer(pointer):
        return None
    for part in pointer[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and len(key) < 8 and int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node


def is_pointer(reference: str) -> bool:
    """Whether a `$ref` is a path into its own schema. An anchor's name (`#q`) is none."""
    return reference == "#" or reference.startswith("#/")


def children(node: Json) -> Iterator[Json]:
    """What an object or a list holds; nothing for other values."""
    if isinstance(node, Mapping):
        yield from node.values()
    elif isinstance(node, list | tuple):
        yield from node


def listed(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one: a schema's keywords have any type."""
    return value if isinstance(value, list) else []
