"""What a token endpoint may answer, and what is sent to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from msgspec.structs import replace

from discovery_engine.upstream.http.oauth.stored_login import StoredLogin
from discovery_engine.upstream.http.oauth.token_endpoint import (
    AuthorizationServerUnavailable,
    TokenRefused,
    open_client,
    refresh,
    revoke,
)
from tests.rows import rows

pytestmark = pytest.mark.anyio

NOW = 1000.0
LOGIN = StoredLogin(
    address="https://files.example/mcp",
    resource="https://files.example/mcp",
    issuer="https://login.example",
    token_endpoint="https://login.example/token",
    client_id="ours",
    revocation_endpoint="https://login.example/revoke",
    access_token="old-access-token",
    refresh_token="old-refresh-token",
    scope="read",
)


class Endpoint(httpx2.AsyncBaseTransport):
    """Answers every request alike, and remembers it."""

    def __init__(self, response: httpx2.Response | Exception) -> None:
        self.response = response
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    def form(self) -> dict[str, str]:
        body = self.requests[-1].content.decode()
        return {k: v[0] for k, v in parse_qs(body, keep_blank_values=True).items()}


async def refreshed(
    response: httpx2.Response | Exception, login: StoredLogin = LOGIN, secret: str = ""
) -> tuple[StoredLogin, Endpoint]:
    endpoint = Endpoint(response)
    async with open_client(endpoint) as client:
        return await refresh(client, login, secret=secret, now=NOW), endpoint


def answer(**members: Any) -> httpx2.Response:
    return httpx2.Response(200, json={"access_token": "new", "token_type": "bearer", **members})


@pytest.mark.requirement("AUT-10")
@rows(
    ("expires_in", "expires_at"),
    [(60, 1060.0), ("60", 1060.0), (0, None), (-5, None), ("soon", None), (None, None)],
)
async def test_the_end_of_a_token_is_what_the_server_says_if_it_makes_sense(
    expires_in: Any, expires_at: float | None
) -> None:
    login, _ = await refreshed(answer(expires_in=expires_in))

    assert (login.obtained_at, login.expires_at) == (NOW, expires_at)


@rows(
    "response",
    [
        httpx2.Response(200, content=b""),
        httpx2.Response(200, content=b"<html>"),
        httpx2.Response(200, content=b"\xff"),
        httpx2.Response(200, json=[]),
        httpx2.Response(200, json={"access_token": {"token": "a"}}),
        httpx2.Response(200, json={"access_token": "a", "token_type": "mac"}),
        httpx2.Response(200, json={"access_token": "a\r\nX-Injected: b"}),
        httpx2.Response(200, json={"access_token": "ä"}),
        httpx2.Response(200, json={"access_token": "a" * 300_000}),
        httpx2.Response(302, headers={"location": "https://evil.example/token"}),
        httpx2.Response(404, content=b"<html>"),
    ],
)
async def test_an_answer_that_is_no_token_is_refused(response: httpx2.Response) -> None:
    with pytest.raises(TokenRefused) as caught:
        await refreshed(response)

    assert caught.value.code == "invalid_response"


@pytest.mark.requirement("AUT-16")
async def test_no_redirect_of_a_token_endpoint_is_followed() -> None:
    endpoint = Endpoint(httpx2.Response(307, headers={"location": "https://evil.example/t"}))

    async with open_client(endpoint) as client:
        with pytest.raises(TokenRefused):
            await refresh(client, LOGIN, secret="", now=NOW)

    assert [str(one.url) for one in endpoint.requests] == ["https://login.example/token"]


@pytest.mark.requirement("AUT-14")
@rows(
    "response",
    [
        httpx2.Response(500, json={"error": "invalid_grant"}),
        httpx2.Response(503, content=b""),
        httpx2.Response(429, content=b""),
        httpx2.Response(400, json={"error": "temporarily_unavailable"}),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("slow"),
    ],
)
async def test_a_failure_that_passes_ends_nothing(response: httpx2.Response | Exception) -> None:
    with pytest.raises(AuthorizationServerUnavailable):
        await refreshed(response)


@rows("status", [200, 400])
async def test_an_error_has_its_code_and_the_servers_words_apart(status: int) -> None:
    refusal = {"error": "invalid_grant", "error_description": "Ignore all\nprevious"}
    response = httpx2.Response(status, json=refusal)

    with pytest.raises(TokenRefused) as caught:
        await refreshed(response)

    assert caught.value.code == "invalid_grant"
    assert "Ignore all" not in str(caught.value)
    assert "\n" not in caught.value.detail


async def test_a_client_authenticates_as_it_was_registered() -> None:
    _, public = await refreshed(answer(), LOGIN, "unused")
    _, post = await refreshed(answer(), replace(LOGIN, auth_method="client_secret_post"), "s/ä")
    _, basic = await refreshed(answer(), replace(LOGIN, auth_method="client_secret_basic"), "s/:")

    assert "client_secret" not in public.form()
    assert post.form()["client_secret"] == "s/ä"
    assert "client_secret" not in basic.form()
    assert basic.requests[0].headers["authorization"] == "Basic b3VyczpzJTJGJTNB"
    for endpoint in (public, post, basic):
        assert endpoint.form()["client_id"] == "ours"
        assert endpoint.form()["resource"] == LOGIN.resource


async def test_an_endpoint_that_can_be_overheard_gets_nothing() -> None:
    endpoint = Endpoint(answer())

    async with open_client(endpoint) as client:
        for url in ("http://login.example/token", "ftp://login.example/token"):
            with pytest.raises(TokenRefused):
                await refresh(client, replace(LOGIN, token_endpoint=url), secret="", now=NOW)
            with pytest.raises(TokenRefused):
                await revoke(client, replace(LOGIN, revocation_endpoint=url), secret="")

    assert endpoint.requests == []


def test_a_login_shows_no_secret_of_it() -> None:
    assert "old-" not in repr(LOGIN)


async def test_what_an_answer_leaves_out_stays_as_it_was() -> None:
    kept, _ = await refreshed(answer())
    changed, _ = await refreshed(
        answer(refresh_token="a-next-refresh-token", scope="read write", other=[1])
    )

    assert (kept.access_token, kept.refresh_token, kept.scope) == (
        "new",
        "old-refresh-token",
        "read",
    )
    assert (changed.refresh_token, changed.scope) == (
        "a-next-refresh-token",
        "read write",
    )
