from __future__ import annotations

import pytest

from ringleader.language.dialects.glm import Gaps, glm, shown_gaps
from ringleader.language.prompt import compose, voice
from tests.unit.language.builders import NOTE, NOW, request
from tests.unit.language.dialects.families_glm import FAMILIES
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.dialects.test_families import accepts
from tests.unit.language.vocabulary import CHATML, tokenizer_with

SPECIAL = FAMILIES[0].special
HEAD = (
    "{% for m in messages %}{{ m.content }}{% for t in m.tool_calls or [] %}{{ SEP }}<tool_call>{{ t.function.name }}"
)
LINES = """
{% for k, v in t.function.arguments.items() %}
<arg_key>{{ k }}</arg_key>
<arg_value>{{ v }}</arg_value>
{% endfor %}
</tool_call>"""
ESCAPED = (
    "{{ '\\n' }}{% for k, v in t.function.arguments.items() %}{{ '<arg_key>' + k + '</arg_key>\\n<arg_value>' }}"
    "{{ v }}</arg_value>{% endfor %}{{ '\\n</tool_call>' }}"
)
ONE_LINE = (
    "{% for k, v in t.function.arguments.items() %}<arg_key>{{ k }}</arg_key><arg_value>{{ v }}</arg_value>"
    "{% endfor %}</tool_call>"
)
TAIL = "{% endfor %}{% endfor %}{{ tools }}"


@pytest.mark.parametrize(
    ("body", "between", "gaps"),
    [
        (LINES, "\\n", Gaps()),
        (ONE_LINE, "", Gaps("", "", "", "", "")),
        (ESCAPED, "\\n", Gaps("\n", "\n", "", "\n", "\n")),  # Ling: keys follow values at once
    ],
)
def test_the_newlines_are_those_that_the_template_writes(body: str, between: str, gaps: Gaps) -> None:
    tokenizer = tokenizer_with(SPECIAL, (HEAD + body + TAIL).replace("SEP", f"'{between}'"))
    assert shown_gaps(tokenizer, "") == gaps
    spoken = voice(tokenizer, 8192)
    assert spoken.dialect.name == "glm"
    text = (
        f"<tool_call>now{gaps.after_name}{gaps.before_close}</tool_call>{gaps.between}<tool_call>note{gaps.after_name}"
        f"{'' if gaps.after_name else gaps.before_key}<arg_key>text</arg_key>"
        f"{gaps.before_value}<arg_value>x\n</arg_value>{gaps.before_close}</tool_call>"
    )
    prompt = compose(spoken, request("required", (NOTE, NOW)))
    assert accepts(FAMILIES[0], prompt, tokenizer.encode(text))
    found = hear(spoken.dialect, tokenizer, text, (NOTE, NOW))
    assert found.calls == [["now", "{}"], ["note", '{"text": "x\\n"}']]


def test_a_template_that_shows_no_call_still_tells_by_its_words() -> None:
    assert (
        shown_gaps(tokenizer_with((), CHATML + "{# <arg_key>k</arg_key><arg_value>v</arg_value> #}"), "").between == ""
    )
    assert shown_gaps(tokenizer_with((), CHATML), "") == Gaps()


def test_whatever_newlines_a_model_writes_the_call_is_read() -> None:
    tokenizer = tokenizer_with(SPECIAL, CHATML)
    for gap in ("", "\n", "\n\n", " "):
        text = (
            f"<tool_call>{gap}note\n{gap}<arg_key>text</arg_key>{gap}<arg_value>a</arg_value>{gap}</tool_call>{gap}"
            f"<tool_call>now{gap}</tool_call>"
        )
        found = hear(glm(tokenizer), tokenizer, text, (NOTE, NOW))
        assert (found.text, found.calls) == ("", [["note", '{"text": "a"}'], ["now", "{}"]])


def test_a_line_may_be_empty_before_reasoning_whatever_is_asked() -> None:
    family = FAMILIES[0]
    for choice in ("auto", "none"):
        prompt = compose(family.voice, request(choice, (NOTE, NOW)))
        for text in ("\n<think>Hm.</think>\nHello.", "<think>Hm.</think>Hello.", "\nHello."):
            assert accepts(family, prompt, family.tokenizer.encode(text)), text
        found = hear(family.voice.dialect, family.tokenizer, "\n<think>Hm.</think>\nHello.", (NOTE, NOW), choice)
        assert (found.reasoning, found.text) == ("Hm.", "Hello.")
