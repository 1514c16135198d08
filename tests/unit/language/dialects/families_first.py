"""The first dialects under the suite: JSON tags, Qwen's XML, Mistral's three forms, harmony."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.unit.language.dialects.family import Call, Family, thought_in_tags, written
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING

TAGS = ("<tool_call>", "</tool_call>")
THINK = ("<think>", "</think>")


def _json_tags(calls: Sequence[Call]) -> str:
    return "\n".join(
        f'<tool_call>\n{{"name": "{name}", "arguments": {written(values)}}}\n</tool_call>' for name, values in calls
    )


def _qwen_xml(calls: Sequence[Call]) -> str:
    blocks = []
    for name, values in calls:
        lines = [f"<parameter={key}>\n{_raw(value)}\n</parameter>\n" for key, value in values.items()]
        blocks.append(f"<tool_call>\n<function={name}>\n{''.join(lines)}</function>\n</tool_call>")
    return "\n".join(blocks)


def _raw(value: object) -> str:
    return value if isinstance(value, str) else written(value)


def _mistral_array(calls: Sequence[Call]) -> str:
    return f"[TOOL_CALLS][{', '.join(written({'name': name, 'arguments': values}) for name, values in calls)}]"


def _mistral_named(calls: Sequence[Call]) -> str:
    return "".join(f"[TOOL_CALLS]{name}[ARGS]{written(values)}" for name, values in calls)


def _harmony(calls: Sequence[Call]) -> str:
    ((name, values),) = calls
    return f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{written(values)}"


def _harmony_in_role(calls: Sequence[Call]) -> str:
    ((name, values),) = calls
    return f" to=functions.{name}<|channel|>commentary json<|message|>{written(values)}"


def harmony_family(label: str, write: Callable[[Sequence[Call]], str], **more: Any) -> Family:
    return Family(
        label,
        "harmony",
        write,
        HARMONY,
        CHATML.replace("<|im_start|>assistant\\n", "<|start|>assistant"),
        thought=lambda text: f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant",
        said=lambda text: f"<|channel|>final<|message|>{text}",
        joined=lambda text, calls: f"<|channel|>commentary<|message|>{text}<|end|><|start|>assistant{calls}",
        many=False,
        endings=("<|end|>", "<|channel|>commentary"),
        **more,
    )


HARMONY = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>")
QWEN_XML = CHATML + "{# <function=example_function_name> <parameter=example> #}"

FAMILIES = [
    Family("json_tags", "json_tags", _json_tags, TAGS, CHATML + "{# <tool_call> #}", markup=(*TAGS, '{"name": "now"}')),
    Family("json_tags, thinking", "json_tags", _json_tags, (*TAGS, *THINK), MENTIONS_THINKING, thought=thought_in_tags),
    Family("json_tags, plain text", "json_tags", _json_tags, (), CHATML, markup=TAGS),
    Family("json_tags, plain text, thinking", "json_tags", _json_tags, (), MENTIONS_THINKING, thought=thought_in_tags),
    Family(
        "qwen_xml",
        "qwen_xml",
        _qwen_xml,
        TAGS,
        QWEN_XML,
        markup=(*TAGS, "</parameter> here\nand </function> too", "<parameter=a>", "<function=now>"),
        endings=("\n</parameter>\n",),
    ),
    Family(
        "qwen_xml, plain text, thinking",
        "qwen_xml",
        _qwen_xml,
        (),
        QWEN_XML + "{# </think> #}",
        thought=thought_in_tags,
        markup=(*TAGS, "</parameter>"),
        endings=("\n</parameter>\n", "</think>"),
    ),
    Family(
        "mistral array",
        "mistral",
        _mistral_array,
        ("[TOOL_CALLS]", "[ARGS]"),
        CHATML + "{# [TOOL_CALLS][ #}",
        markup=("[TOOL_CALLS]", '"}}]'),
    ),
    Family(
        "mistral array, plain text, spaced",
        "mistral",
        lambda calls: _mistral_array(calls).replace("[TOOL_CALLS]", "[TOOL_CALLS] "),
        (),
        CHATML + "{# [TOOL_CALLS] [ #}",
    ),
    Family(
        "mistral named",
        "mistral",
        _mistral_named,
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
        CHATML + "{# [TOOL_CALLS] [ARGS] #}",
        markup=("[TOOL_CALLS]now[ARGS]", "[CALL_ID]"),
    ),
    Family(
        "mistral named, call ids, thinking",
        "mistral",
        lambda calls: _mistral_named(calls).replace("[ARGS]", "[CALL_ID]abcDEF123[ARGS]"),
        ("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
        CHATML + "{# [TOOL_CALLS] [CALL_ID] [ARGS] [THINK] #}",
        thought=lambda text: f"[THINK]{text}[/THINK]",
        endings=("[/THINK]",),
    ),
    harmony_family("harmony", _harmony, ends=("<|return|>", "<|call|>"), markup=("<|call|>", "<|channel|>final")),
    harmony_family("harmony, recipient in role", _harmony_in_role, ends=("<|return|>", "<|call|>")),
    harmony_family("harmony, call is no end token", lambda calls: _harmony(calls) + "<|call|>", ends=("<|return|>",)),
]
