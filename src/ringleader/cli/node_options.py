"""The options of `ringleader node`: what each is called and says, and how they become `NodeOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.api.aliases import parse_aliases
from ringleader.config import NodeOptions, default_name, parse_layers
from ringleader.errors import BadRequest


class Wire(StrEnum):
    """How activations travel between shards."""

    same = "same"
    bf16 = "bf16"
    int8 = "int8"


class Objective(StrEnum):
    """What a plan is made for."""

    latency = "latency"
    throughput = "throughput"


Models = Annotated[
    list[str] | None, typer.Option(help="Load this model at the start (name, hf:org/name or path); repeatable.")
]
Join = Annotated[str | None, typer.Option(help="Join a cluster with what `ringleader cluster invite` printed.")]
Name = Annotated[str, typer.Option(help="This node's name; the host's name by default.")]
Peers = Annotated[list[str] | None, typer.Option(help="A node's host:port; repeatable.")]
Mdns = Annotated[bool, typer.Option("--mdns/--no-mdns", help="Find other nodes by multicast DNS.")]
Host = Annotated[str, typer.Option(help="Address at which other nodes reach this one; all by default.")]
Port = Annotated[int, typer.Option(help="Port for other nodes; 0 takes a free one.")]
JoinPort = Annotated[int, typer.Option(help="Port for nodes that join; 0 takes a free one.")]
Insecure = Annotated[bool, typer.Option(help="No encryption between nodes; on loopback, for tests.")]
ApiHost = Annotated[str, typer.Option(help="Address of the HTTP API.")]
ApiPort = Annotated[int, typer.Option(help="Port of the HTTP API; 0 takes a free one.")]
ApiKey = Annotated[str, typer.Option(envvar="RINGLEADER_API_KEY", help="Key that clients must send.")]
ApiTls = Annotated[bool, typer.Option("--api-tls", help="Serve the API by https, certified by the cluster.")]
ApiCert = Annotated[
    Path | None, typer.Option(help="Serve the API by https with this PEM file: certificate, then its key.")
]
Cors = Annotated[list[str] | None, typer.Option(help="Origin whose web pages may use the API; repeatable.")]
Shards = Annotated[int, typer.Option(help="Cut models into this many shards (default: the fewest nodes).")]
LayersByHand = Annotated[str, typer.Option(help="Place layers by hand, as in a=0-14,b=15-29.")]
Aim = Annotated[Objective, typer.Option(help="What plans aim for: the fastest answer, or the most tokens over many.")]
Excluded = Annotated[list[str] | None, typer.Option(help="Node that takes no part; repeatable.")]
IdleUnload = Annotated[float, typer.Option(help="Minutes without a request after which a model is unloaded; 0: never.")]
KeepResponses = Annotated[
    int, typer.Option(help="Answers of /v1/responses to keep on disk, so that others can follow them; 0 for none.")
]
Queue = Annotated[int, typer.Option(help="Requests that wait or run at most, before others get a 429.")]
LoadingWait = Annotated[
    float, typer.Option(help="Seconds that a request waits for its model to load before it gets a 503.")
]
KvBits = Annotated[
    int, typer.Option(help="Keep the memory of prompts and answers in 8 or 4 bits; 0: as it is computed.")
]
Context = Annotated[int, typer.Option(help="Longest prompt and answer together, in tokens.")]
WireCoding = Annotated[
    Wire, typer.Option(help="Send activations in fewer bytes, for slow links: bf16 (of fp32), or int8 with scales.")
]
Nodes = Annotated[int, typer.Option(help="Wait for this many nodes before loading models.")]
OpenaiFinish = Annotated[bool, typer.Option(help="End calls forced by name with finish_reason stop, as OpenAI does.")]
Alias = Annotated[
    list[str] | None, typer.Option(help="PATTERN=MODEL: clients that ask for the one get the other; repeatable.")
]
Speculation = Annotated[
    bool,
    typer.Option(
        "--speculation/--no-speculation",
        help="Guess tokens from the text so far: the same answers, sooner where a text repeats itself.",
    ),
]
DraftModel = Annotated[
    str,
    typer.Option(help="Small model with the same tokenizer (name, hf:org/name or path) that guesses more tokens."),
]
Home = Annotated[Path | None, typer.Option(envvar="RINGLEADER_HOME", help="Where models are kept.")]
State = Annotated[
    Path | None, typer.Option(help="Where this node keeps its keys; each node on one machine needs its own.")
]
Trace = Annotated[
    Path | None,
    typer.Option(help="At its end, write every pass of this node's shards to this file, for ui.perfetto.dev."),
]
ReadyJson = Annotated[bool, typer.Option("--json", help="Print one JSON line when ready.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log JSON, one object a line.")]
Leash = Annotated[bool, typer.Option(hidden=True, help="End when standard input closes.")]


def options_of(given: Mapping[str, Any]) -> NodeOptions:
    """The options as the command line gave them, by parameter name. Raises BadRequest naming the one that is wrong."""
    if given["join"] is not None and not given["join"].strip():
        raise BadRequest("--join is empty: paste what `ringleader cluster invite` printed on the first machine")
    return NodeOptions(
        name=given["name"] or default_name(),
        host=given["host"],
        control_port=given["port"],
        api_host=given["api_host"],
        api_port=given["api_port"],
        api_key=given["api_key"] or None,
        api_tls=given["api_tls"],
        api_cert=given["api_cert"],
        cors=tuple(given["cors"] or ()),
        keep_responses=given["keep_responses"],
        join_port=given["join_port"],
        peers=tuple(given["peer"] or ()),
        join=given["join"],
        mdns=given["mdns"],
        insecure=given["insecure"],
        models=tuple(given["model"] or ()),
        shards=given["shards"] or None,
        layers=parse_layers(given["layers"]),
        objective=Objective(given["objective"]).value,
        exclude=tuple(given["exclude"] or ()),
        idle_unload_s=given["idle_unload"] * 60,
        queue_max=given["queue"],
        loading_wait_s=given["loading_wait"],
        kv_bits=given["kv_bits"],
        context=given["context"],
        wire=Wire(given["wire"]).value,
        wait_for=given["nodes"],
        named_finish="stop" if given["openai_finish"] else "tool_calls",
        aliases=parse_aliases(given["alias"] or ()),
        speculation=given["speculation"],
        draft_model=given["draft_model"],
        home=given["home"],
        state=given["state"],
        trace=given["trace"],
    )
