"""What each dialect's grammar costs on one vocabulary: to build, to compile, to mask, and how much of a call is forced.

The vocabulary is a model's own with the markers of every family added, so that each dialect has its own. Answers are
walks that a model might take: words where text is free, what closes things elsewhere.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from tokenizers import AddedToken

from ringleader.bench.ratios import percentile
from ringleader.bench.report import Flat, Line
from ringleader.language.dialects.detect import TABLE
from ringleader.language.dialects.dialect import Dialect
from ringleader.language.dialects.typed_form import TypedForm
from ringleader.language.grammar import build
from ringleader.language.opening import forced_opening
from ringleader.language.tool_choice import normalise
from ringleader.shard.ranking import Order, Ranking, rank_tokens
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import Json, Tool

_MARKERS = (
    "<tool_call> </tool_call> <tool_response> </tool_response> <think> </think> "
    "<arg_key> </arg_key> <arg_value> </arg_value> "
    "<|tool_calls_section_begin|> <|tool_calls_section_end|> <|tool_call_begin|> <|tool_call_argument_begin|> "
    "<|tool_call_end|> <|open|> <|close|> <|sep|> <｜tool▁calls▁begin｜> <｜tool▁calls▁end｜> <｜tool▁call▁begin｜> "
    "<｜tool▁call▁end｜> <｜tool▁sep｜> ｜DSML｜ <minimax:tool_call> </minimax:tool_call> "
    "]<]minimax[>[ <mm:think> </mm:think> "
    "[TOOL_CALLS] [ARGS] [CALL_ID] [THINK] [/THINK] <|channel|> <|message|> <|start|> <|end|> <|call|> <|constrain|> "
    '<|tool_call> <tool_call|> <|"|> <start_function_call> <end_function_call> <escape> <|python_tag|> '
    "<|tool_call_start|> <|tool_call_end|> <|tool_call|> <|/tool_call|> <|START_ACTION|> <|END_ACTION|> "
    "<|START_RESPONSE|> <|END_RESPONSE|> <|START_THINKING|> <|END_THINKING|> <longcat_tool_call> </longcat_tool_call> "
    "<longcat_arg_key> </longcat_arg_key> <longcat_arg_value> </longcat_arg_value> <|tools_prefix|> <|tools_suffix|> "
    "<|eom|> <tool_calls> </tool_calls>"
)
MARKERS = tuple(_MARKERS.split())
CHOICES = ("auto", "required", "named")
WORDS = 12  # of free text before it is ended where it may
SAID = 24  # words before a call that nobody demanded
TOKENS_MAX = 400  # of one walk
WIDE = 8  # a mask of more than 1/8 of the vocabulary is free text's


@dataclass(frozen=True, slots=True)
class DialectCost:
    """One dialect under one choice. `build_ms` is the master's work, warm; `compile_ms` the tail's, the opening
    included, and `first_ms` its first mask. Masks in microseconds. `forced` is the share of an answer's tokens that no
    model need compute."""

    dialect: str
    choice: str
    build_ms: float
    compile_ms: float
    first_ms: float
    mask_p50_us: float
    mask_p99_us: float
    tokens: int
    forced: float


@dataclass(frozen=True, slots=True)
class DialectCosts:
    """All dialects of the table, on a vocabulary of this many tokens."""

    vocabulary: int
    costs: tuple[DialectCost, ...]

    def lines(self) -> list[Line]:
        """For the table."""
        return [Line("vocabulary", f"{self.vocabulary} tokens"), *map(_line, self.costs)]

    def flat(self) -> Flat:
        """For --json."""
        flat: Flat = {"vocabulary": self.vocabulary}
        for cost in self.costs:
            for key in ("build_ms", "compile_ms", "first_ms", "mask_p50_us", "mask_p99_us", "tokens", "forced"):
                flat[f"{cost.dialect}_{cost.choice}_{key}"] = round(getattr(cost, key), 4)
        return flat


def _line(cost: DialectCost) -> Line:
    made = f"{cost.build_ms:.1f} + {cost.compile_ms:.1f} + {cost.first_ms:.1f} ms"
    masks = f"{cost.mask_p50_us:.0f} / {cost.mask_p99_us:.0f} us"
    return Line(f"{cost.dialect} {cost.choice}", f"{made}, {masks}, {cost.forced:.0%}")


def measure_dialects(directory: Path, rounds: int, say: Callable[[str], None]) -> DialectCosts:
    """Raises ModelFault and ModelUnsupported with what is wrong with the vocabulary."""
    tokenizer = with_markers(load_tokenizer(directory))
    walker = Walker(tokenizer)
    dialects = {entry.name: entry.make for entry in TABLE}
    costs: list[DialectCost] = []
    for name, make in dialects.items():
        say(name)
        costs += [_cost(walker, make(tokenizer), choice, rounds) for choice in CHOICES]
    return DialectCosts(tokenizer.vocab_size, tuple(costs))


def with_markers(tokenizer: Tokenizer) -> Tokenizer:
    """The vocabulary with every family's markers as special tokens, and no chat template."""
    fast = copy.deepcopy(tokenizer._fast)
    fast.add_tokens([AddedToken(text, special=True) for text in MARKERS], special_tokens=True)
    width = max(tokenizer.vocab_size, len(fast))
    return Tokenizer(fast, vocab_size=width, eos_ids=tokenizer.eos_ids, chat_template=None)


def _cost(walker: Walker, dialect: Dialect, choice: str, rounds: int) -> DialectCost:
    tokenizer = walker.tokenizer
    wish: Json = {"type": "function", "function": {"name": TOOLS[2].name}} if choice == "named" else choice
    asked = normalise(wish, TOOLS, choice != "named")
    builds: list[float] = []
    for _ in range(rounds + 1):  # the first one also judges each schema, which is kept
        started = time.perf_counter()
        grammar = build(dialect, TOOLS, asked, tokenizer, reasoning="over")
        opening = forced_opening(grammar, tokenizer) if asked.mode == "required" else ()
        builds.append(time.perf_counter() - started)
    assert grammar is not None
    path = walker.path(grammar.text, opening, dialect, talks=choice == "auto")
    runs = [walker.run(grammar.text, opening, path) for _ in range(rounds)]
    masks = np.min([run.masks_s for run in runs], axis=0) * 1e6
    tokens = len(opening) + sum(1 + len(followers) for _, followers in path)
    return DialectCost(
        dialect.name,
        choice,
        min(builds[1:]) * 1e3,
        min(run.compile_s for run in runs) * 1e3,
        min(run.first_s for run in runs) * 1e3,
        percentile(list(masks), 50),
        percentile(list(masks), 99),
        tokens,
        1 - len(path) / tokens,
    )


# ---------------------------------------------------------------- walks

Path_ = Sequence[tuple[int, Sequence[int]]]  # what is chosen, and what is forced after it


@dataclass(frozen=True, slots=True)
class Run:
    """The times of one walk, in seconds."""

    compile_s: float
    first_s: float
    masks_s: list[float]


class Walker:
    """Takes walks through grammars on one vocabulary, the same ones each time."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._ranking: Ranking = rank_tokens(tokenizer.grammar_view, frozenset(tokenizer.eos_ids))
        self._mask = allocate_token_bitmask(1, tokenizer.vocab_size)
        self._words = np.flatnonzero([_is_word(tokenizer.token_bytes(id_)) for id_ in range(tokenizer.vocab_size)])

    def path(self, grammar: str, opening: Sequence[int], dialect: Dialect, *, talks: bool) -> Path_:
        """A walk: what is chosen at each step. `talks`: words first, and then a call if one may begin."""
        chance = np.random.default_rng(0)
        matcher = self._begun(grammar, opening)
        found: list[tuple[int, list[int]]] = []
        left = SAID if talks else WORDS
        called = list(self.tokenizer.encode(dialect.opens[0].marker.text)) if talks and dialect.opens else []
        ends = [self.tokenizer.encode(text) for text in _endings(dialect)]
        wanted: Iterator[int] = iter(())
        while not matcher.is_stopped() and len(found) < TOKENS_MAX:
            legal = self._legal(matcher)
            chosen = next(wanted, None)
            if chosen is None and left == 0 and called and matcher.validate_tokens(called) == len(called):
                wanted, called = iter(called), []
                chosen = next(wanted)
            if chosen is None and left == 0 and self._is_wide(legal):
                wanted = iter(next((end for end in ends if matcher.validate_tokens(end) == len(end)), ()))
                chosen = next(wanted, None)
            if chosen is None or not legal[chosen]:
                chosen = self._choose(legal, left, chance)
            left = left - 1 if self._is_wide(legal) and left else WORDS if not self._is_wide(legal) else 0
            matcher.consume_token(chosen)
            followers = [] if matcher.is_stopped() else list(matcher.compute_ff_tokens())
            matcher.consume_tokens(followers)
            found.append((chosen, followers))
        return found

    def run(self, grammar: str, opening: Sequence[int], path: Path_) -> Run:
        """Takes the walk by the clock."""
        started = time.perf_counter()
        matcher = self._begun(grammar, opening)
        compiled = time.perf_counter()
        masks: list[float] = []
        for chosen, followers in path:
            begun = time.perf_counter()
            fill_next_token_bitmask(matcher, self._mask, 0)
            masks.append(time.perf_counter() - begun)
            matcher.consume_tokens([chosen, *followers])
        return Run(compiled - started, masks[0], masks[1:] or masks)

    def _begun(self, grammar: str, opening: Sequence[int]) -> Any:
        matcher = LLMatcher(self.tokenizer.grammar_view, grammar, log_level=0)
        matcher.consume_tokens(list(opening))
        return matcher

    def _legal(self, matcher: Any) -> Any:
        fill_next_token_bitmask(matcher, self._mask, 0)
        return np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: self.tokenizer.vocab_size].astype(bool)

    def _is_wide(self, legal: Any) -> bool:
        return int(legal.sum()) > self.tokenizer.vocab_size // WIDE

    def _choose(self, legal: Any, left: int, chance: np.random.Generator) -> int:
        way = self._ranking.ways[1]
        if self._is_wide(legal):
            words = self._words[legal[self._words]]
            closing = _first(legal, way.wide)
            if closing is not None and not left:
                return closing
            return int(chance.choice(words if len(words) else np.flatnonzero(legal)))
        first = _first(legal, (way.narrow,))
        assert first is not None, "a grammar that allows nothing has stopped"
        return first


def _endings(dialect: Dialect) -> list[str]:
    """Texts that end a raw value where that is no special token."""
    form = getattr(dialect, "form", None)
    return [form.value_end.text] if isinstance(form, TypedForm) else []


def _first(legal: Any, orders: Sequence[Order]) -> int | None:
    for order in orders:
        found = order[legal[order]]
        if len(found):
            return int(found[0])
    return None


def _is_word(text: bytes) -> bool:
    return text.startswith(b" ") and text[1:].isalpha() and text.isascii()


# ---------------------------------------------------------------- what an agent sends


def _tool(name: str, **parameters: Mapping[str, Json]) -> Tool:
    """`optional` among a parameter's schema says that it is."""
    properties = {key: {k: v for k, v in schema.items() if k != "optional"} for key, schema in parameters.items()}
    required = [key for key, schema in parameters.items() if "optional" not in schema]
    return Tool(name, f"The tool {name}.", {"type": "object", "properties": properties, "required": required})


_TEXT: Mapping[str, Json] = {"type": "string"}
_MAYBE: Mapping[str, Json] = {"type": "string", "optional": True}
_COUNT: Mapping[str, Json] = {"type": "integer", "minimum": 0, "maximum": 100000, "optional": True}
_FLAG: Mapping[str, Json] = {"type": "boolean", "optional": True}
TOOLS = (
    _tool("read_file", path=_TEXT, offset=_COUNT, limit=_COUNT),
    _tool("write_file", path=_TEXT, content=_TEXT),
    _tool(
        "edit_file",
        path=_TEXT,
        edits={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                "required": ["old", "new"],
            },
            "minItems": 1,
        },
        dry_run=_FLAG,
    ),
    _tool("bash", command=_TEXT, timeout=_COUNT, background=_FLAG),
    _tool("grep", pattern=_TEXT, path=_MAYBE, mode={"type": "string", "enum": ["content", "files", "count"]}),
    _tool("list_directory", path=_TEXT, depth=_COUNT, hidden=_FLAG),
    _tool("fetch", url=_TEXT, headers={"type": "object", "additionalProperties": {"type": "string"}, "optional": True}),
    _tool(
        "todo",
        items={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "state": {"type": "string", "enum": ["open", "done"]}},
                "required": ["text", "state"],
            },
        },
    ),
)
