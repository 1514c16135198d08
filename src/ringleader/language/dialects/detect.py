"""Which dialect a model speaks, found from its chat template and vocabulary in an ordered table of evidence.

A wrong guess must be visible: what was found comes with the words that say by what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ringleader.errors import ModelUnsupported
from ringleader.language.dialects.apertus import apertus
from ringleader.language.dialects.array_tags import apriel, command_r_plus, nemotron
from ringleader.language.dialects.command_r import command_r
from ringleader.language.dialects.deepseek import deepseek_v3, deepseek_v31
from ringleader.language.dialects.deepseek_dsml import deepseek_dsml, dsml_template
from ringleader.language.dialects.default_templates import KIMI_K3
from ringleader.language.dialects.dialect import Dialect
from ringleader.language.dialects.functionary import functionary
from ringleader.language.dialects.functionary_v32 import functionary_v32
from ringleader.language.dialects.gemma import function_gemma, gemma4
from ringleader.language.dialects.gigachat import gigachat
from ringleader.language.dialects.glm import glm
from ringleader.language.dialects.harmony import harmony
from ringleader.language.dialects.hy3 import hy3
from ringleader.language.dialects.json_array import granite, phi4_mini
from ringleader.language.dialects.json_tags import json_tags
from ringleader.language.dialects.kimi_k2 import kimi_k2
from ringleader.language.dialects.kimi_k3 import kimi_k3
from ringleader.language.dialects.llama_json import llama_json
from ringleader.language.dialects.longcat import longcat
from ringleader.language.dialects.minicpm5 import minicpm5
from ringleader.language.dialects.minimax_m1 import minimax_m1
from ringleader.language.dialects.minimax_m2 import minimax_m2
from ringleader.language.dialects.minimax_m3 import minimax_m3
from ringleader.language.dialects.mistral import mistral
from ringleader.language.dialects.muse import muse
from ringleader.language.dialects.pythonic import lfm2, olmo3, pythonic
from ringleader.language.dialects.qwen_xml import qwen_xml
from ringleader.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Detected:
    """A dialect, and in words how it and its reasoning were found. `template` is a chat template of ours, for a model
    that has none."""

    dialect: Dialect
    how: str
    thinking_how: str
    template: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table: `evidence` gives the words that say what was found, or "" for nothing. `template` makes
    the chat template for models of the family that have none."""

    name: str
    make: Callable[[Tokenizer], Dialect]
    evidence: Callable[[Tokenizer], str]
    template: Callable[[Tokenizer], str] | None = None


def template_has(*texts: str) -> Callable[[Tokenizer], str]:
    """Evidence: the chat template contains all of `texts`."""

    def evidence(tokenizer: Tokenizer) -> str:
        template = tokenizer.chat_template or ""
        return f"the chat template has {' and '.join(texts)}" if all(text in template for text in texts) else ""

    return evidence


def vocabulary_has(*tokens: str) -> Callable[[Tokenizer], str]:
    """Evidence: each of `tokens` is a special token."""

    def evidence(tokenizer: Tokenizer) -> str:
        ids = [tokenizer.token_id(text) for text in tokens]
        found = all(id_ is not None and tokenizer.is_special(id_) for id_ in ids)
        return f"the vocabulary has {' and '.join(tokens)}" if found else ""

    return evidence


# The first entry with evidence counts, so a form that contains another's marks stands before it.
TABLE: tuple[Entry, ...] = (
    Entry("harmony", harmony, vocabulary_has("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>")),
    Entry("mistral", mistral, template_has("[TOOL_CALLS]")),
    Entry("mistral", mistral, vocabulary_has("[TOOL_CALLS]")),
    Entry("muse", muse, template_has("<atem:function_calls>")),
    Entry("hy3", hy3, template_has("<tool_sep", "arg_key")),
    Entry("hy3", hy3, vocabulary_has("<tool_sep:opensource>")),
    Entry("glm", glm, template_has("<arg_key>", "<arg_value>")),
    Entry("deepseek_dsml", deepseek_dsml, template_has("｜DSML｜")),
    Entry("deepseek_v3", deepseek_v3, template_has("<｜tool▁sep｜>", "```json")),
    Entry("deepseek_v31", deepseek_v31, template_has("<｜tool▁sep｜>")),
    Entry("kimi_k3", kimi_k3, vocabulary_has("<|open|>", "<|close|>", "<|sep|>"), template=lambda _: KIMI_K3),
    Entry("kimi_k2", kimi_k2, template_has("<|tool_calls_section_begin|>")),
    Entry("minimax_m3", minimax_m3, template_has("]<]minimax[>[")),
    Entry("minimax_m3", minimax_m3, vocabulary_has("]<]minimax[>[")),
    Entry("minimax_m2", minimax_m2, template_has("<minimax:tool_call>")),
    Entry("longcat", longcat, template_has("<longcat_tool_call>")),
    Entry("minimax_m1", minimax_m1, template_has("<tool_calls>", '{"name": <tool-name>')),
    Entry("apriel", apriel, template_has("<tool_calls>[")),
    Entry("nemotron", nemotron, template_has("<TOOLCALL>")),
    Entry("apertus", apertus, template_has("<|tools_prefix|>")),
    Entry("gigachat", gigachat, template_has("<|role_sep|>", "<|message_sep|>")),
    Entry("minicpm5", minicpm5, template_has('<function name="', '<param name="')),
    Entry("functionary_v32", functionary_v32, template_has(">>>${recipient}")),
    Entry("functionary", functionary, template_has("<function=example_function_name>{")),
    Entry("qwen_xml", qwen_xml, template_has("<function=", "<parameter=")),
    Entry("llama_json", llama_json, template_has('{"name": function name, "parameters"')),
    Entry("gemma4", gemma4, template_has("<|tool_call>call:")),
    Entry("gemma4", gemma4, vocabulary_has("<|tool_call>", "<tool_call|>")),
    Entry("function_gemma", function_gemma, template_has("<start_function_call>call:")),
    Entry("function_gemma", function_gemma, vocabulary_has("<start_function_call>", "<end_function_call>")),
    Entry("lfm2", lfm2, template_has("<|tool_call_start|>")),
    Entry("lfm2", lfm2, template_has("<|tool_list_start|>")),
    Entry("lfm2", lfm2, vocabulary_has("<|tool_call_start|>", "<|tool_call_end|>")),
    Entry("olmo3", olmo3, template_has("<function_calls>", "</function_calls>", "<functions>")),
    Entry("pythonic", pythonic, template_has("[func_name1(params_name1=params_value1")),
    Entry("command_r", command_r, template_has("<|START_ACTION|>")),
    Entry("command_r_plus", command_r_plus, template_has("Action:", '"tool_name"')),
    Entry("granite", granite, template_has("<|tool_call|>", "<|start_of_role|>")),
    Entry("phi4_mini", phi4_mini, template_has("<|tool|>", "<|/tool|>")),
    Entry("phi4_mini", phi4_mini, template_has("functools[")),
    Entry("json_tags", json_tags, template_has("<tool_call>")),
    Entry("phi4_mini", phi4_mini, vocabulary_has("<|tool_call|>", "<|/tool_call|>")),
    Entry("deepseek_dsml", deepseek_dsml, vocabulary_has("｜DSML｜"), template=dsml_template),
    Entry("deepseek_v31", deepseek_v31, vocabulary_has("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>")),
)


UNPROVEN = "nothing points to a family: the general form is used"


def require_dialect(name: str) -> Entry:
    """The line of the table that makes the dialect of this name.

    Raises:
        ModelUnsupported: there is none; the message lists all.
    """
    entry = next((entry for entry in TABLE if entry.name == name), None)
    if entry is None:
        known = ", ".join(dict.fromkeys(entry.name for entry in TABLE))
        raise ModelUnsupported(f"no dialect is named '{name}'; there are {known}.")
    return entry


def detect(tokenizer: Tokenizer, override: str | None = None) -> Detected:
    """The dialect of this vocabulary and template, or the one that `override` names.

    Raises:
        ModelUnsupported: no dialect is named so.
    """
    if override is not None:
        require_dialect(override)
        named = sorted((entry for entry in TABLE if entry.name == override), key=lambda entry: entry.template is None)
        return _made(named[0], tokenizer, "it was set by name")
    for entry in TABLE:
        if evidence := entry.evidence(tokenizer):
            return _made(entry, tokenizer, evidence)
    return _found(json_tags(tokenizer), UNPROVEN)


def _made(entry: Entry, tokenizer: Tokenizer, how: str) -> Detected:
    if tokenizer.chat_template is not None or entry.template is None:
        return _found(entry.make(tokenizer), how)
    template = entry.template(tokenizer)
    found = _found(entry.make(tokenizer.with_template(template)), f"{how}; its chat template is ours: it has none")
    return replace(found, template=template)


def _found(dialect: Dialect, how: str) -> Detected:
    thinking = dialect.thinking
    if dialect.frames({}) is not None:
        return Detected(dialect, how, "reasoning comes in frames of its own")
    if thinking is None:
        return Detected(dialect, how, "the family frames no reasoning")
    marks = f"{thinking.open.text}...{thinking.close.text}"
    expected = f"{marks}: the chat template speaks of it" if thinking.expected else f"{marks}, but none is expected"
    return Detected(dialect, how, expected)
