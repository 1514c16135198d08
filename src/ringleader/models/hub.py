"""Whole model repositories from a Hugging Face hub, resumable in the middle of a file.

huggingface-hub knows endpoint, tokens and errors; the bytes are read here, because its own download throws
a half-fetched file away when the process ends. Imported lazily: it reads its settings at import.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ringleader.errors import ModelFault, ModelUnsupported, RingleaderError, UnknownModel
from ringleader.models.reporter import Reporter
from ringleader.models.sizes import human_bytes
from ringleader.models.transfer import Cut, Ledger, RemoteFile, Tally, Transfer

# What serving needs. Other forms of the same weights (.bin, .pth, consolidated.safetensors) are left out.
WANTED = re.compile(
    r"\w[\w.-]*\.(?:json|jinja|txt|tiktoken)|model[\w.-]*\.safetensors|tokenizer\.model"
    r"|additional_chat_templates/\w[\w.-]*\.jinja"
)
FILES_MAX = 10_000
FILES_AT_ONCE = 4
TIMEOUT_S = 10.0  # without one byte
TRY_AGAIN_STATUS = {408, 425, 429, 500, 502, 503, 504}


def fetch_repository(
    repository: str, into: Path, reporter: Reporter, *, endpoint: str | None = None, pause_s: float = 1.0
) -> None:
    """Fetch what serving needs of `repository` ("org/name") into `into`, going on with what is there.

    `endpoint` None means what HF_ENDPOINT says; `pause_s` is the first pause between tries of a file, it doubles.

    Raises:
        UnknownModel: the hub has no such repository, or does not show it to us.
        ModelUnsupported: the repository holds no safetensors weights.
        ModelFault: gated, unreachable, cut off too often, or corrupt; what is whole stays in `into`.
    """
    hub = Hub(repository, endpoint)
    reporter.stage(f"look up {repository}")
    files = hub.files()
    total = sum(file.size for file in files)
    reporter.done(f"{len(files)} files, {human_bytes(total)}")

    ledger = Ledger(into)
    missing = [file for file in files if not ledger.has(file)]
    _check_room(repository, into, missing)
    reporter.stage(f"fetch {repository}")
    tally = Tally(total, reporter)
    tally.add(total - sum(file.size for file in missing))
    transfer = Transfer(into, ledger, tally, hub.read, pause_s)
    pool = ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="fetch")
    try:
        done, _ = wait([pool.submit(transfer.run, file) for file in missing], return_when=FIRST_EXCEPTION)
        for error in [task.exception() for task in done]:
            if error is not None:
                raise error
    finally:
        transfer.stop()
        pool.shutdown(cancel_futures=True)
    ledger.tidy(files)
    reporter.done(f"{human_bytes(total)}, checked")


class Hub:
    """One repository on a hub; every error of the library becomes one of ours."""

    def __init__(self, repository: str, endpoint: str | None = None) -> None:
        try:
            import huggingface_hub
            from huggingface_hub import constants, errors, utils
        except ValueError as error:  # it parses its settings at import
            raise ModelFault(f"huggingface-hub refuses its settings: {error}; check HF_ENDPOINT") from error

        self._hub, self._errors, self._utils = huggingface_hub, errors, utils
        self.repository = repository
        self.endpoint: str = endpoint or constants.ENDPOINT

    def files(self) -> list[RemoteFile]:
        """The wanted files of the newest version of the main branch."""
        with self._faults():
            info = self._hub.HfApi(endpoint=self.endpoint).model_info(
                self.repository, revision="main", files_metadata=True, timeout=TIMEOUT_S
            )
            siblings = list(info.siblings or [])
            if len(siblings) > FILES_MAX:
                raise ModelFault(f"{self.repository} lists {len(siblings)} files (at most {FILES_MAX})")
            # A whole match leaves no name that could climb out of the directory.
            wanted = [each for each in siblings if WANTED.fullmatch(str(each.rfilename))]
            files = [self._announced(each, info.sha or "main") for each in wanted]
        if not any(file.name.endswith(".safetensors") for file in files):
            seen = ", ".join(sorted(str(each.rfilename) for each in siblings)[:4]) or "nothing"
            raise ModelUnsupported(
                f"{self.repository} holds no model*.safetensors (it has: {seen}); "
                "look for the same model in MLX format, often under mlx-community/"
            )
        if not any(file.name == "config.json" for file in files):
            raise ModelUnsupported(f"{self.repository} holds no config.json; it is not a model that mlx-lm loads")
        return files

    def _announced(self, sibling: Any, revision: str) -> RemoteFile:
        name = str(sibling.rfilename)
        url = self._hub.hf_hub_url(self.repository, name, revision=revision, endpoint=self.endpoint)
        lfs = getattr(sibling, "lfs", None)
        size, etag = sibling.size, lfs.sha256 if lfs else sibling.blob_id
        if type(size) is not int or not etag:  # a mirror that lists names only
            metadata = self._hub.get_hf_file_metadata(url, timeout=TIMEOUT_S, endpoint=self.endpoint)
            size, etag = metadata.size, metadata.etag
        if type(size) is not int or size < 0 or not etag:
            raise ModelFault(f"the hub tells neither size nor version of {self.repository}/{name}")
        return RemoteFile(name, url, size, str(etag))

    @contextmanager
    def read(self, file: RemoteFile, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The bytes of `file` from `start` on; yields where they really begin (0 if the server has no ranges).

        Raises:
            Cut: the connection failed or the server wants us to come back later.
        """
        headers = {**self._utils.build_hf_headers(), "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        session = self._hub.get_session()
        with self._faults(cut=True):
            with session.stream("GET", file.url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True) as answer:
                if answer.status_code == 416:  # what we have is longer than the file now is
                    raise Cut("the server refused to go on in the middle", restart=True)
                self._utils.hf_raise_for_status(answer)
                yield (start if answer.status_code == 206 else 0), answer.iter_bytes()

    @contextmanager
    def _faults(self, *, cut: bool = False) -> Iterator[None]:
        errors = self._errors
        endpoint = self.endpoint
        again = f"what was fetched is kept; go on with: ringleader models pull hf:{self.repository}"
        try:
            yield
        except RingleaderError:
            raise
        except errors.GatedRepoError as error:
            raise ModelFault(
                f"{self.repository} is gated: accept its terms at {endpoint}/{self.repository}, "
                "then set HF_TOKEN (or run 'hf auth login') and pull again"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise UnknownModel(
                f"{endpoint} has no model {self.repository!r} that we may see; check the spelling (org/name), "
                "or set HF_TOKEN if it is private",
                param="model",
            ) from error
        except errors.OfflineModeIsEnabled as error:
            raise ModelFault(f"HF_HUB_OFFLINE is set, so {self.repository} cannot be fetched; unset it") from error
        except errors.HfHubHTTPError as error:
            status = error.response.status_code
            if cut and status in TRY_AGAIN_STATUS:
                raise Cut(f"HTTP {status}") from error
            raise ModelFault(f"{endpoint} answers HTTP {status} for {self.repository}; {again}") from error
        except errors.HTTPError as error:  # the HTTP library's root: no connection, timeout, cut in the middle
            if cut:
                raise Cut(str(error) or type(error).__name__) from error
            raise ModelFault(f"{endpoint} does not answer ({error or type(error).__name__}); {again}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ModelFault(f"{endpoint} does not answer like a model hub ({error}); check HF_ENDPOINT") from error


def _check_room(repository: str, into: Path, missing: list[RemoteFile]) -> None:
    needed = sum(file.size for file in missing)
    free = shutil.disk_usage(into).free
    if free < needed:
        raise ModelFault(
            f"{repository} needs {human_bytes(needed)} more, {into.parent} has {human_bytes(free)} free; "
            "make room, or set RINGLEADER_HOME to a larger disk"
        )
