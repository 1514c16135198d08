from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.language.dialects.json_tags import json_tags
from ringleader.language.stream import StreamParser
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Delta, FinishReason, TextDelta, TokenLogprob
from tests.unit.language.builders import Collected, collect

AUTO = ToolChoice("auto", ("get_weather", "now", "note"), 0, 16)
NONE = ToolChoice("none", (), 0, 0)


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


OSLO = call("get_weather", '{"city": "Oslo", "days": 3}')
TIME = call("now", "{}")
OSLO_READ = ["get_weather", '{"city": "Oslo", "days": 3}']


def made(tokenizer: Tokenizer, choice: ToolChoice = AUTO, **more: object) -> StreamParser:
    return StreamParser(json_tags(tokenizer), tokenizer, choice, **more)  # type: ignore[arg-type]  # passes them on


def read(
    tokenizer: Tokenizer,
    answer: str | Sequence[int],
    choice: ToolChoice = AUTO,
    *,
    chunks: Sequence[int] = (),
    reason: FinishReason = "stop",
    **more: object,
) -> Collected:
    """The answer as a client sees it, fed in chunks of these sizes (repeated; one by one if there are none)."""
    parser = made(tokenizer, choice, **more)
    ids = tokenizer.encode(answer) if isinstance(answer, str) else list(answer)
    deltas: list[Delta] = []
    sizes = list(chunks) or [1]
    while ids:
        size = sizes[0]
        sizes = sizes[1:] + sizes[:1]
        deltas += parser.feed(ids[:size])
        ids = ids[size:]
    return collect(deltas + parser.finish(reason))


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    return [token for char in text for token in tokenizer.encode(char)]


# ---------------------------------------------------------------- text


def test_text_comes_as_it_was_written(tokenizer: Tokenizer) -> None:
    for text in ["Hello", " two\n\nlines \n", "ÄÖÜ 🐢 日本", "a < b, <tool and <tool_", "", "\n"]:
        assert read(tokenizer, text) == Collected(text=text, order=["TextDelta"] if text else [])


def test_text_comes_while_it_is_written(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer)
    ids = tokenizer.encode("Hello there, how are you")
    assert collect(parser.feed(ids[:-1])).text.startswith("Hello there,")


def test_an_end_token_is_never_text(tokenizer: Tokenizer) -> None:
    assert read(tokenizer, "Bye<|im_end|>").text == "Bye"
    assert read(tokenizer, OSLO + "<|im_end|>") == read(tokenizer, OSLO)


def test_each_id_of_the_text_is_named_once_and_in_order(tokenizer: Tokenizer) -> None:
    for text in ["Hello there 🐢 日本", "Let me see.\n" + OSLO, f"{OSLO}\n{TIME}\nso", "a\n b"]:
        ids = tokenizer.encode(text)
        named = read(tokenizer, text).ids
        assert named == ids[: len(named)]
        assert len(ids) - len(named) <= len(tokenizer.encode("\n</tool_call>"))


def test_logprobs_go_with_the_text_and_not_with_markup(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer)
    ids = tokenizer.encode("Let me see.\n" + OSLO)
    deltas = parser.feed(ids, [TokenLogprob(token, -1.0) for token in ids])
    texts = [delta for delta in deltas if isinstance(delta, TextDelta)]
    assert [entry.token for delta in texts for entry in delta.logprobs] == tokenizer.encode("Let me see.")


# ---------------------------------------------------------------- stop strings


@pytest.mark.parametrize("stop", ["\n\n", "\n"])
def test_white_space_before_a_call_is_no_stop_string(tokenizer: Tokenizer, stop: str) -> None:
    forced = ToolChoice("required", AUTO.permitted, 1, 16)
    for choice in (AUTO, forced):
        assert read(tokenizer, f"\n\n{OSLO}\n{TIME}", choice, stop=(stop,)).calls == [OSLO_READ, ["now", "{}"]]
    assert read(tokenizer, "\n\nHello", stop=(stop,)) == Collected()
    assert read(tokenizer, f"Hi\n\n{OSLO}", stop=(stop,)) == Collected(text="Hi", order=["TextDelta"])


@pytest.mark.parametrize("stop", ["STOP", "OP", "\n\n", " S", "P\n"])
def test_text_ends_before_a_stop_string_and_nothing_of_it_leaks(tokenizer: Tokenizer, stop: str) -> None:
    text = "One ST two STO three STOP\n\nmore STOP"
    for chunks in ([1], [3], [100]):
        assert read(tokenizer, text, stop=(stop,), chunks=chunks).text == text[: text.index(stop)]
    parser = made(tokenizer, stop=(stop,))
    parser.feed(tokenizer.encode(text))
    assert parser.stopped
    assert parser.feed(tokenizer.encode("after")) == []
    assert parser.finish("stop") == []


def test_a_begun_stop_string_that_does_not_come_is_text(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer, stop=("STOP",))
    deltas = parser.feed(tokenizer.encode("go STO"))
    assert "S" not in collect(deltas).text
    assert collect(deltas + parser.finish("stop")).text == "go STO"
    assert not parser.stopped


def test_the_earliest_of_several_stop_strings_counts(tokenizer: Tokenizer) -> None:
    assert read(tokenizer, "abcdef", stop=("ef", "cd")).text == "ab"


def test_stop_strings_do_not_match_inside_calls_or_reasoning(marked: Tokenizer) -> None:
    answer = "<think>a STOP b</think>" + call("note", '{"text": "a STOP\\n b"}') + "\nx STOP"
    found = read(marked, answer, stop=("STOP", "name"))
    assert found.reasoning == "a STOP b"
    assert found.calls == [["note", '{"text": "a STOP\\n b"}']]
    assert found.text == "x "


@pytest.mark.parametrize("stop", ["<", "tool", "<tool_call>", "call>"])
def test_a_stop_string_that_is_part_of_the_marker_does_not_match_in_a_marker(tokenizer: Tokenizer, stop: str) -> None:
    found = read(tokenizer, "So: " + OSLO, stop=(stop,))
    assert (found.text, found.calls) == ("So:", [OSLO_READ])
    for text in ["a <tool", "a <tool_call and", "a <tool_call> b"]:
        cut = text[: text.index(stop)] if stop in text else text
        for chunks in ([1], [100]):
            assert read(tokenizer, text, NONE, stop=(stop,), chunks=chunks).text == cut
            if not text.endswith("b"):
                assert read(tokenizer, text, stop=(stop,), chunks=chunks).text == cut


# ---------------------------------------------------------------- calls


def test_a_call_comes_as_name_then_arguments_then_end(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, OSLO)
    assert found.calls == [OSLO_READ]
    assert found.order == ["CallStarted", "ArgumentsDelta", "CallEnded"]
    assert found.text == ""


def test_arguments_stream_while_they_are_written(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer)
    deltas = [
        d
        for token in tokenizer.encode(call("note", json.dumps({"text": "ab cd " * 100})))
        for d in parser.feed([token])
    ]
    assert len([d for d in deltas if isinstance(d, ArgumentsDelta)]) > 50


def test_text_before_a_call_loses_its_trailing_whitespace(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, "Let me see. \n\n" + OSLO)
    assert (found.text, found.calls) == ("Let me see.", [OSLO_READ])


@pytest.mark.parametrize("between", ["\n", "", " \n\n"])
def test_whitespace_between_and_after_calls_is_swallowed(tokenizer: Tokenizer, between: str) -> None:
    found = read(tokenizer, OSLO + between + TIME + between)
    assert (found.text, found.calls, found.ended) == ("", [OSLO_READ, ["now", "{}"]], [0, 1])


def test_text_after_a_call_is_text(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, OSLO + "\nDone.")
    assert (found.text, found.calls) == ("Done.", [OSLO_READ])


def test_calls_make_the_finish_reason_unless_the_length_ended_the_answer(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer)
    assert parser.finish_reason("stop") == "stop"
    parser.feed(tokenizer.encode(OSLO))
    assert (parser.calls, parser.finish_reason("stop"), parser.finish_reason("length")) == (1, "tool_calls", "length")


def test_markers_and_braces_inside_strings_stay_text(tokenizer: Tokenizer) -> None:
    arguments = json.dumps({"text": 'see </tool_call> and <tool_call>\n{"name": "now"} \\" }} <think>'})
    head, tail = call("note", "|").split("|")
    ids = tokenizer.encode(head) + spelled(tokenizer, arguments) + tokenizer.encode(tail)
    found = read(tokenizer, ids)
    assert (found.text, found.calls, found.ended) == ("", [["note", arguments]], [0])


@pytest.mark.parametrize(
    "written",
    [
        '{"name":"note","arguments":{"text":"a"}}',
        ' { "name" : "note" , "arguments" : {"text":"a"} } ',
        '{"arguments": {"text":"a"}, "name": "note"}',
        '{"id": 7, "x": [{"name": "}"}], "name": "note", "parameters": {"text":"a"}, "y": null}',
        '{"\\u006eame": "note", "arguments": {"text":"a"}}}',
    ],
)
def test_other_ways_to_write_the_same_call_are_understood(tokenizer: Tokenizer, written: str) -> None:
    found = read(tokenizer, f"<tool_call>{written}</tool_call>")
    assert (found.text, found.calls, found.ended) == ("", [["note", '{"text":"a"}']], [0])


def test_a_call_without_arguments_has_an_empty_object(tokenizer: Tokenizer) -> None:
    assert read(tokenizer, '<tool_call>\n{"name": "now"}\n</tool_call>').calls == [["now", "{}"]]


def test_a_call_whose_closing_marker_is_missing_still_counts(tokenizer: Tokenizer) -> None:
    written = OSLO.removesuffix("\n</tool_call>")
    assert read(tokenizer, written).ended == [0]
    assert read(tokenizer, written + "\nDone").text == "Done"
    assert len(read(tokenizer, f"{written}\n{OSLO}").ended) == 2


def test_a_call_that_the_length_cut_off_has_no_end(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, OSLO[: OSLO.index("lo")], reason="length")
    assert found.calls == [["get_weather", '{"city": "Os']]
    assert (found.ended, found.text) == ([], "")
    assert read(tokenizer, OSLO[:18], reason="length") == Collected()


BROKEN = [
    "<tool_call>\nnot JSON\n</tool_call>",
    '<tool_call>\n{"arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "note", "arguments": {"text": }}\n</tool_call>',
    '<tool_call>\n{"name": "note", "arguments": "text"}\n</tool_call>',
    '<tool_call>\n{"name": "note", "arguments": {"text": "a\n</tool_call>',
    '<tool_call>\n{"name": "note", "arguments": {"text": NaN}}\n</tool_call>',
    '<tool_call>\n{"name": 3, "arguments": {}}\n</tool_call>',
    "<tool_call>\n</tool_call>",
    "<tool_call>\n",
    "<tool_call>",
    call("evil", '{"a": 1}'),
]


def test_the_begin_of_a_forced_call_that_was_cut_is_not_text(plain: Tokenizer) -> None:
    forced = ToolChoice("required", AUTO.permitted, 1, 16)
    for end in range(1, len("<tool_call>")):
        cut = spelled(plain, "<tool_call>"[:end])
        assert read(plain, cut, forced, reason="length") == Collected()
        assert read(plain, cut, reason="length").text == "<tool_call>"[:end], "auto may have meant it as text"


@pytest.mark.parametrize("broken", BROKEN)
def test_an_unconstrained_call_that_is_broken_is_given_back_as_text(tokenizer: Tokenizer, broken: str) -> None:
    for chunks in ([1], [1000]):
        found = read(tokenizer, "So:\n" + broken, constrained=False, chunks=chunks)
        assert (found.text, found.calls) == ("So:\n" + broken, [])
        assert found.ids == tokenizer.encode("So:\n" + broken)[: len(found.ids)]


def test_an_unconstrained_call_comes_when_it_is_whole(tokenizer: Tokenizer) -> None:
    assert read(tokenizer, f"Hm {OSLO}\n{TIME}", constrained=False) == read(tokenizer, f"Hm {OSLO}\n{TIME}")
    cut = read(tokenizer, OSLO[: OSLO.index("lo")], reason="length", constrained=False)
    assert (cut.calls, cut.ended) == ([["get_weather", '{"city": "Os']], [])


@pytest.mark.parametrize("broken", BROKEN)
def test_a_constrained_call_that_is_broken_raises_nothing_and_is_never_counted(
    tokenizer: Tokenizer, broken: str
) -> None:
    parser = made(tokenizer)
    parser.feed(tokenizer.encode(broken))
    parser.finish("stop")
    assert (parser.calls, parser.finish_reason("stop")) == (0, "stop")


def test_a_call_after_a_broken_one_is_read(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, f'<tool_call>\n{{"name": }}\n</tool_call>\n{OSLO}', constrained=False)
    assert found.calls == [OSLO_READ]
    assert found.text == '<tool_call>\n{"name": }\n</tool_call>'


def test_a_tool_that_is_not_permitted_is_text(tokenizer: Tokenizer) -> None:
    only_now = ToolChoice("auto", ("now",), 0, 16)
    found = read(tokenizer, f"{OSLO}\n{TIME}", only_now)
    assert (found.text, found.calls) == (OSLO, [["now", "{}"]])


def test_without_permission_to_call_everything_is_text(tokenizer: Tokenizer) -> None:
    answer = f"Use {OSLO}\n as text "
    assert read(tokenizer, answer, NONE) == Collected(text=answer, order=["TextDelta"])


def test_a_marker_spelled_in_ordinary_tokens_is_text_where_it_is_a_token(marked: Tokenizer) -> None:
    assert read(marked, spelled(marked, OSLO)).text == OSLO


# ---------------------------------------------------------------- reasoning


def test_reasoning_comes_without_its_markers_and_the_newlines_around_them(marked: Tokenizer) -> None:
    found = read(marked, "<think>\nFirst.\n\nThen.\n</think>\n\nYes.\n" + OSLO)
    assert (found.reasoning, found.text, found.calls) == ("First.\n\nThen.", "Yes.", [OSLO_READ])


@pytest.mark.parametrize("close", ["\n</think>\n\n", "</think>"])
def test_reasoning_that_the_prompt_began_is_reasoning(tokenizer: Tokenizer, close: str) -> None:
    found = read(tokenizer, f"\nHm, <tool 3 < 4{close}Yes.", thinking_open=True)
    assert (found.reasoning, found.text) == ("Hm, <tool 3 < 4", "Yes.")


def test_reasoning_without_an_end_is_all_reasoning(tokenizer: Tokenizer) -> None:
    found = read(tokenizer, "Hm, </thi\n", thinking_open=True)
    assert (found.reasoning, found.text) == ("Hm, </thi", "")


def test_empty_reasoning_is_nothing(marked: Tokenizer) -> None:
    assert read(marked, "<think>\n\n</think>\n\nYes.") == Collected(text="Yes.", order=["TextDelta"])


def test_a_call_that_forgets_to_close_the_reasoning_is_read(marked: Tokenizer) -> None:
    found = read(marked, "<think>\nHm\n" + OSLO)
    assert (found.reasoning, found.calls) == ("Hm", [OSLO_READ])


# ---------------------------------------------------------------- openings and chunks


def test_after_an_opening_the_parser_stands_inside_the_call(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(OSLO)
    length = len(tokenizer.encode('<tool_call>\n{"name": "get_weather",'))
    parser = made(tokenizer)
    first = parser.open(ids[:length])
    assert first == [CallStarted(0, "get_weather", ())]
    rest = parser.feed(ids[length:])
    found = collect([*first, *rest])
    assert found.calls == [OSLO_READ]
    assert found.ids == ids[length:][: len(found.ids)]
    assert isinstance(rest[-1], CallEnded)


def test_a_whole_call_in_the_opening_is_complete_at_once(tokenizer: Tokenizer) -> None:
    parser = made(tokenizer)
    assert parser.open(tokenizer.encode(TIME)) == [CallStarted(0, "now"), ArgumentsDelta(0, "{}"), CallEnded(0)]
    assert parser.feed([tokenizer.eos_ids[0]]) == []
    assert parser.finish_reason("stop") == "tool_calls"


ANSWERS = [
    "Let me see 🐢.\n\n" + OSLO + "\n" + call("note", '{"text": "ÄÖ 日本 \\" } \\\\"}') + "\n",
    "<think>\nhm 日本\n</think>\n\nYes, ab STOP no",
    "a <tool_ca b <tool_call>broken </tool_call> STO " + TIME + " tail ",
    '<tool_call>\n{"name": "evil", "arguments": {}}\n</tool_call>\n' + OSLO + "}\nDone STOP",
    "<think>a</think><tool_call>{}</tool_call>" + OSLO[:40],
]


@settings(max_examples=150, deadline=None)
@given(
    answer=st.sampled_from(ANSWERS),
    chunks=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    constrained=st.booleans(),
    thinking_open=st.booleans(),
    reason=st.sampled_from(["stop", "length"]),
)
def test_how_the_ids_are_grouped_changes_nothing(
    tokenizer: Tokenizer,
    answer: str,
    chunks: list[int],
    constrained: bool,
    thinking_open: bool,
    reason: FinishReason,
) -> None:
    def with_chunks(sizes: list[int]) -> Collected:
        return read(
            tokenizer,
            answer,
            chunks=sizes,
            reason=reason,
            stop=("STOP",),
            constrained=constrained,
            thinking_open=thinking_open,
        )

    whole = with_chunks([10_000])
    assert with_chunks([1]) == whole
    assert with_chunks(chunks) == whole


@settings(max_examples=80, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "<think>", "</think>", "\n", OSLO, TIME, '{"name": "', '"', "}", "x", "🐢"]
        ),
        max_size=12,
    ),
    constrained=st.booleans(),
)
def test_no_sequence_of_markup_breaks_the_parser(tokenizer: Tokenizer, pieces: list[str], constrained: bool) -> None:
    ids = tokenizer.encode("".join(pieces))
    found = read(tokenizer, ids, constrained=constrained)
    assert found == read(tokenizer, ids, constrained=constrained, chunks=[10_000])
    assert found.ids == ids[: len(found.ids)]
    assert all(isinstance(json.loads(found.calls[n][1]), dict) for n in found.ended)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("constrained", [True, False])
def test_an_answer_that_is_resumed_from_the_ids_named_so_far_has_said_the_same(
    tokenizer: Tokenizer, answer: str, constrained: bool
) -> None:
    parser = made(tokenizer, stop=("STOP",), constrained=constrained)
    said: list[Delta] = []
    for token in tokenizer.encode(answer):
        said += parser.feed([token])
        again = made(tokenizer, stop=("STOP",), constrained=constrained)
        assert collect(again.feed(collect(said).ids)) == collect(said)
