"""OpenAI's own SDK against a real node that is full, or whose model is still being loaded."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.ring.cluster import Cluster, chat

pytestmark = pytest.mark.ring


async def test_while_a_model_is_loaded_it_is_a_503_and_when_the_queue_is_full_a_429(
    smollm: Path, tmp_path: Path
) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "2", "--loading-wait", "0", "--queue", "1")
        async with openai.AsyncOpenAI(base_url=f"{cluster.api}/v1", api_key="any", max_retries=0, timeout=90) as client:
            with pytest.raises(openai.InternalServerError) as loading:
                await client.chat.completions.create(**chat(max_tokens=3))
            assert (loading.value.status_code, loading.value.code) == (503, "model_loading")
            assert 1 <= int(loading.value.response.headers["retry-after"]) <= 60

            patient = client.with_options(max_retries=20)
            answer = await patient.chat.completions.create(**chat(max_tokens=3))
            assert answer.usage is not None and answer.usage.completion_tokens == 3

            running = await client.chat.completions.create(**chat(), stream=True)
            await anext(aiter(running))
            with pytest.raises(openai.RateLimitError, match="1 requests wait or run") as full:
                await client.chat.completions.create(**chat(max_tokens=3))
            assert (full.value.type, full.value.code) == ("rate_limit_error", "busy")
            assert int(full.value.response.headers["retry-after"]) >= 1
            await running.close()
            await patient.chat.completions.create(**chat(max_tokens=3))
