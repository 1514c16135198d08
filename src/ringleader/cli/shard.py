"""`ringleader shard`: one layer range of one model in a process of its own. Nodes start it; people need not."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from ringleader.errors import RingleaderError
from ringleader.shard.batcher import PROGRESS_DEADLINE_S
from ringleader.values import LayerRange


def shard(
    directory: Annotated[Path, typer.Option(help="The model's directory.")],
    layers: Annotated[str, typer.Option(help="First and last layer, as in 0-14.")],
    of: Annotated[int, typer.Option(help="How many layers the whole model has.")],
    plan: Annotated[str, typer.Option(help="The plan's hash, 32 hexadecimal digits.")],
    listen: Annotated[str, typer.Option(help="host:port, port 0 for any free one.")] = "127.0.0.1:0",
    kv_tokens: Annotated[int, typer.Option(help="Tokens of all live requests together, at most.")] = 16384,
    kv_bits: Annotated[int, typer.Option(help="Keep caches in so many bits: 8 or 4; 0: as they are computed.")] = 0,
    draft_model: Annotated[
        Path | None, typer.Option(help="Directory of a small model that makes drafts beside the head.")
    ] = None,
    credentials: Annotated[
        Path | None, typer.Option(help="The node's state directory; without it, connections are in the clear.")
    ] = None,
    digest: Annotated[str, typer.Option(help="Of the model's files; lets another plan take the shard over.")] = "",
    progress_deadline: Annotated[
        float,
        typer.Option(
            envvar="RINGLEADER_PROGRESS_DEADLINE_S",
            min=0.1,
            help="Seconds without a frame coming round after which the ring is lost.",
        ),
    ] = PROGRESS_DEADLINE_S,
    pace: Annotated[
        str,
        typer.Option(
            envvar="RINGLEADER_PACE",
            help="Take the time of another machine, as in pass_ms=20,prompt_token_ms=0.5; for benchmarks.",
        ),
    ] = "",
    trace: Annotated[
        Path | None, typer.Option(help="Write this shard's passes to a part beside this file; its starter merges them.")
    ] = None,
) -> None:
    """Serve one layer range (started by a node; ends when standard input closes)."""
    from ringleader.shard.pace import parse_pace
    from ringleader.shard.process import ShardOptions, run

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    found = re.fullmatch(r"(\d+)-(\d+)", layers)
    if found is None or not re.fullmatch(r"[0-9a-f]{32}", plan):
        raise typer.BadParameter("--layers is first-last (as in 0-14), --plan has 32 hexadecimal digits")
    try:
        paced = parse_pace(pace) if pace else None
    except RingleaderError as error:
        raise typer.BadParameter(str(error)) from error
    options = ShardOptions(
        directory=directory,
        layers=LayerRange(int(found[1]), int(found[2]) + 1),
        layer_count=of,
        plan=plan,
        listen=listen,
        kv_tokens_max=kv_tokens,
        progress_deadline_s=progress_deadline,
        credentials=credentials,
        digest=digest,
        pace=paced,
        trace=trace,
        kv_bits=kv_bits,
        draft_model=draft_model,
    )
    raise typer.Exit(run(options))
