"""Where addresses, versions and credentials come from, and that a missing one is told by its name."""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.agent.backends.azure_foundry import AzureFoundryBackend
from ringleader.agent.backends.azure_openai import AzureOpenAIBackend
from ringleader.agent.backends.faults import BackendDenied
from ringleader.agent.backends.github_models import GitHubModelsBackend
from ringleader.agent.backends.openai import OpenAIBackend
from ringleader.agent.backends.ring import RingBackend
from ringleader.errors import BadRequest
from tests.unit.agent.backends.doors import NAMES, OPENERS, at_stub, opened
from tests.unit.agent.backends.stub import KEY, SAID, served

ASK = [{"role": "user", "content": "hi"}]
VARIABLES = """
    RINGLEADER_URL RINGLEADER_API_KEY OPENAI_API_KEY OPENAI_BASE_URL OPENAI_MODEL OPENAI_ORG_ID OPENAI_PROJECT_ID
    OPENAI_API_VERSION AZURE_OPENAI_API_KEY AZURE_OPENAI_ENDPOINT AZURE_OPENAI_DEPLOYMENT AZURE_OPENAI_API_VERSION
    AZURE_OPENAI_AD_TOKEN AZURE_AI_API_KEY AZURE_INFERENCE_CREDENTIAL AZURE_AI_ENDPOINT AZURE_AI_MODEL
    AZURE_AI_TOKEN AZURE_AI_API_VERSION GITHUB_TOKEN GH_TOKEN GITHUB_MODELS_MODEL GITHUB_MODELS_ORG
    GITHUB_MODELS_URL ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL
"""


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)


FROM_THE_ENVIRONMENT: dict[str, dict[str, str]] = {
    "ring": {"RINGLEADER_URL": "URL", "RINGLEADER_API_KEY": KEY},
    "openai": {"OPENAI_BASE_URL": "URL/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"},
    "azure_openai": {
        "AZURE_OPENAI_ENDPOINT": "URL/",
        "AZURE_OPENAI_API_KEY": KEY,
        "AZURE_OPENAI_DEPLOYMENT": "m",
    },
    "azure_foundry": {"AZURE_AI_ENDPOINT": "URL", "AZURE_AI_API_KEY": KEY, "AZURE_AI_MODEL": "m"},
    "github_models": {"GITHUB_MODELS_URL": "URL", "GITHUB_TOKEN": KEY, "GITHUB_MODELS_MODEL": "m"},
    "anthropic": {"ANTHROPIC_BASE_URL": "URL", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "m"},
}


@pytest.mark.parametrize("backend", NAMES)
async def test_everything_may_come_from_the_environment(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(SAID) as stub:
        for name, value in FROM_THE_ENVIRONMENT[backend].items():
            monkeypatch.setenv(name, value.replace("URL", stub.url))
        door = OPENERS[backend]()
        await door.complete_chat(ASK)
        await door.close()
    assert KEY in " ".join(stub.seen[-1].headers.values())
    assert stub.seen[-1].body["model"] == ("the-loaded" if backend == "ring" else "m")


@pytest.mark.parametrize("backend", [name for name in NAMES if name != "ring"])
def test_a_missing_key_is_told_by_the_names_of_its_variables(backend: str) -> None:
    with pytest.raises(BackendDenied, match=r"set [A-Z_]+(KEY|TOKEN)"):
        OPENERS[backend]("m", url="http://127.0.0.1:1")


@pytest.mark.parametrize("backend", [name for name in NAMES if name != "ring"])
def test_a_missing_model_is_told_with_its_option(backend: str) -> None:
    with pytest.raises(BadRequest, match="--model"):
        OPENERS[backend](url="http://127.0.0.1:1", api_key=KEY)


WRONG_ADDRESSES = {
    "notaurl": "no address of a server",
    "localhost:8080": "no address of a server",
    "ftp://host": "no address of a server",
    "http://": "no address of a server",
    "http://a b": "no address of a server",
    "http://host:port": "no address of a server",
    "http://host:99999": "no address of a server",
    "http://host:0": "port 0",
    "http://[::1": "no address of a server",
    "http://host/v1?key=x": "leave out",
    f"http://me:{KEY}@host": "credentials come from the environment",
}


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize("url", WRONG_ADDRESSES)
def test_an_address_that_is_none_is_told_with_where_it_was_read(
    backend: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadRequest, match="--url.*" + WRONG_ADDRESSES[url]) as caught:
        OPENERS[backend]("m", url=url, api_key=KEY)
    assert KEY not in str(caught.value)
    variable = next(name for name, value in FROM_THE_ENVIRONMENT[backend].items() if value.startswith("URL"))
    monkeypatch.setenv(variable, url)
    with pytest.raises(BadRequest, match=f"{variable}: .*{WRONG_ADDRESSES[url]}"):
        OPENERS[backend]("m", api_key=KEY)


@pytest.mark.parametrize("opener", [AzureOpenAIBackend, AzureFoundryBackend])
def test_a_missing_resource_is_told_with_its_option(opener: Any) -> None:
    with pytest.raises(BadRequest, match="--url"):
        opener("m", api_key=KEY)


async def test_a_dated_version_of_azure_openai_has_the_deployment_in_its_path() -> None:
    async with at_stub("azure_openai", SAID, model="my-gpt", api_version="2024-10-21") as (door, stub):
        await door.complete_chat(ASK)
    assert stub.seen[0].path == "/openai/deployments/my-gpt/chat/completions"
    assert stub.seen[0].query == {"api-version": "2024-10-21"}
    assert stub.seen[0].headers["api-key"] == KEY


async def test_the_older_endpoint_of_foundry_is_taken_where_it_is_given() -> None:
    async with served(SAID) as stub:
        door = opened("azure_foundry", f"{stub.url}/models")
        await door.complete_chat(ASK)
        await door.close()
    assert stub.seen[0].path == "/models/chat/completions"
    assert stub.seen[0].query == {"api-version": "2024-05-01-preview"}


@pytest.mark.parametrize("backend", ["azure_openai", "azure_foundry"])
async def test_a_token_of_entra_travels_as_a_bearer(backend: str) -> None:
    async with at_stub(backend, SAID, api_key=None, token="entra") as (door, stub):
        await door.complete_chat(ASK)
    assert stub.seen[0].headers["authorization"] == "Bearer entra"
    assert "api-key" not in stub.seen[0].headers


async def test_github_is_told_its_version_and_who_pays() -> None:
    async with at_stub("github_models", SAID, organization="acme") as (door, stub):
        await door.complete_chat(ASK)
    assert stub.seen[0].path == "/orgs/acme/inference/chat/completions"
    assert stub.seen[0].headers["x-github-api-version"] == "2022-11-28"
    assert stub.seen[0].headers["accept"] == "application/vnd.github+json"


@pytest.mark.parametrize("backend", [name for name in NAMES if name != "anthropic"])
async def test_openais_account_is_told_to_openai_only(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-mine")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-mine")
    async with at_stub(backend, SAID) as (door, stub):
        await door.complete_chat(ASK)
    assert ("org-mine" in stub.seen[0].headers.values()) == (backend == "openai")
    assert ("proj-mine" in stub.seen[0].headers.values()) == (backend == "openai")


def test_the_usual_addresses_are_the_providers_own() -> None:
    assert "http://127.0.0.1:52415/v1" in repr(RingBackend())
    assert "https://api.openai.com/v1" in repr(OpenAIBackend("m", api_key=KEY))
    assert "https://models.github.ai/inference" in repr(GitHubModelsBackend("m/n", api_key=KEY))
    azure = AzureOpenAIBackend("m", url="https://mine.openai.azure.com/", api_key=KEY)
    assert "https://mine.openai.azure.com/openai/v1" in repr(azure)
    foundry = AzureFoundryBackend("m", url="https://mine.services.ai.azure.com/openai/v1/", api_key=KEY)
    assert "https://mine.services.ai.azure.com/openai/v1" in repr(foundry)
