"""Child process: mlx_lm's own generate and batches on one model, one JSON order a line in, one JSON answer a line out.

Started as `python -m ringleader.bench.baseline_child DIRECTORY` with a shard's environment; ends when standard
input closes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Load the model, say so, then answer orders: {"prompt": [ids], "tokens": n}, or "prompts" for a batch."""
    import mlx.core as mx
    import mlx_lm.utils

    model, _config = mlx_lm.utils.load_model(Path(sys.argv[1]))
    mx.eval(model.parameters())
    _say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "prompts" in order:
            _say(tok_s=batched(model, order["prompts"], order["tokens"]))
            continue
        tokens, seconds, first_s = generate(model, order["prompt"], order["tokens"])
        _say(tokens=tokens, token_s=seconds / max(1, len(tokens) - 1), first_s=first_s)


def generate(model: Any, prompt: list[int], count: int) -> tuple[list[int], float, float]:
    """`count` greedy tokens, the seconds from the first to the last of them, and those to the first."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    tokens: list[int] = []
    first = last = 0.0
    begun = time.perf_counter()
    for token, _logprobs in generate_step(mx.array(prompt), model, max_tokens=count):
        last = time.perf_counter()
        first = first or last
        tokens.append(int(token))
    return tokens, last - first, first - begun


def batched(model: Any, prompts: list[list[int]], count: int) -> float:
    """Tokens a second of greedy answers in one batch, once the last of them has begun."""
    from mlx_lm.generate import BatchGenerator

    generator = BatchGenerator(model, max_tokens=count)
    generator.insert(prompts)
    seen: set[int] = set()
    begun, tokens, last = 0.0, 0, 0.0
    while answers := generator.next_generated():
        last = time.perf_counter()
        if begun:
            tokens += len(answers)
        seen |= {answer.uid for answer in answers}
        if not begun and len(seen) == len(prompts):
            begun = last
        if any(answer.finish_reason is not None for answer in answers):
            break
    generator.close()
    return tokens / max(last - begun, 1e-9)


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
