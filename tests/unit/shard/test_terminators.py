"""Ends of raw strings as grammars write them."""

from __future__ import annotations

from llguidance import LLMatcher

from ringleader.shard.terminators import LENGTH_MAX, TERMINATORS_MAX, terminators


def test_what_follows_any_text_in_a_regex_is_a_terminator() -> None:
    assert terminators("body[lazy]: /(?s:.*)\\n<\\/parameter>\\n/") == ("\n</parameter>\n",)
    assert terminators("body: /(.|\\n)*\\[\\/THINK\\]/ & ~/(?s:.*)x(?s:.+)/") == ("[/THINK]",)


def test_a_regex_without_such_an_end_has_none() -> None:
    assert terminators("GAP: /[ \\n]{1,4}/\nTEXT: /(?s:.*)/\nNUMBER: /\\d+/\nWORD: /abc/") == ()


def test_closing_literals_are_tried_after_the_ends_of_regexes() -> None:
    assert terminators('a: TEXT "</p>\\n" "plain"\nb[lazy]: /(?s:.*)<\\/b>/') == ("</b>", "</p>\n")


def test_grammars_are_read_in_llguidances_own_form_too() -> None:
    wrapped = LLMatcher.grammar_from_lark("start: body\nbody[lazy]: /(?s:.*)<\\/b>/")
    assert terminators(wrapped) == ("</b>",)
    assert terminators(LLMatcher.grammar_from_json_schema({"type": "object"})) == ()


def test_their_number_and_length_are_bounded() -> None:
    many = "\n".join(f"r{n}[lazy]: /(?s:.*)<\\/p{n}>/" for n in range(100))
    assert len(terminators(many)) == TERMINATORS_MAX
    assert terminators(f'a: "</{"x" * LENGTH_MAX}>"') == ()
