"""An agents' load: several at once, one long system prompt and its tools for all, turn after turn of forced calls.

What is told: how soon turns begin, tokens a second over all, passes a token. mlx_lm has nothing that could take part:
it forces no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import Conditions
from ringleader.bench.load import Subject, subject
from ringleader.bench.report import Findings, Line
from ringleader.bench.ring import BenchRing, Run, open_ring
from ringleader.language.prompt import Prompt, Voice, compose, voice
from ringleader.values import ChatRequest, Message, ModelId, Sampling, SlotSpec, Tool, ToolCall

AGENTS, TURNS = 4, 4
ANSWER_MAX = 96
PATH = {"type": "string", "maxLength": 40, "description": "A file below the project"}
TOOLS = (
    Tool("read_file", "Read one file.", {"type": "object", "properties": {"path": PATH}, "required": ["path"]}),
    Tool(
        "replace_text",
        "Put one text in the place of another in a file.",
        {
            "type": "object",
            "properties": {"path": PATH, "old": {"type": "string", "maxLength": 60}, "new": {"type": "string"}},
            "required": ["path", "old", "new"],
        },
    ),
    Tool("run_tests", "Run the tests.", {"type": "object", "properties": {"only": PATH}}),
)
RULES = " ".join(
    f"Rule {number}: before you change file {number}, read it, change as little as can be, and run its tests."
    for number in range(1, 41)
)
RESULT = (
    "def total(prices, rate):\n    result = 0.0\n    for price in prices:\n        result += price\n    return result\n"
)


@dataclass(slots=True)
class Agent:
    """One conversation, and what its turns took."""

    number: int
    messages: list[Message]
    runs: list[Run] = field(default_factory=list)

    async def play(self, ring: BenchRing, about: Subject, speaks: Voice) -> None:
        """All turns: a forced call each, then the tool's result."""
        for turn in range(TURNS):
            tool = TOOLS[turn % len(TOOLS)].name
            prompt = compose(speaks, self._request(about.costs.model, tool))
            run = await ring.ask(prompt.ids, _spec(prompt))
            self.runs.append(run)
            call = ToolCall(f"call_{turn}", tool, '{"path": "prices.py"}')
            self.messages += [
                Message("assistant", None, tool_calls=(call,)),
                Message("tool", f"{RESULT}# {self.number}.{turn}", tool_call_id=call.id),
            ]

    def _request(self, model: ModelId, tool: str) -> ChatRequest:
        return ChatRequest(
            model=model,
            messages=tuple(self.messages),
            sampling=Sampling(seed=self.number, temperature=0.0),
            tools=TOOLS,
            tool_choice={"type": "function", "function": {"name": tool}},
        )


async def measure_mixed(
    directory: Path, model: ModelId, under: Conditions, shards: int, say: Callable[[str], None]
) -> Findings:
    """All agents at once, once. Raises ModelFault and PeerFault with what went wrong."""
    about = subject(directory, model)
    speaks = voice(about.tokenizer, about.costs.context_max)
    agents = [
        Agent(number, [Message("system", RULES), Message("user", f"Mend prices.py, part {number}.")])
        for number in range(AGENTS)
    ]
    say(f"starting a ring of {shards}: {AGENTS} agents, {TURNS} turns each")
    async with open_ring(directory, about.costs.layers, shards, under=under) as ring:
        await asyncio.gather(*(agent.play(ring, about, speaks) for agent in agents))
    return findings(agents)


def findings(agents: list[Agent]) -> Findings:
    """What all turns of all agents amount to."""
    runs = [run for agent in agents for run in agent.runs]
    first = median(agent.runs[0].first_s for agent in agents)
    later = median(run.first_s for agent in agents for run in agent.runs[1:])
    begin = min(run.started_s for run in runs)
    end = max(run.started_s + run.wall_s for run in runs)
    tokens = sum(len(run.tokens) for run in runs)
    passes = sum(run.passes for run in runs) / tokens
    cached = sum(run.cached_tokens for run in runs)
    rows = (
        Line("first turns, to the first token", f"{first:.2f} s"),
        Line("later turns", f"{later:.2f} s"),
        Line("tokens a second over all", f"{tokens / (end - begin):.1f}"),
        Line("passes a token, prompts counted", f"{passes:.2f}"),
        Line("prompt tokens that were kept", str(cached)),
    )
    return Findings(
        rows,
        {
            "first_turn_s": round(first, 3),
            "later_turn_s": round(later, 3),
            "tok_s": round(tokens / (end - begin), 2),
            "passes_per_token": round(passes, 4),
            "cached_tokens": cached,
            "tokens": tokens,
            "wall_s": round(end - begin, 2),
        },
    )


def _spec(prompt: Prompt) -> SlotSpec:
    return SlotSpec(
        sampling=Sampling(seed=0, temperature=0.0),
        max_tokens=ANSWER_MAX,
        prompt_tokens=len(prompt.ids),
        opening_tokens=len(prompt.opening),
        grammar=prompt.grammar or "",
        demanded=prompt.demanded,
    )
