"""The API of a real node beyond loopback: no key, no start; https by the cluster; revoked keys are shut out."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ringleader.trust import api_keys
from ringleader.trust.credentials import AUTHORITY_FILE, state_directory

pytestmark = pytest.mark.ring
NODE = (sys.executable, "-m", "ringleader", "node", "--no-mdns", "--port", "0", "--join-port", "0", "--api-port", "0")


@contextmanager
def node(home: Path, *options: str) -> Iterator[Any]:
    """A node on every interface of this machine, and what it says of itself; it ends with the block."""
    command = [*NODE, "--name", "a", "--home", str(home), "--api-host", "0.0.0.0", "--json", "--leash", *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(20)


def test_beyond_loopback_a_node_without_a_key_does_not_start(tmp_path: Path) -> None:
    command = [*NODE, "--name", "a", "--home", str(tmp_path), "--api-host", "0.0.0.0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "ringleader keys create" in ended.stderr
    assert "Traceback" not in ended.stderr


async def test_keys_and_https_of_a_node_that_runs(tmp_path: Path) -> None:
    state = state_directory(tmp_path)
    _, first = api_keys.create(state, "first", 0)
    with node(tmp_path, "--api-tls") as listening:
        url = f"https://localhost:{listening['api'].rpartition(':')[2]}/v1/models"
        trusting = ssl.create_default_context(cafile=str(state / AUTHORITY_FILE))
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(url)

            async def status(key: str) -> int:
                async with session.get(url, headers={"x-api-key": key}, ssl=trusting) as response:
                    return response.status

            assert (await status(first), await status("another")) == (200, 401)
            _, second = api_keys.create(state, "second", 0)
            api_keys.revoke(state, "first")
            assert (await status(first), await status(second)) == (401, 200)
            api_keys.revoke(state, "second")
            assert await status("") == 401, "without any key left nobody is let in"
