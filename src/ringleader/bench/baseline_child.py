"""Child process: mlx_lm's own generate on one model, one JSON order a line in, one JSON answer a line out.

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
    """Load the model, say so, then answer orders: {"prompt": [ids], "tokens": n}."""
    import mlx.core as mx
    import mlx_lm.utils

    model, _config = mlx_lm.utils.load_model(Path(sys.argv[1]))
    mx.eval(model.parameters())
    _say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        tokens, seconds = generate(model, order["prompt"], order["tokens"])
        _say(tokens=tokens, token_s=seconds / max(1, len(tokens) - 1))


def generate(model: Any, prompt: list[int], count: int) -> tuple[list[int], float]:
    """`count` greedy tokens, and the seconds from the first to the last of them."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    tokens: list[int] = []
    first = last = 0.0
    for token, _logprobs in generate_step(mx.array(prompt), model, max_tokens=count):
        last = time.perf_counter()
        first = first or last
        tokens.append(int(token))
    return tokens, last - first


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
