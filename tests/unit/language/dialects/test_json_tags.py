from __future__ import annotations

import json

import pytest

from ringleader.language.dialects.json_tags import json_tags
from ringleader.tokenizer import Tokenizer
from tests.unit.language.vocabulary import CHATML, tokenizer_with


def expects(tokenizer: Tokenizer) -> bool:
    thinking = json_tags(tokenizer).thinking
    return thinking is not None and thinking.expected


def test_markers_are_tokens_only_where_the_vocabulary_has_them_whole(marked: Tokenizer, plain: Tokenizer) -> None:
    assert json_tags(marked).opens[0].marker.token == marked.token_id("<tool_call>")
    assert json_tags(plain).opens[0].marker.token is None
    assert json_tags(plain).opens[0].marker.lark == '"<tool_call>"'


def test_a_model_reasons_if_its_template_speaks_of_it(marked: Tokenizer, plain: Tokenizer, thinking: Tokenizer) -> None:
    assert expects(marked)
    assert expects(thinking)
    assert not expects(plain)


@pytest.mark.parametrize(("gap", "between"), [("\n", "\n"), ("", ""), ("\n", ""), ("", "\n\n")])
def test_the_whitespace_around_calls_is_the_templates(gap: str, between: str) -> None:
    inner = '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}'
    template = (
        "{% for m in messages %}{{ m.content }}{% for call in m.tool_calls or [] %}{% if not loop.first %}"
        f"BETWEEN{{% endif %}}<tool_call>GAP{inner}GAP</tool_call>{{% endfor %}}{{% endfor %}}"
    )
    template = template.replace("GAP", f"{{{{ {json.dumps(gap)} }}}}").replace(
        "BETWEEN", f"{{{{ {json.dumps(between)} }}}}"
    )
    dialect = json_tags(tokenizer_with((), template))
    assert (dialect.gap, dialect.between) == (gap, between)
    assert json_tags(tokenizer_with((), CHATML)).gap == "\n"
