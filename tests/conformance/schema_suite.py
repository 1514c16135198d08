"""The JSON Schema Test Suite (draft 2020-12) as questions to the rule for an answer's text.

The suite is fetched by `fetch_data.sh`; its verdicts are the standard's own.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.content import ContentRule, content_rule
from ringleader.language.enforcement import violation
from ringleader.language.schema import bytes_view, grammar_text, lark_of
from ringleader.values import ContentFormat

DATA = Path(os.environ.get("RINGLEADER_TEST_DATA") or Path.home() / ".cache" / "ringleader-tests")
SUITE = DATA / "json-schema-suite" / "tests" / "draft2020-12"
KEYS_MAX = 4  # of one object, that are tried in every order


@dataclass
class Tally:
    """What came of one file's questions."""

    schemas: int = 0
    refused: int = 0  # schemas: the client gets a 400
    valid: int = 0  # instances of the schemas that were not refused
    valid_accepted: int = 0
    valid_closed_out: int = 0  # only because objects are closed unless the schema says otherwise
    invalid: int = 0
    invalid_refused: int = 0
    invalid_told: int = 0  # let through, but told of, at once or when the answer was whole (strict false alone)


def files() -> list[Path]:
    return sorted(SUITE.rglob("*.json"))


def ask(path: Path, *, strict: bool) -> tuple[Tally, list[str]]:
    """Put a file's cases to the rule; the second part names what was accepted although it is invalid."""
    tally, wrong = Tally(), []
    for group in json.loads(path.read_text(encoding="utf-8")):
        tally.schemas += 1
        rule = rule_for(group["schema"], strict=strict)
        if rule is None:
            tally.refused += 1
            continue
        matcher = matcher_for(rule.schema)
        for case in group["tests"]:
            if case["valid"]:
                tally.valid += 1
                taken = any(accepts(matcher, text) for text in spellings(case["data"]))
                tally.valid_accepted += taken
                tally.valid_closed_out += not taken and is_closed_out(group["schema"], case["data"])
                continue
            tally.invalid += 1
            taken_as = [text for text in spellings(case["data"]) if accepts(matcher, text)]
            silent = [text for text in taken_as if not rule.warnings and violation(rule.check, text) is None]
            tally.invalid_refused += not taken_as
            tally.invalid_told += bool(taken_as) and not silent
            wrong += [f"{group['description']} / {case['description']}: {text}" for text in silent[:1]]
    return tally, wrong


def rule_for(schema: Any, *, strict: bool) -> ContentRule | None:
    """What `response_format` makes of it; None where the client gets a 400. The door takes only objects."""
    if not isinstance(schema, Mapping):
        return None
    try:
        return content_rule(ContentFormat("json_schema", "suite", schema, strict))
    except BadRequest as error:
        assert error.param == "response_format"
        assert str(error).startswith("Invalid schema for response_format 'suite': ")
        return None


def matcher_for(text: str) -> Any:
    matcher = LLMatcher(bytes_view(), lark_of(text), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def accepts(matcher: Any, text: str) -> bool:
    """Whether a model can write just this as its whole answer."""
    walked, written = matcher.deep_copy(), list(text.encode("utf-8", "surrogatepass"))
    return bool(walked.try_consume_tokens(written) == len(written) and walked.is_accepting())


def spellings(value: Any) -> Iterator[str]:
    """Ways to write one value: compactly and as our grammars do, with escapes of three kinds, keys in every order."""
    seen = set()
    for ordered in _orders(value):
        for comma, colon in ((", ", ": "), (",", ":")):
            for spell in (_plain, json.dumps, _escaped):
                text = _written(ordered, comma, colon, spell)
                if text not in seen:
                    seen.add(text)
                    yield text


def _written(value: Any, comma: str, colon: str, key: Callable[[str], str]) -> str:
    if isinstance(value, dict):
        pairs = [f"{key(name)}{colon}{_written(each, comma, colon, key)}" for name, each in value.items()]
        return f"{{{comma.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{comma.join(_written(each, comma, colon, key) for each in value)}]"
    return key(value) if isinstance(value, str) and key is not _escaped else _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escaped(name: str) -> str:
    units = name.encode("utf-16-be", "surrogatepass")
    return '"' + "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2)) + '"'


def is_closed_out(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether the schema as the client wrote it, open objects included, would take the value."""
    matcher = LLMatcher(bytes_view(), lark_of(grammar_text(schema, lenient=True)), log_level=0)
    return not matcher.is_error() and any(accepts(matcher, text) for text in spellings(value))


def _orders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict) and len(value) <= KEYS_MAX:
        for keys in itertools.permutations(value):
            for values in itertools.product(*(list(_orders(value[key]))[:6] for key in keys)):
                yield dict(zip(keys, values, strict=True))
    elif isinstance(value, list) and len(value) <= KEYS_MAX:
        for values in itertools.product(*(list(_orders(each))[:6] for each in value)):
            yield list(values)
    else:
        yield value
