"""YAML of people, read so that nothing of it is lost or grows: no key twice, no value that contains itself."""

from __future__ import annotations

from typing import Any

from ringleader.agent.extra import extra
from ringleader.errors import BadRequest

VALUES_MAX = 200_000  # with every alias written out: a page has some hundreds


def read_yaml(text: str, source: str) -> Any:
    """What a YAML (or JSON) document says.

    Raises:
        BadRequest: it is none, has a key twice, or comes to more values than any plan has.
        ExtraMissing: PyYAML is not installed.
    """
    with extra("yaml"):
        import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    message = f"the key {key.value!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) and key.value != "<<" else id(key))
            return super().construct_mapping(node, deep=deep)

    try:
        read = yaml.load(text, Loader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a number or a date that is none
        raise BadRequest(f"{source} is not YAML: {' '.join(str(error).split())}", param="--plan") from error
    if _values(read) > VALUES_MAX:
        raise BadRequest(f"{source} holds more than {VALUES_MAX:,} values, or one that contains itself", param="--plan")
    return read


def _values(read: Any) -> int:
    """How many values there are; counting stops above VALUES_MAX, which a value that contains itself reaches, too."""
    count, waiting = 0, [read]
    while waiting and count <= VALUES_MAX:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple | set):
            waiting += value
    return count
