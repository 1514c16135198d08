"""The templates of ours: a model without one gets it, and it shows all that a conversation may hold."""

from __future__ import annotations

import pytest

from ringleader.language.dialects.default_templates import DEEPSEEK_V4, DEEPSEEK_V32, KIMI_K3
from ringleader.language.dialects.detect import detect
from ringleader.language.prompt import Voice, compose, voice
from ringleader.language.read_back import TOOL, reads_back
from ringleader.language.template import render
from ringleader.language.voice_report import voice_report
from ringleader.values import ChatRequest, Message, ModelId, Sampling, ToolCall
from tests.unit.language.vocabulary import CHATML, tokenizer_with

K3 = ("<|open|>", "<|close|>", "<|sep|>")
V32 = ("｜DSML｜", "<think>", "</think>")
V4 = (*V32, "<｜latest_reminder｜>")
FAMILIES = [(K3, "kimi_k3", KIMI_K3), (V32, "deepseek_dsml", DEEPSEEK_V32), (V4, "deepseek_dsml", DEEPSEEK_V4)]

CALLS = (
    ToolCall("c1", "get_weather", '{"city": "New \\"York\\"", "days": 3}'),
    ToolCall("c2", "get_weather", "{}"),
)
TALK = (
    Message("system", "Be good."),
    Message("user", "First."),
    Message("assistant", "Said.", reasoning="long ago"),
    Message("user", "How is it?"),
    Message("assistant", "Let me see.", tool_calls=CALLS, reasoning="a thought"),
    Message("tool", "sun", tool_call_id="c2"),
    Message("tool", "rain", tool_call_id="c1"),
)


def shown(speaker: Voice, messages: tuple[Message, ...], *, tools: bool = True) -> str:
    return render(
        speaker.tokenizer.chat_template,
        messages,
        (TOOL,) if tools else (),
        bos_token="<B>",
        eos_token="<E>",
        history=speaker.dialect.history,
    )


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_a_family_without_a_template_gets_ours_and_says_so(special: tuple[str, ...], name: str, template: str) -> None:
    speaker = voice(tokenizer_with(special, None), 4096)
    assert (speaker.dialect.name, speaker.tokenizer.chat_template) == (name, template)
    assert "ours" in speaker.dialect_how
    report = voice_report(speaker)
    assert (report.has_template, report.template_ours) == (False, True)
    assert "ours" in report.line("m")
    assert report.doubt == ""


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_a_template_of_the_model_stays(special: tuple[str, ...], name: str, template: str) -> None:
    assert detect(tokenizer_with(special, CHATML)).template is None
    assert voice(tokenizer_with(special, CHATML), 4096).tokenizer.chat_template == CHATML


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_a_family_named_by_hand_gets_ours_too(special: tuple[str, ...], name: str, template: str) -> None:
    assert voice(tokenizer_with(special, None), 4096, name).tokenizer.chat_template == template


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_what_ours_writes_is_what_the_dialect_reads(special: tuple[str, ...], name: str, template: str) -> None:
    speaker = voice(tokenizer_with(special, None), 4096)
    assert reads_back(speaker.tokenizer, speaker.dialect)


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_ours_shows_all_of_a_conversation(special: tuple[str, ...], name: str, template: str) -> None:
    speaker = voice(tokenizer_with(special, None), 4096)
    text = shown(speaker, TALK)
    for words in (
        "Be good.",
        "First.",
        "Said.",
        "How is it?",
        "Let me see.",
        'New "York"',
        "get_weather",
        "The weather.",
    ):
        assert words in text
    assert text.index("rain") < text.index("sun"), "results are in the order of their calls"
    traits = voice_report(speaker).traits
    assert all((traits.system, traits.tools, traits.calls, traits.many_calls, traits.any_id, traits.call_text))


def test_deepseek_v32_is_shown_its_reasoning_since_the_last_question_alone() -> None:
    speaker = voice(tokenizer_with(V32, None), 4096)
    text = shown(speaker, TALK)
    assert (
        "<｜User｜>How is it?<｜Assistant｜><think>a thought</think>Let me see.\n\n<｜DSML｜function_calls>\n" in text
    )
    assert "<｜User｜>First.<｜Assistant｜></think>Said.<E>" in text
    assert text.endswith(
        "<function_results>\n<result>rain</result>\n<result>sun</result>\n</function_results>\n\n<think>"
    )
    later = shown(speaker, (*TALK, Message("assistant", "Rain."), Message("user", "Thanks.")))
    assert "a thought" not in later
    assert later.endswith("</function_results>\n\n</think>Rain.<E><｜User｜>Thanks.<｜Assistant｜><think>")


def test_deepseek_v4_gives_results_in_one_turn_of_the_user() -> None:
    text = shown(voice(tokenizer_with(V4, None), 4096), TALK)
    results = "<｜User｜><tool_result>rain</tool_result>\n\n<tool_result>sun</tool_result><｜Assistant｜></think>"
    assert text.endswith("</｜DSML｜tool_calls><E>" + results)


def test_kimi_k3_names_the_type_of_each_argument_and_numbers_calls_and_results() -> None:
    text = shown(voice(tokenizer_with(K3, None), 4096), TALK)
    assert '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>' in text
    assert '<|open|>argument key="city" type="string"<|sep|>New "York"<|close|>argument<|sep|>' in text
    assert '<|open|>call tool="get_weather" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>' in text
    assert '<|open|>message role="tool" tool="get_weather" index="2"<|sep|>sun<|close|>message<|sep|>' in text
    assert text.endswith('<|open|>message role="assistant"<|sep|><|open|>think<|sep|>')


@pytest.mark.parametrize(("special", "name", "template"), FAMILIES)
def test_a_forced_call_is_composed_on_it(special: tuple[str, ...], name: str, template: str) -> None:
    speaker = voice(tokenizer_with(special, None), 4096)
    request = ChatRequest(
        model=ModelId("m"), messages=TALK[:2], sampling=Sampling(seed=0), tools=(TOOL,), tool_choice="required"
    )
    prompt = compose(speaker, request)
    assert prompt.grammar
    assert prompt.thinking_open == (template != DEEPSEEK_V4)
