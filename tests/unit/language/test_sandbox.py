from __future__ import annotations

import datetime

import pytest

from ringleader.language.sandbox import TemplateFault, expand, variables


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ x | tojson }}", '{"b": "<ä>&\'", "a": [1, null, true]}'),
        ("{{ [1, 2] | tojson(indent=2) }}", "[\n  1,\n  2\n]"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% generation %}{{ x.a[0] }}{% endgeneration %}", "1"),
        ("{% set n = namespace(v=1) %}{% for i in [1, 2] %}{% set n.v = n.v + i %}{% endfor %}{{ n.v }}", "4"),
        ("{% set l = [1] %}{{ l.append(2) or l }}", "[1, 2]"),
        ("  {% if true %}\n  a\n  {% endif %}\n", "  a\n"),
        ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2025"),
        ("{% for key, value in x | items %}{{ key }}{% endfor %}", "ba"),
        ("{{ x.a | map('string') | tojson }}", '["1", "None", "True"]'),
        ("{{ unknown }}|{{ x.unknown is defined }}", "|False"),
    ],
)
def test_what_chat_templates_use_works(template: str, expected: str) -> None:
    x = {"b": "<ä>&'", "a": [1, None, True]}
    assert expand(template, {"x": x}, datetime.date(2025, 1, 2)) == expected


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% if %}", "Expected an expression"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ x.__init__.__globals__ }}", "unsafe"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ x.a.b.c }}", "has no attribute 'b'"),
        ("{{ 'a' * 1000000000 }}", "too long"),
        ("{{ 1000000000 * [1] }}", "too long"),
        ("{{ 9 ** 999999999 }}", "too large"),
        (
            "{% for i in range(99999) %}{% for j in range(999) %}{{ 'aaaaaaaaaa' }}{% endfor %}{% endfor %}",
            "writes more",
        ),
        ("{% for i in range(10000000) %}{% endfor %}", "Range too big"),
        ("{{ x | tojson }}{{ unknown | tojson }}", "not JSON serializable"),
    ],
)
def test_a_template_that_fails_or_would_do_harm_is_a_fault_with_its_reason(template: str, reason: str) -> None:
    with pytest.raises(TemplateFault, match=reason):
        expand(template, {"x": {"a": 1}})


def test_without_a_date_there_is_no_clock() -> None:
    assert expand("{{ strftime_now is defined }}", {}) == "False"


def test_a_template_tells_what_it_takes_from_outside() -> None:
    assert variables("{% set own = 1 %}{{ own + functions }}{% for m in messages %}{{ m }}{% endfor %}") == {
        "functions",
        "messages",
    }
    assert variables("{% if %}") == frozenset()
