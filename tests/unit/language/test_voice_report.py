from __future__ import annotations

from ringleader.language.prompt import voice
from ringleader.language.voice_report import VoiceReport, voice_report
from tests.unit.language.test_read_back import FOREIGN, JSON_TAGS, TOOLS, template
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING, tokenizer_with


def report(template: str | None, override: str | None = None, special: tuple[str, ...] = ()) -> VoiceReport:
    return voice_report(voice(tokenizer_with(special, template), 100, override))


def test_the_line_says_dialect_evidence_and_thinking() -> None:
    assert report(CHATML).line("tiny") == "tiny speaks json_tags (the template knows no tools), thinks: no"
    assert report(MENTIONS_THINKING).line("m").endswith("thinks: yes")
    assert report(template(JSON_TAGS)).line("m") == (
        "m speaks json_tags (the chat template has <tool_call>), thinks: no"
    )


def test_a_dialect_that_does_not_read_the_templates_calls_is_doubted() -> None:
    found = report(template(FOREIGN))
    assert found.reads_template is False
    assert found.line("m") == (
        "m speaks json_tags (nothing points to a family: the general form is used), "
        "but it does not read calls as the template writes them, thinks: no"
    )
    assert report(template(JSON_TAGS), "mistral").doubt


def test_a_general_form_is_doubted_where_the_template_has_tools_but_no_calls_to_compare_with() -> None:
    assert "although the template knows tools" in report(TOOLS + CHATML).line("m")
    assert report(CHATML).doubt == ""


def test_a_dialect_that_was_set_is_told_from_the_detected_one() -> None:
    found = report(CHATML, "mistral", ("[TOOL_CALLS]",))
    assert (found.dialect, found.detected, found.overridden) == ("mistral", "mistral", True)
    found = report(template(JSON_TAGS), "qwen_xml")
    assert (found.dialect, found.detected) == ("qwen_xml", "json_tags")
    assert found.line("m").startswith("m speaks qwen_xml (set by name), but it does not read")


def test_marks_have_their_ids_where_they_are_special_tokens() -> None:
    tokenizer = tokenizer_with(("<tool_call>",), template(JSON_TAGS))
    marks = {mark.text: (mark.role, mark.token) for mark in voice_report(voice(tokenizer, 100)).marks}
    assert marks == {
        "<tool_call>": ("begins calls", tokenizer.token_id("<tool_call>")),
        "</tool_call>": ("inside calls", None),
        "<think>": ("begins reasoning", None),
        "</think>": ("ends reasoning", None),
    }


def test_the_facts_of_the_template_and_the_ends_are_told() -> None:
    found = report(None)
    assert not found.has_template
    assert found.traits.system
    assert [text for _, text in found.ends] == ["<|im_end|>"]
    assert found.context_max == 100


def test_markers_that_frame_an_answer_are_listed_too() -> None:
    special = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", "<|constrain|>")
    roles = {mark.text: mark.role for mark in report(CHATML, special=special).marks}
    assert roles["<|channel|>"] == "frames parts"
    special = ("<|START_ACTION|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
    roles = {mark.text: mark.role for mark in report(CHATML, "command_r", special).marks}
    assert roles["<|END_RESPONSE|>"] == "around text"
