"""Caches in 8 or 4 bits: which families can, that shards and batches change nothing, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aiohttp
import mlx.core as mx
import pytest

from ringleader.errors import ModelUnsupported
from ringleader.shard.batcher import Batcher, Limits
from ringleader.shard.engine import Engine
from ringleader.shard.kept import Kept
from ringleader.shard.kv_bits import keep_in_bits
from ringleader.shard.loader import load_slice
from ringleader.shard.prefixes import BLOCK_TOKENS, ROOT, Keep
from ringleader.shard.riding import difference, ride_of, step
from ringleader.shard.slice import Slice
from ringleader.shard.slot_cost import slot_tokens
from ringleader.shard.stepping import steps_back
from ringleader.tokenizer import load_tokenizer
from ringleader.values import LayerRange
from tests.ring.cluster import Cluster, ask
from tests.ring.test_batching import Asked, Ring
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

WIDE = {"head_dim": 64}
PLAN = [Asked((5 + n, *range(9, 14 + 9 * n)), 20, at=2 * n) for n in range(5)]


def cut(directory: Path, *stops: int, bits: int = 8) -> list[Slice]:
    parts = [
        load_slice(directory, LayerRange(start, stop), LAYERS, lambda _: None)
        for start, stop in zip((0, *stops), (*stops, LAYERS), strict=True)
    ]
    for part in parts:
        keep_in_bits(part, bits)
    return parts


def answers(directory: Path, parts: list[Slice], plan: list[Asked], slots_max: int = 16) -> dict[str, list[int]]:
    """What a ring of these parts answers, with `slots_max` of the plan at once."""
    tokenizer = load_tokenizer(directory)
    ride = ride_of(parts[0])
    ring = Ring(
        [Engine(part, tokenizer if part.tail else None, ride=ride) for part in parts],
        Batcher(Limits(ride=ride, flight_max=len(parts), slots_max=slots_max, machines=tuple(range(len(parts))))),
    )
    for number, asked in enumerate(plan):
        ring.answers[f"r{number}"] = []
        assert ring.batcher.submit(f"r{number}", asked.prompt, asked.spec())
    while ring.step():
        pass
    assert not ring.errors or not any(ring.errors.values())
    return ring.answers


@pytest.mark.parametrize(("family", "bits"), [("llama", 8), ("llama", 4), ("qwen3_next", 8)])
def test_answers_are_the_same_over_any_shards_and_in_any_company(family: str, bits: int, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path, tokenizer=True, **WIDE)
    alone = answers(directory, cut(directory, bits=bits), PLAN, slots_max=1)
    assert answers(directory, cut(directory, 2, bits=bits), PLAN) == alone
    assert all(alone.values())


def test_a_family_with_plain_caches_still_rides_ragged_and_takes_drafts_back(tmp_path: Path) -> None:
    parts = cut(make_tiny_model("llama", tmp_path, **WIDE), 3)
    assert [ride_of(part) for part in parts] == ["ragged", "ragged"]
    assert all(steps_back(part) for part in parts)


@pytest.mark.parametrize(
    ("family", "changes", "why"),
    [
        ("gemma3_text", WIDE, "caches of another kind .RotatingKVCache."),
        ("gpt_oss", WIDE, "caches of another kind"),
        ("deepseek_v3", {}, "--kv-bits 8 cannot be had"),
        ("llama", {}, "16 wide, no multiple of 64"),
    ],
)
def test_what_cannot_be_kept_in_bits_is_refused_by_name(
    family: str, changes: dict[str, int], why: str, tmp_path: Path
) -> None:
    directory = make_tiny_model(family, tmp_path, **changes)
    with pytest.raises(ModelUnsupported, match=why):
        cut(directory)


def test_a_model_file_that_does_not_read_them_is_found_by_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_tiny_model("llama", tmp_path, **WIDE)
    coded: Callable[..., object] = lambda self, array: mx.quantize(mx.zeros_like(array), group_size=64, bits=8)  # noqa: E731
    monkeypatch.setattr("ringleader.shard.quantised._Quantised._coded", coded)
    with pytest.raises(ModelUnsupported, match="reads them wrongly"):
        cut(directory)


@pytest.mark.ring
async def test_a_node_serves_with_caches_in_bits_and_says_so(smollm: Path, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "2", "--kv-bits", "8")
        cluster.wait_ready()
        async with aiohttp.ClientSession() as session:
            status, answer = await ask(session, cluster.api, max_tokens=8)
        assert status == 200 and answer["usage"]["completion_tokens"] == 8
        assert cluster.view()["rings"][0]["kv_bits"] == 8


@pytest.mark.ring
async def test_a_node_says_why_a_model_cannot_have_them(tmp_path: Path) -> None:
    directory = make_tiny_model("gemma3_text", tmp_path / "narrow", tokenizer=True)
    with Cluster(tmp_path) as cluster:
        cluster.start_master("a", "--kv-bits", "4", "--model", str(directory))
        async with aiohttp.ClientSession() as session:
            status, answer = await ask(session, cluster.api, model="narrow", max_tokens=8, logit_bias={})
        assert status == 500
        assert "--kv-bits 4 cannot be had for this model: it has caches of another kind" in answer["error"]["message"]


def test_recurrent_states_are_told_in_tokens_of_the_layers_beside_them(tmp_path: Path) -> None:
    hybrid = cut(make_tiny_model("qwen3_next", tmp_path / "hybrid", **WIDE), bits=8)[0]
    plain = cut(make_tiny_model("llama", tmp_path / "plain", **WIDE), bits=8)[0]
    assert slot_tokens(plain) == 0
    assert slot_tokens(hybrid) > 10


@pytest.mark.parametrize("family", ["llama", "qwen3_next"])
def test_what_is_kept_of_a_quantised_cache_is_what_it_was_then(family: str, tmp_path: Path) -> None:
    part = cut(make_tiny_model(family, tmp_path, **WIDE))[0]
    tokens, more = tuple(range(20, 20 + BLOCK_TOKENS)), (5, 6)
    caches = part.make_caches()
    step(part, caches, (tokens,))
    store = Kept()
    store.keep(Keep(1, ROOT, 0, BLOCK_TOKENS, (b"a",), state=True), caches, None, tokens)
    expected = step(part, caches, (more,))  # and what is kept must not have moved on with it
    again = part.make_caches()
    assert store.begin(b"a", again) == (BLOCK_TOKENS, tokens)
    assert difference(step(part, again, (more,))[0], expected[0]) < 1e-3
