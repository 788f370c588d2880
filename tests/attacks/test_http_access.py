"""Requests without the token, with half of one, or with more than one: none gets in."""

from __future__ import annotations

import logging
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from discovery_server.http.authorization import Authorization
from discovery_server.http.users import Users
from discovery_server.tokens import Tokens, parse_tokens
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import SessionClient, served

pytestmark = pytest.mark.anyio

TOKEN = "Zk3-token_of.the~owner+and/no-other="
OTHER = "another-token-of-somebody"


async def page(request: Request) -> PlainTextResponse:
    return PlainTextResponse(request.scope["user"])


def client(tokens: Tokens) -> httpx2.AsyncClient:
    app = Authorization(Starlette(routes=[Route("/", page)]), Users(tokens))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def answer(*headers: tuple[Any, Any], address: str = "/") -> httpx2.Response:
    async with client(parse_tokens(TOKEN)) as asking:
        request = asking.build_request("GET", address)
        request.headers = httpx2.Headers(list(headers))
        return await asking.send(request)


@pytest.mark.requirement("SRV-20", "SRV-21")
@pytest.mark.parametrize(
    ("value", "status"),
    [
        pytest.param(f"Bearer {TOKEN}", 200, id="as it should be"),
        pytest.param(f"bearer {TOKEN}", 200, id="scheme in small letters"),
        pytest.param(f"BEARER   {TOKEN}", 200, id="more blanks"),
        pytest.param("", 401, id="nothing"),
        pytest.param("Bearer", 401, id="scheme alone"),
        pytest.param("Bearer ", 401, id="no token"),
        pytest.param(TOKEN, 401, id="no scheme"),
        pytest.param(f"Bearer{TOKEN}", 401, id="no blank"),
        pytest.param(f"Bearer\t{TOKEN}", 401, id="tab"),
        pytest.param(f"Basic {TOKEN}", 401, id="another scheme"),
        pytest.param(f"Bearer {TOKEN[:-2]}", 401, id="cut short"),
        pytest.param(f"Bearer {TOKEN.swapcase()}", 401, id="another case"),
        pytest.param(f"Bearer {TOKEN}=", 401, id="longer"),
        pytest.param(f"Bearer {TOKEN}, Bearer {OTHER}", 401, id="two in one"),
        pytest.param(f"Bearer {OTHER} {TOKEN}", 401, id="behind another"),
        pytest.param(f'Bearer "{TOKEN}"', 401, id="in quotes"),
        pytest.param(f"Bearer {TOKEN}\xa0", 401, id="a blank that is not ASCII"),
        pytest.param(f"Bearer {TOKEN}é".encode(), 401, id="not ASCII"),
        pytest.param(b"Bearer \xff\xfe", 401, id="no text"),
        pytest.param(f"Bearer {'a' * 60_000}", 401, id="very long"),
    ],
)
async def test_only_the_token_itself_opens(value: str | bytes, status: int) -> None:
    raw = value if isinstance(value, bytes) else value.encode("latin-1")

    assert (await answer((b"authorization", raw))).status_code == status


@pytest.mark.requirement("SRV-20")
@pytest.mark.parametrize("address", ["/", "/mcp", "/health", "/nothing", "/%zz", "/.well-known/x"])
async def test_no_address_is_open(address: str) -> None:
    assert (await answer(address=address)).status_code == 401


@pytest.mark.requirement("SRV-21")
@pytest.mark.parametrize("first", [TOKEN, OTHER])
@pytest.mark.parametrize("second", [TOKEN, OTHER])
async def test_two_authorizations_are_none(first: str, second: str) -> None:
    headers = [("authorization", f"Bearer {first}"), ("Authorization", f"Bearer {second}")]

    assert (await answer(*headers)).status_code == 400


@pytest.mark.requirement("SRV-21")
@pytest.mark.parametrize(
    "query",
    [
        f"access_token={TOKEN}",
        f"x=1&token={TOKEN}",
        "Access%5FToken=x",
        "token",
        "api_key=",
        "a=1;token=x",
    ],
)
@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_token_in_the_address_is_refused(query: str, is_sent: bool) -> None:
    headers = [("authorization", f"Bearer {TOKEN}")] if is_sent else []

    refused = await answer(*headers, address=f"/?{query}")

    assert refused.status_code == (400 if ";" not in query else 200 if is_sent else 401)


@pytest.mark.requirement("SRV-20")
async def test_a_refusal_says_what_to_send_and_where_the_token_is_and_holds_none() -> None:
    missing, wrong = await answer(), await answer(("authorization", f"Bearer {OTHER}"))

    assert missing.headers["www-authenticate"] == 'Bearer realm="discovery"'
    assert wrong.headers["www-authenticate"].endswith('error="invalid_token"')
    assert "Authorization: Bearer TOKEN" in missing.json()["error_description"]
    for refused in (missing, wrong):
        assert "the person who started the gateway has it" in refused.json()["error_description"]
        assert TOKEN not in refused.text
        assert OTHER not in refused.text


@pytest.mark.requirement("SRV-20", "SRV-22")
async def test_refusals_are_logged_once_for_each_client_and_without_what_it_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with client(parse_tokens(TOKEN)) as asking:
        for _ in range(50):
            await asking.get("/", headers={"authorization": f"Bearer {OTHER}"})
            await asking.get("/", headers={"authorization": f"Bearer {TOKEN}"})

    ours = [record for record in caplog.records if record.name.startswith("discovery")]
    assert len(ours) == 2  # that it was wrong, and that it was wrong too often
    assert TOKEN not in caplog.text
    assert OTHER not in caplog.text


@pytest.mark.requirement("SRV-26")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_session_of_another_token_is_unknown(method: str) -> None:
    async with (
        served(make_engine(), parse_tokens(TOKEN, OTHER)) as address,
        SessionClient(address, TOKEN) as owner,
        SessionClient(address, OTHER) as thief,
    ):
        session = await owner.open()
        stolen = await thief.request(method, session)
        unknown = await thief.request(method, "0" * 32)
        own = await owner.request("POST", session)

    assert (stolen.status_code, stolen.content) == (unknown.status_code, unknown.content)
    assert stolen.status_code == 404
    assert own.status_code == 200


@pytest.mark.requirement("SRV-26")
async def test_a_request_of_the_new_era_gets_no_session_by_naming_one() -> None:
    engine = make_engine()
    called = "execute_tool", {"tool": "list_issues"}
    async with (
        served(engine, parse_tokens(TOKEN, OTHER)) as address,
        SessionClient(address, TOKEN) as owner,
        SessionClient(address, OTHER) as thief,
    ):
        session = await owner.open()
        await owner.call(*called, session=session)
        for claim in (session, "made-up"):
            await thief.call_statelessly(*called, session=claim)
        await owner.call_statelessly(*called)

    own, *claimed, modern = [call.client for call in engine.calls]
    assert own == session
    assert claimed == ["token 2", "token 2"]
    assert modern == "token 1"
