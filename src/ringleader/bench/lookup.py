"""What drafts looked up in what stood before are worth: a code edit, greedy, with them and without, by turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from ringleader.bench.conditions import Conditions
from ringleader.bench.load import subject
from ringleader.bench.ratios import paired_ratio, turns
from ringleader.bench.report import Findings, Line
from ringleader.bench.ring import Run, open_ring
from ringleader.values import ModelId

CODE = '''def total(prices, rate):
    """The sum of all prices, tax included."""
    result = 0.0
    for price in prices:
        result += price
    return result * (1.0 + rate)


def average(prices, rate):
    """The mean price, tax included; zero of no prices."""
    if not prices:
        return 0.0
    return total(prices, rate) / len(prices)


def cheapest(prices, rate):
    """The lowest price, tax included; zero of no prices."""
    if not prices:
        return 0.0
    return min(prices) * (1.0 + rate)
'''
ASKED = (
    "Here is a file, `prices.py`:\n\n```python\n{code}```\n\nThe same file with `rate` renamed to `tax`:\n\n```python\n"
)


async def measure_lookup(
    directory: Path,
    model: ModelId,
    under: Conditions,
    shards: int,
    tokens: int,
    rounds: int,
    say: Callable[[str], None],
) -> Findings:
    """Both ways give the same tokens, as they must. Raises ModelFault and PeerFault with what went wrong."""
    about = subject(directory, model)
    prompt = tuple(about.tokenizer.encode(ASKED.format(code=CODE)))
    plain = about.lasting(prompt, tokens)
    specs = {"with": replace(plain, drafts=True), "without": plain}
    runs: dict[str, list[Run]] = {name: [] for name in specs}
    say(f"starting a ring of {shards}")
    async with open_ring(directory, about.costs.layers, shards, under=under) as ring:
        for spec in specs.values():
            await ring.ask(prompt, spec)
        for number, order in enumerate(turns(list(specs), rounds), 1):
            say(f"round {number} of {rounds}")
            for name in order:
                runs[name].append(await ring.ask(prompt, specs[name]))
    speedup = paired_ratio(*([run.token_s for run in runs[name]] for name in ("without", "with")))
    same = len({run.tokens for each in runs.values() for run in each}) == 1
    shown = {name: 1 / median(run.token_s for run in each) for name, each in runs.items()}
    passes = {name: each[0].passes / len(each[0].tokens) for name, each in runs.items()}
    rows = (
        Line("tok/s with drafts", f"{shown['with']:.1f} ({passes['with']:.2f} passes a token)"),
        Line("tok/s without", f"{shown['without']:.1f} ({passes['without']:.2f} passes a token)"),
        Line("speedup", f"{speedup:.2f}"),
        Line("same tokens both ways", "yes" if same else "NO", "", same),
    )
    values = {"speedup": round(speedup, 3), "passes_per_token": round(passes["with"], 4), "same_tokens": same}
    return Findings(rows, {**values, **{f"{name}_tok_s": round(rate, 2) for name, rate in shown.items()}})
