"""What servers publish, and which of it is used."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from discovery_engine.config.settings import RemoteTransport
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.http.oauth.metadata import (
    AuthorizationMetadata,
    discover,
)
from discovery_engine.upstream.http.oauth.stored_login import address_of, login_name
from discovery_engine.upstream.http.oauth.token_endpoint import (
    TokenRefused,
    challenge_field,
    open_client,
)
from tests.rows import rows

pytestmark = pytest.mark.anyio

URL = "https://user:secret@files.example/mcp?key=secret#x"
RESOURCE = "https://files.example/.well-known/oauth-protected-resource/mcp"
SERVER = "https://login.example/.well-known/oauth-authorization-server"


def document(**members: Any) -> dict[str, Any]:
    found = {
        "issuer": "https://login.example",
        "authorization_endpoint": "https://login.example/authorize",
        "token_endpoint": "https://login.example/token",
        "code_challenge_methods_supported": ["S256"],
    }
    return {**found, **members}


def resource(**members: Any) -> dict[str, Any]:
    found = {"resource": "https://files.example/mcp"}
    return {**found, "authorization_servers": ["https://login.example"], **members}


async def found(
    pages: dict[str, Any], *, url: str = URL, challenge: str = ""
) -> tuple[AuthorizationMetadata, list[str]]:
    asked: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        page = pages.get(str(request.url))
        return httpx2.Response(404) if page is None else httpx2.Response(200, text=json.dumps(page))

    async with open_client(httpx2.MockTransport(handle)) as client:
        return await discover(client, RemoteTransport(url), challenge), asked


async def test_user_and_query_of_an_address_are_sent_to_nobody() -> None:
    got, asked = await found({RESOURCE: resource(), SERVER: document()})

    assert got.resource == "https://files.example/mcp"
    assert "secret" not in " ".join([*asked, got.resource])


@pytest.mark.requirement("AUT-6")
@rows(
    "challenge",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8080/admin",
        "http://localhost/x",
        "file:///etc/passwd",
        "gopher://files.example",
    ],
)
async def test_a_challenge_leads_to_no_address_that_is_not_https(challenge: str) -> None:
    with pytest.raises(TokenRefused, match="invalid_response"):
        await found({}, challenge=f'Bearer resource_metadata="{challenge}"')


@pytest.mark.requirement("AUT-6")
@rows(
    "pages",
    [
        {RESOURCE: resource(resource="https://files.example/other"), SERVER: document()},
        {RESOURCE: resource(resource="https://evil.example/mcp"), SERVER: document()},
        {RESOURCE: resource(authorization_servers=["http://127.0.0.1:1"]), SERVER: document()},
        {RESOURCE: resource(), SERVER: document(issuer="https://evil.example")},
        {RESOURCE: resource(), SERVER: document(token_endpoint="http://127.0.0.1:1/t")},
        {RESOURCE: resource(), SERVER: document(revocation_endpoint="http://login.example/r")},
        {RESOURCE: resource(), SERVER: {"issuer": "https://login.example"}},
        {RESOURCE: resource(), SERVER: []},
        {},
    ],
)
async def test_what_does_not_match_is_refused(pages: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        await found(pages)


@pytest.mark.requirement("AUT-7")
async def test_the_owners_scopes_come_first_then_the_challenges_then_the_metadatas() -> None:
    pages = {RESOURCE: resource(scopes_supported=["a"]), SERVER: document()}
    got, _ = await found(pages)
    offline = document(scopes_supported=["a", "offline_access"])
    refreshing, _ = await found({**pages, SERVER: offline})

    assert got.requested_scopes(["x"], ["c"]) == ["x"]
    assert got.requested_scopes([], ["c"]) == ["c"]
    assert got.requested_scopes([], []) == ["a"]
    assert refreshing.requested_scopes([], []) == ["a", "offline_access"]
    assert challenge_field('Bearer scope="c d", error="x"', "scope") == "c d"


@pytest.mark.requirement("AUT-16")
def test_a_login_belongs_to_an_address_and_not_to_its_secrets() -> None:
    def name(url: str) -> str:
        return login_name(ServerName("files"), RemoteTransport(url))

    assert address_of(URL) == "https://files.example/mcp"
    assert name(URL) == name("https://other:user@FILES.example/mcp?key=other")
    different = {
        *("https://files.example/mcp", "http://files.example/mcp", "https://files.example/mcp2"),
        *("https://files.example:8443/mcp", "https://files.example.evil/mcp"),
    }
    assert len({name(url) for url in different}) == len(different)


async def test_a_parent_may_be_the_resource_of_several_servers() -> None:
    root = "https://files.example/.well-known/oauth-protected-resource"
    got, _ = await found({root: resource(resource="https://files.example/"), SERVER: document()})

    assert got.resource == "https://files.example/"
