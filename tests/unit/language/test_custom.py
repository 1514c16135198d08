"""Custom tools as functions of one text: how they are described, how their calls are read back."""

from __future__ import annotations

import json
import random
import time

import pytest
from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.custom import InputReader, Inputs, as_function, as_functions_in, check_custom, is_raw
from ringleader.language.schema import bytes_view, grammar_text, lark_of
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, CustomGrammar, Delta, Message, Tool, ToolCall
from tests.unit.language.builders import NOW

FREE = Tool("run", "Runs it.", kind="custom")
LARK = Tool("patch", kind="custom", grammar=CustomGrammar("lark", 'start: "a" /[x-z]+/'))


def regex(pattern: str) -> Tool:
    return Tool("pick", kind="custom", grammar=CustomGrammar("regex", pattern))


def takes(tool: Tool, text: str) -> bool:
    """Whether the function's own grammar lets this input through."""
    parameters = as_function(tool, "").parameters
    assert parameters is not None
    matcher = LLMatcher(bytes_view(), lark_of(grammar_text(parameters, lenient=False)), log_level=0)
    ids = list(json.dumps({"input": text}, ensure_ascii=False).encode())
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def refusal(tool: Tool) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        check_custom((NOW, tool))
    return caught.value


def test_functions_stay_as_they_are() -> None:
    assert as_function(NOW, "<tool_call>") is NOW
    check_custom((NOW,))


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    made = as_function(FREE, "<tool_call>")
    assert (made.name, made.kind, made.description) == ("run", "function", "Runs it.\nTakes one text.")
    assert not is_raw(FREE)
    for text in ("", 'any "text"\n\\ at all ☀', "</tool_call>"):
        assert takes(FREE, text)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("[a-z]+", ["abc"], ["", "a1", "a\n"]),
        ("^[a-z]+$", ["abc"], ["a1"]),
        ("a|b", ["a", "b"], ["ab", "aa"]),
        (r"\$\d+\$", ["$5$"], ["$5"]),
        (r"(?s:.*)END", ["x\ny END", "END"], ["EN"]),
        ("(?i)yes|no", ["YES", "no"], ["y"]),
        ('say "[^"]*"', ['say "ja"'], ["say ja"]),
        (r"\\+", ["\\\\"], ["/"]),
    ],
)
def test_an_input_with_a_regex_matches_it_whole(pattern: str, good: list[str], bad: list[str]) -> None:
    check_custom((regex(pattern),))
    assert [text for text in good if not takes(regex(pattern), text)] == []
    assert [text for text in bad if takes(regex(pattern), text)] == []
    assert pattern in as_function(regex(pattern), "").description


def test_a_tool_with_a_lark_grammar_is_told_how_to_be_called() -> None:
    assert is_raw(LARK)
    told = as_function(LARK, "<tool_call>").description
    assert 'start: "a" /[x-z]+/' in told
    assert "<tool_call>patch, then a new line" in told


@pytest.mark.parametrize(
    ("syntax", "definition", "said"),
    [
        ("regex", "(", "unclosed group"),
        ("regex", "(?=a)b", "look-around"),
        ("regex", "[^\\s\\S]", ""),
        ("lark", "", "start"),
        ("lark", 'foo: "a"', "start"),
        ("lark", "start: missing", "missing"),
        ("lark", "start: /(/", "unclosed group"),
        ("lark", "start: @other", "other"),
        ("lark", "start: <|im_end|>", "special token"),
        ("lark", "start: <[2]>", "special token"),
        ("lark", "start: start", ""),
        ("lark", "start: A\nA: /a/ & /b/", ""),
        ("lark", 'start: "' + "x" * 300_000 + '"', "characters"),
    ],
)
def test_a_grammar_that_is_none_is_refused_by_its_place(syntax: str, definition: str, said: str) -> None:
    tool = Tool("f", kind="custom", grammar=CustomGrammar("lark" if syntax == "lark" else "regex", definition))
    error = refusal(tool)
    assert error.param == "tools[1].custom.format.grammar.definition"
    assert str(error).startswith(f"Invalid {syntax} grammar for custom tool 'f': ")
    assert said in str(error)
    assert len(str(error)) < 500


def test_an_expression_that_no_text_can_begin_is_too_complex() -> None:
    error = refusal(regex("((a{1000}){1000}){1000}"))
    assert (error.code, error.param) == ("grammar_too_complex", "tools[1].custom.format.grammar.definition")
    assert "'((a{1000}){1000}){1000}' outgrows what can be enforced" in str(error)


def test_ordinary_grammars_are_taken_and_hostile_ones_judged_at_once() -> None:
    begun = time.monotonic()
    for definition in (
        'start: "<" /[a-z]+/ ">"  // <not a token>',
        "start: NUMBER (_S NUMBER)*\n%import common.NUMBER\n_S: /<|,/",
        "%ignore / /\nstart: expr\nexpr: /[0-9]/ | expr /[+*]/ expr",
    ):
        check_custom((Tool("f", kind="custom", grammar=CustomGrammar("lark", definition)),))
    check_custom((regex("(a{1,1000}){1,1000}"),))
    check_custom((regex("^(a+)+$"),))
    assert time.monotonic() - begun < 2


def test_custom_calls_of_the_history_become_calls_of_the_function() -> None:
    calls = (ToolCall("1", "run", 'say "hi"\n', "custom"), ToolCall("2", "now", "{}"))
    plain = Message("user", "hi")
    turns = as_functions_in((plain, Message("assistant", "so", tool_calls=calls)))
    assert turns[0] is plain
    assert turns[1].tool_calls == (ToolCall("1", "run", '{"input": "say \\"hi\\"\\n"}'), calls[1])


def test_inputs_come_out_of_their_json_however_it_is_cut() -> None:
    for seed in range(400):
        chance = random.Random(seed)
        text = "".join(chance.choice('a"\\\n\t/é😀\u2028{}input:\x00\x1f') for _ in range(chance.randrange(12)))
        written = json.dumps({"input": text}, ensure_ascii=chance.random() < 0.5)
        reader, at, pieces = InputReader(), 0, []
        while at < len(written):
            to = at + chance.randrange(1, 9)
            pieces.append(reader.push(written[at:to]))
            at = to
        assert "".join(pieces) == text, written


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"input": "\\ud83dx"}', "\ufffdx"),
        ('{"input": "\\ud83d\\n"}', "\ufffd\n"),
        ('{"input": "\\ude00"}', "\ufffd"),
        ('{"input": "\\uZZZZ"}', "\\uZZZZ"),
        ('{ "input" :\n"a" }', "a"),
        ('{"text": "' + "x" * 80, '{"text": "' + "x" * 80),
    ],
)
def test_what_no_grammar_would_write_is_read_all_the_same(written: str, read: str) -> None:
    reader = InputReader()
    assert "".join(map(reader.push, written)) == read


def test_only_calls_of_custom_tools_are_unwrapped_and_no_id_is_lost() -> None:
    deltas: list[Delta] = [
        CallStarted(0, "now"),
        ArgumentsDelta(0, '{"input": "x"}', (1,)),
        CallEnded(0),
        CallStarted(1, "run"),
        ArgumentsDelta(1, '{"in', (2, 3)),
        ArgumentsDelta(1, 'put": "a\\', (4,)),
        ArgumentsDelta(1, 'nb"}', (5,)),
        CallEnded(1),
    ]
    seen = Inputs(frozenset({"run"})).of(deltas)
    assert seen[:4] == deltas[:4]
    assert seen[4:] == [
        ArgumentsDelta(1, "", (2, 3)),
        ArgumentsDelta(1, "a", (4,)),
        ArgumentsDelta(1, "\nb", (5,)),
        CallEnded(1),
    ]
    assert Inputs(frozenset()).of(deltas) == deltas
