"""What a forced tool call of three texts costs: passes a token, and time against sampling every token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import AS_IT_IS, Conditions
from ringleader.bench.ratios import paired_ratio, turns
from ringleader.bench.report import Flat, Line
from ringleader.bench.ring import BenchRing, Run, open_ring
from ringleader.language.prompt import Prompt, compose, voice
from ringleader.models.headers import read_costs
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ChatRequest, Message, ModelId, Sampling, SlotSpec, Tool

SHARDS = 2
QUESTION = "What is your name?"  # no one answers that with the weather, unless made to
WEATHER = Tool(
    name="get_weather",
    description="The weather forecast of a city.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
TRIP = Tool(
    name="book_train",
    description="Book a seat on a train.",
    parameters={
        "type": "object",
        "properties": {
            name: {"type": "string", "maxLength": 16, "description": said}
            for name, said in (
                ("departure_station", "Where the journey begins"),
                ("arrival_station", "Where the journey ends"),
                ("passenger_name", "Who travels"),
            )
        },
        "required": ["departure_station", "arrival_station", "passenger_name"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class ForcedCallResult:
    """One call, greedy. `answer` is its text after the opening; walls are medians in seconds."""

    answer: str
    passes: int
    output_tokens: int
    forced_tokens: int
    passes_per_token: float
    wall_s: float
    wall_without_s: float
    speedup: float
    same_tokens: bool  # with and without forced followers, as it must be

    def lines(self) -> list[Line]:
        """For the table."""
        return [
            Line("output tokens", f"{self.output_tokens} ({self.forced_tokens} forced)"),
            Line("passes round the ring", str(self.passes)),
            Line("passes / output tokens", f"{self.passes_per_token:.3f}"),
            Line("time with forced followers", f"{self.wall_s:.3f} s"),
            Line("time without", f"{self.wall_without_s:.3f} s"),
            Line("speedup", f"{self.speedup:.2f} times"),
            Line("same tokens both ways", "yes" if self.same_tokens else "NO", "", self.same_tokens),
        ]

    def flat(self) -> Flat:
        """For --json."""
        return {
            "passes_per_token": round(self.passes_per_token, 4),
            "speedup": round(self.speedup, 3),
            "passes": self.passes,
            "output_tokens": self.output_tokens,
            "forced_tokens": self.forced_tokens,
            "wall_s": round(self.wall_s, 4),
            "wall_without_followers_s": round(self.wall_without_s, 4),
            "same_tokens": self.same_tokens,
            "answer": self.answer,
        }


@dataclass(slots=True)
class Way:
    """One way to answer: with or without forced followers."""

    spec: SlotSpec
    runs: list[Run] = field(default_factory=list)

    @property
    def walls(self) -> list[float]:
        return [run.wall_s for run in self.runs]


def demo_request(model: ModelId, tool: Tool = WEATHER) -> ChatRequest:
    """The call that `ringleader demo` forces, or another tool's."""
    return ChatRequest(
        model=model,
        messages=(Message("user", QUESTION),),
        sampling=Sampling(seed=0, temperature=0.0),
        tools=(tool,),
        tool_choice={"type": "function", "function": {"name": tool.name}},
    )


async def measure_forced_call(
    directory: Path,
    model: ModelId,
    tokens: int,
    rounds: int,
    say: Callable[[str], None],
    under: Conditions = AS_IT_IS,
    shards: int = SHARDS,
) -> ForcedCallResult:
    """Ask for the call in both ways by turns. Raises ModelFault and PeerFault with what went wrong."""
    costs = read_costs(directory, model)
    tokenizer = load_tokenizer(directory)
    prompt = compose(voice(tokenizer, costs.context_max), demo_request(model, TRIP))
    with_followers = Way(_spec(prompt, tokens))
    without = Way(replace(with_followers.spec, followers=False))
    say(f"starting a ring of {shards} shards")
    async with open_ring(directory, costs.layers, shards, under=under) as ring:
        for way in (with_followers, without):
            await ring.ask(prompt.ids, way.spec)
        for number, order in enumerate(turns([with_followers, without], rounds), 1):
            say(f"round {number} of {rounds}")
            await _round(ring, prompt, order)
    run = with_followers.runs[0]
    return ForcedCallResult(
        answer=tokenizer.decode(run.tokens),
        passes=run.passes,
        output_tokens=len(run.tokens),
        forced_tokens=run.forced_tokens,
        passes_per_token=run.passes / len(run.tokens),
        wall_s=median(with_followers.walls),
        wall_without_s=median(without.walls),
        speedup=paired_ratio(without.walls, with_followers.walls),
        same_tokens=len({run.tokens for run in (*with_followers.runs, *without.runs)}) == 1,
    )


async def _round(ring: BenchRing, prompt: Prompt, order: list[Way]) -> None:
    for way in order:
        way.runs.append(await ring.ask(prompt.ids, way.spec))


def _spec(prompt: Prompt, tokens: int) -> SlotSpec:
    return SlotSpec(
        sampling=Sampling(seed=0, temperature=0.0),
        max_tokens=tokens,
        prompt_tokens=len(prompt.ids),
        opening_tokens=len(prompt.opening),
        grammar=prompt.grammar or "",
        drafts=False,
    )
