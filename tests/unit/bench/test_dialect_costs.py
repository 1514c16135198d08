"""The costs of all dialects on a small vocabulary: only that each is measured, and on an answer that is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llguidance import LLMatcher

from ringleader.bench.dialect_costs import CHOICES, MARKERS, TOOLS, Walker, measure_dialects, with_markers
from ringleader.language.dialects.detect import TABLE
from ringleader.language.grammar import build
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with


@pytest.fixture(scope="module")
def marked() -> Tokenizer:
    return with_markers(tokenizer_with(["<tool_call>"], CHATML))


def test_every_dialect_is_measured_under_every_choice(tmp_path: Path) -> None:
    tokenizer = tokenizer_with([], CHATML)
    save(tokenizer, tmp_path)
    config = {"model_type": "llama", "vocab_size": tokenizer.vocab_size, "eos_token_id": tokenizer.eos_ids[0]}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    said: list[str] = []
    found = measure_dialects(tmp_path, 1, said.append)
    names = list(dict.fromkeys(entry.name for entry in TABLE))
    assert said == names
    assert [(cost.dialect, cost.choice) for cost in found.costs] == [(n, c) for n in names for c in CHOICES]
    assert all(0 <= cost.forced < 1 and cost.tokens > 4 and cost.compile_ms > 0 for cost in found.costs)
    assert all(cost.forced > 0.1 for cost in found.costs if cost.choice == "named")
    assert len(found.flat()) == 1 + 7 * len(found.costs)
    assert len(found.lines()) == 1 + len(found.costs)


def test_the_markers_are_special_tokens_and_those_that_are_there_stay(marked: Tokenizer) -> None:
    ids = [marked.token_id(text) for text in MARKERS]
    assert all(id_ is not None and marked.is_special(id_) for id_ in ids)
    assert marked.token_id("<tool_call>") == tokenizer_with(["<tool_call>"], CHATML).token_id("<tool_call>")
    assert marked.vocab_size > max(id_ for id_ in ids if id_ is not None)


@pytest.mark.parametrize("name", ["json_tags", "qwen_xml", "kimi_k3", "harmony", "minimax_m3"])
def test_a_forced_walk_is_a_whole_answer(marked: Tokenizer, name: str) -> None:
    dialect = next(entry for entry in TABLE if entry.name == name).make(marked)
    grammar = build(dialect, TOOLS, normalise("bash", TOOLS, False), marked, reasoning="over")
    assert grammar is not None
    path = Walker(marked).path(grammar.text, (), dialect, talks=False)
    matcher = LLMatcher(marked.grammar_view, grammar.text, log_level=0)
    for chosen, followers in path:
        assert matcher.consume_tokens([chosen, *followers])
    assert matcher.is_stopped()
    assert matcher.stop_reason() in ("NoExtension", "EndOfSentence")
