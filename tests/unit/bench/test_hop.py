from __future__ import annotations

import pytest

from ringleader.bench.hop import HopResult, TlsHopResult, measure_tls_hop


def test_the_price_of_tls_is_the_median_rounds_and_both_kinds_are_shown() -> None:
    result = TlsHopResult(HopResult(10, 8192, 100.0, 200.0), HopResult(10, 8192, 400.0, 500.0), (1.1, 1.2, 9.0))
    assert result.flat()["tls_vs_clear"] == 1.2
    assert result.flat()["hop_p50_us"] == 100.0
    assert [line.kept for line in result.lines()] == [True, None, False, None, None]


@pytest.mark.ring
async def test_frames_hop_by_tls_between_real_processes() -> None:
    result = await measure_tls_hop(40, 1024)
    assert (result.clear.hops, result.tls.hops) == (40, 40)
    assert result.tls.p50_us > 0
