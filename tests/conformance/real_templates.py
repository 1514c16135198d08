"""Chat templates of real models, where they lie beside the project, and what is expected of each.

The table names the dialect that must be found, so that a wrong guess is seen. `special` are markers that the model's
own vocabulary has as single tokens and that `MARKERS` does not find in its template.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ringleader.tokenizer import Tokenizer
from tests.unit.language.vocabulary import tokenizer_with

VARIABLE = "RINGLEADER_TEMPLATES"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "templates"
MARKERS = re.compile(r"<\|[^|<>\s{}]{2,40}\|?>|<[a-z_]{2,20}\|>|<｜[^｜<>\s{}]{2,40}｜>|\[/?[A-Z][A-Z_]{2,20}\]")
TAGS = ("<tool_call>", "</tool_call>")
THINK = ("<think>", "</think>")
GLM = (*TAGS, *THINK, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
LLAMA = ("<|eot_id|>", "<|eom_id|>")
HARMONY = ("<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>")
DSML = ("</｜DSML｜tool_calls>",)
INDENTED = "the template indents the arguments of a call, which no grammar of ours does"
IDS = "the template writes an id into each call, models write none"
HY3_TAGS = ("tool_calls", "tool_call", "tool_sep", "arg_key", "arg_value", "think")
HY3 = tuple(f"<{slash}{tag}:opensource>" for tag in HY3_TAGS for slash in ("", "/"))
GEMMA_4 = ('<|"|>',)


@dataclass(frozen=True)
class Expected:
    """`reads`: a call as the template writes it is read; None where it writes none. `untaken` says why answers
    may not be written just as the template writes calls; `most` is how many in one turn it writes rightly."""

    dialect: str
    special: tuple[str, ...] = ()
    reads: bool | None = True
    ends: tuple[str, ...] = ("<|im_end|>",)
    endings: tuple[str, ...] = ()  # for random walks
    untaken: str = ""
    most: int = 16


GENERAL = Expected("json_tags", reads=None)

TABLE: Mapping[str, Expected] = {
    "Apertus-8B-Instruct": Expected("apertus"),
    "Apriel-1.6-15b-Thinker-fixed": Expected("apriel", untaken=IDS),
    "Bielik-11B-v3.0-Instruct": Expected("json_tags", (*TAGS, *THINK)),
    "Cohere2MoE": Expected("command_r"),
    "CohereForAI-c4ai-command-r-plus-tool_use": Expected("command_r_plus", untaken=INDENTED),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": Expected("command_r"),
    "GLM-4.6": Expected("glm", GLM),
    "GigaChat3-10B-A1.8B": Expected("gigachat"),
    "GigaChat3.1-10B-A1.8B": Expected("gigachat"),
    "Kimi-K2-Instruct": Expected("kimi_k2"),
    "Kimi-K2-Thinking": Expected("kimi_k2", THINK),
    "LFM2-8B-A1B": Expected("lfm2", ("<|tool_call_start|>", "<|tool_call_end|>"), reads=None),
    "LFM2.5-8B-A1B": Expected("lfm2", THINK),
    "MiMo-VL": Expected("json_tags", TAGS),
    "MiniMax-M1": Expected("minimax_m1"),
    "MiniMax-M2": Expected("minimax_m2", ("<minimax:tool_call>", "</minimax:tool_call>", *THINK)),
    "Mistral-Small-3.2-24B-Instruct-2506": Expected("mistral"),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Expected("qwen_xml", (*TAGS, *THINK)),
    "NVIDIA-Nemotron-Nano-v2": Expected("nemotron"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": Expected("json_tags"),
    "Qwen-QwQ-32B": Expected("json_tags", (*TAGS, *THINK)),
    "Qwen-Qwen2.5-7B-Instruct": Expected("json_tags", TAGS),
    "Qwen-Qwen3-0.6B": Expected("json_tags", (*TAGS, *THINK)),
    "Qwen3-Coder": Expected("qwen_xml", TAGS),
    "Reka-Edge": Expected("json_tags", (*TAGS, *THINK)),
    "Spark2.5": Expected("glm", GLM),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": Expected("deepseek_v3", THINK, most=2),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": Expected("deepseek_v3", THINK),
    "deepseek-ai-DeepSeek-V3.1": Expected("deepseek_v31", THINK),
    "deepseek-ai-DeepSeek-V4": Expected("deepseek_dsml", (*THINK, "｜DSML｜"), endings=DSML),
    "deepseek-ai-DeepSeek-V4-Flash-0731": Expected("deepseek_dsml", (*THINK, "｜DSML｜"), endings=DSML),
    "fireworks-ai-llama-3-firefunction-v2": Expected("phi4_mini", LLAMA),
    "google-gemma-2-2b-it": GENERAL,
    "google-gemma-4-31B-it": Expected("gemma4", GEMMA_4),
    "google-gemma-4-31B-it-interleaved": Expected("gemma4", GEMMA_4),
    "ibm-granite-granite-3.3-2B-Instruct": Expected("granite", reads=None),
    "ibm-granite-granite-4.1": Expected("json_tags", TAGS),
    "inclusionai-ling-3.0-flash": Expected("glm", GLM),
    "llama-cpp-deepseek-r1": Expected("deepseek_v3", THINK),
    "llama-cpp-rwkv-world": GENERAL,
    "meetkai-functionary-medium-v3.1": Expected("functionary", LLAMA),
    "meetkai-functionary-medium-v3.2": Expected("functionary_v32", LLAMA),
    "meta-llama-Llama-3.1-8B-Instruct": Expected("llama_json", LLAMA, ends=LLAMA),
    "meta-llama-Llama-3.2-3B-Instruct": Expected("llama_json", LLAMA, ends=LLAMA),
    "microsoft-Phi-3.5-mini-instruct": GENERAL,
    "mistralai-Mistral-Nemo-Instruct-2407": Expected("mistral", untaken=IDS),
    "moonshotai-Kimi-K2": Expected("kimi_k2"),
    "muse-glimmer": Expected("muse", ("<atem:function_calls>", "</atem:function_calls>")),
    "openai-gpt-oss-120b": Expected("harmony", HARMONY, ends=("<|return|>", "<|call|>")),
    "poolside-Laguna-S-2.1": Expected("glm", GLM),
    "poolside-Laguna-XS-2.1": Expected("glm", GLM),
    "poolside-Laguna-XS.2": Expected("glm", GLM),
    "tencent-Hy3": Expected("hy3", HY3),
    "unsloth-Apriel-1.5": Expected("apriel", untaken=IDS),
    "unsloth-mistral-Devstral-Small-2507": Expected("mistral"),
}


def folder() -> Path:
    """Where the templates should lie."""
    return Path(os.environ.get(VARIABLE) or BESIDE)


def templates() -> list[Path]:
    """Those that are there."""
    return sorted(folder().glob("*.jinja"))


def tokenizer_of(file: Path) -> Tokenizer:
    """A small vocabulary with the markers of this template."""
    text, row = file.read_text(encoding="utf-8"), TABLE[file.stem]
    special = [marker for marker in dict.fromkeys(MARKERS.findall(text)) if marker not in {"[IMG]", "<|...|>"}]
    return tokenizer_with((*special, *row.special), text, row.ends)
