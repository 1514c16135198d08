"""What a model on a hub weighs, without fetching it: its configuration and the headers of its weight files.

The headers are put at the begin of empty files of the right length (sparse: they take no room), so that the same
code reads them as reads a model that is here.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from ringleader.errors import ModelFault
from ringleader.models.headers import INDEX, INDEX_BYTES_MAX, read_costs
from ringleader.models.hub import Hub
from ringleader.models.safetensors import HEADER_BYTES_MAX, LENGTH_BYTES
from ringleader.models.transfer import Cut, RemoteFile
from ringleader.values import ModelCosts, ModelId

SMALL_FILES = {"config.json", "tokenizer_config.json", INDEX}
TRIES = 3
AT_ONCE = 4


def read_remote_costs(repository: str, model: ModelId, *, endpoint: str | None = None) -> ModelCosts:
    """The costs of `repository` ("org/name"), exact as if it were here; a few megabytes are read.

    Raises:
        UnknownModel, ModelUnsupported, ModelFault: as `hub.fetch_repository` and `headers.read_costs`.
    """
    hub = Hub(repository, endpoint)
    wanted = [file for file in hub.files() if file.name in SMALL_FILES or file.name.endswith(".safetensors")]
    with TemporaryDirectory(prefix="ringleader-headers-") as folder:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headers") as pool:
            for _ in pool.map(lambda file: _fetch(hub, file, Path(folder)), wanted):
                pass
        return read_costs(Path(folder), model)


def _fetch(hub: Hub, file: RemoteFile, into: Path) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            begin = _begin(hub, file)
            break
        except Cut as error:
            if attempt == TRIES:
                raise ModelFault(f"{hub.repository}/{file.name} cannot be read from the hub: {error}") from error
    with (into / file.name).open("wb") as stream:
        stream.write(begin)
        stream.truncate(file.size)


def _begin(hub: Hub, file: RemoteFile) -> bytes:
    """All of a small file, or a weight file up to the end of its header."""
    got = bytearray()
    with hub.read(file, 0) as (_, chunks):
        for chunk in chunks:
            got += chunk
            if len(got) >= _needed(file, got):
                break
    return bytes(got[: _needed(file, got)])


def _needed(file: RemoteFile, got: bytearray) -> int:
    if file.name in SMALL_FILES:
        if file.size > INDEX_BYTES_MAX:
            raise ModelFault(f"{file.name} has {file.size} bytes (at most {INDEX_BYTES_MAX})")
        return file.size
    if len(got) < LENGTH_BYTES:
        return LENGTH_BYTES
    return LENGTH_BYTES + min(int.from_bytes(got[:LENGTH_BYTES], "little"), HEADER_BYTES_MAX, file.size)
