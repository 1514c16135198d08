from __future__ import annotations

import pytest

from ringleader.language.dialects.detect import detect
from ringleader.language.read_back import reads_back
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}"
CALLS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ THINKS }}{{ m.content }}"
    "{% for call in m.tool_calls or [] %}CALL{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{{ PROMPTS }}{% endif %}"
)
NAME, ARGUMENTS = "{{ call.function.name }}", "{{ call.function.arguments | tojson }}"
JSON_TAGS = f'<tool_call>\n{{"name": "{NAME}", "arguments": {ARGUMENTS}}}\n</tool_call>'
FOREIGN = f"<call-it>{NAME} with {ARGUMENTS}</call-it>"


def template(call: str, thinks: str = "''", prompts: str = "''") -> str:
    return TOOLS + CALLS.replace("CALL", call).replace("THINKS", thinks).replace("PROMPTS", prompts)


def read(template: str, override: str | None = None, special: tuple[str, ...] = ()) -> bool | None:
    tokenizer = tokenizer_with(special, template)
    return reads_back(tokenizer, detect(tokenizer, override).dialect)


@pytest.mark.parametrize("special", [(), ("<tool_call>", "</tool_call>")])
def test_a_right_dialect_reads_the_templates_own_call(special: tuple[str, ...]) -> None:
    assert read(template(JSON_TAGS), special=special) is True


def test_a_wrong_dialect_does_not() -> None:
    assert read(template(FOREIGN)) is False
    assert read(template(JSON_TAGS), "mistral") is False


def test_a_template_without_calls_says_nothing() -> None:
    assert read(CHATML) is None


@pytest.mark.parametrize(
    ("thinks", "prompts"),
    [
        ("''", "'<think>\\n'"),
        ("'<think>\\n\\n</think>\\n\\n' if m.role == 'assistant' else ''", "''"),
        ("'<think>\\n\\n</think>\\n\\n' if m.role == 'assistant' else ''", "'<think>\\n'"),
    ],
)
def test_reasoning_before_the_call_changes_nothing(thinks: str, prompts: str) -> None:
    for special in ((), ("<think>", "</think>", "<tool_call>", "</tool_call>")):
        assert read(template(JSON_TAGS, thinks, prompts), special=special) is True
