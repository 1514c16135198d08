from __future__ import annotations

import json
from dataclasses import replace

from ringleader.bench.decode import DecodeResult
from ringleader.bench.forced_call import ForcedCallResult
from ringleader.bench.hop import HopResult
from ringleader.bench.report import at_least, at_most, table
from ringleader.bench.targets import judged

DECODE = DecodeResult(
    tokens=64,
    same_tokens=True,
    mlx_lm_token_s=0.05,
    one_shard_token_s=0.04,
    two_shards_token_s=0.06,
    one_shard_vs_mlx_lm=1.25,
    two_shards_vs_one=1.5,
    frame_bytes_short=2351,
    frame_bytes_long=2353,
    row_bytes=2304,
)
HOP = HopResult(hops=2000, frame_bytes=8192, p50_us=120.26, p99_us=9_160.0)
CALL = ForcedCallResult(
    answer='"x"}}',
    passes=2,
    output_tokens=14,
    forced_tokens=12,
    passes_per_token=2 / 14,
    wall_s=1.2,
    wall_without_s=2.4,
    speedup=2.0,
    same_tokens=True,
)


def row(text: str, title: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(title))


def test_a_limit_is_kept_up_to_its_very_value() -> None:
    assert [at_most("x", value, 1.08, "{:.3f}").kept for value in (1.0, 1.08, 1.081)] == [True, True, False]
    assert [at_least("x", value, 0.95, "{:.3f}").kept for value in (0.949, 0.95, 1.0)] == [False, True, True]


def test_a_table_says_which_promises_are_kept_and_which_are_missed() -> None:
    text = table("decode", [*DECODE.lines(), *judged("decode", DECODE.flat())])
    assert row(text, "1 shard, 1 stream").split()[-4:] == ["at", "least", "1", "ok"]
    assert row(text, "1 stream: time a token, 2 shards").endswith("MISSED")
    assert "25.0 tok/s" in row(text, "ring of one shard")


def test_answers_that_differ_are_shown_as_missed() -> None:
    text = table("decode", replace(DECODE, same_tokens=False).lines())
    assert row(text, "same tokens").split()[-2:] == ["NO", "MISSED"]


def test_every_table_fits_eighty_columns_with_numbers_of_slow_machines() -> None:
    slow = replace(DECODE, frame_bytes_short=1_234_567, frame_bytes_long=1_234_567, row_bytes=1_234_567)
    for result in (slow, replace(HOP, p50_us=1e7, p99_us=1e8), replace(CALL, wall_s=12345.6, passes=123456)):
        assert max(len(line) for line in table("title", result.lines()).splitlines()) <= 80


def test_json_is_flat_and_has_the_keys_that_scripts_read() -> None:
    decode, hop, call = DECODE.flat(), HOP.flat(), CALL.flat()
    assert {"one_shard_vs_mlx_lm", "two_shards_vs_one", "decode_frame_bytes_limit"} <= decode.keys()
    assert decode["decode_frame_bytes"] == 2353, "the larger of both: a frame must not grow with the context"
    assert (hop["hop_p50_us"], hop["hop_p99_us"]) == (120.3, 9160.0)
    assert {"passes_per_token", "speedup", "passes", "output_tokens", "forced_tokens"} <= call.keys()
    for flat in (decode, hop, call):
        assert all(isinstance(value, int | float | str | bool) for value in json.loads(json.dumps(flat)).values())
