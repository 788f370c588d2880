"""Requests without the token, with half of one, or with more than one: none gets in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from discovery_server.tokens import parse_tokens
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import SessionClient, served, service_of

pytestmark = pytest.mark.anyio

TOKEN = "Zk3-token_of.the~owner+and/no-other="
OTHER = "another-token-of-somebody"


def client() -> httpx2.AsyncClient:
    app = service_of(make_engine(), parse_tokens(TOKEN)).app
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost")


async def answers(
    *requests: Sequence[tuple[Any, Any]], address: str = "/nothing"
) -> list[httpx2.Response]:
    """The answers to requests with some headers; 404 is for those that are let in."""
    async with client() as asking:
        found = []
        for headers in requests:
            request = asking.build_request("GET", address)
            request.headers = httpx2.Headers([("host", "localhost"), *headers])
            found.append(await asking.send(request))
        return found


@pytest.mark.requirement("SRV-20", "SRV-21")
async def test_only_the_token_itself_opens() -> None:
    right = {
        f"Bearer {TOKEN}": 404,
        f"bearer {TOKEN}": 404,
        f"BEARER   {TOKEN}": 404,
        "": 401,
        "Bearer": 401,
        "Bearer ": 401,
        TOKEN: 401,
        f"Bearer{TOKEN}": 401,
        f"Bearer\t{TOKEN}": 401,
        f"Basic {TOKEN}": 401,
        f"Bearer {TOKEN[:-2]}": 401,
        f"Bearer {TOKEN.swapcase()}": 401,
        f"Bearer {TOKEN}=": 401,
        f"Bearer {TOKEN}, Bearer {OTHER}": 401,
        f"Bearer {OTHER} {TOKEN}": 401,
        f'Bearer "{TOKEN}"': 401,
        f"Bearer {TOKEN}\xa0": 401,  # a blank that is not ASCII
        f"Bearer {TOKEN}\xe9": 401,
        "Bearer \xff\xfe": 401,
        f"Bearer {'a' * 60_000}": 401,
    }
    outcomes = {}
    for value in right:  # each as the first one of its address
        [answer] = await answers([(b"authorization", value.encode("latin-1"))])
        outcomes[value] = answer.status_code

    assert {value: seen for value, seen in outcomes.items() if seen != right[value]} == {}


@pytest.mark.requirement("SRV-20")
async def test_nothing_but_the_page_and_the_health_is_open() -> None:
    closed = ["/mcp", "/mcp/x", "/api", "/api/status", "/events", "/metrics", "/nothing"]
    closed += ["/%zz", "/.well-known/x", "/healthy", "/pages", "/page/../mcp"]
    opened = ["/", "/health", "/page/style.css", "/favicon.ico"]
    outcomes = {}
    for address in closed + opened:
        [answer] = await answers([], address=address)
        outcomes[address] = answer.status_code, "www-authenticate" in answer.headers

    assert [address for address in closed if outcomes[address] != (401, True)] == []
    assert [address for address in opened if outcomes[address][1]] == []


@pytest.mark.requirement("SRV-21")
async def test_two_authorizations_are_none() -> None:
    pairs = [(first, second) for first in (TOKEN, OTHER) for second in (TOKEN, OTHER)]
    names = ("authorization", "Authorization")
    requests = [
        [(name, f"Bearer {token}") for name, token in zip(names, pair, strict=True)]
        for pair in pairs
    ]

    assert [answer.status_code for answer in await answers(*requests)] == [400] * 4


@pytest.mark.requirement("SRV-21")
async def test_a_token_in_the_address_is_refused() -> None:
    queries = [f"access_token={TOKEN}", f"x=1&token={TOKEN}", "Access%5FToken=x", "token"]
    queries += ["api_key=", "a=1;token=x"]
    requests = ([], [("authorization", f"Bearer {TOKEN}")])
    outcomes = {}
    for query in queries:
        found = await answers(*requests, address=f"/nothing?{query}")
        outcomes[query] = [answer.status_code for answer in found]

    assert outcomes.pop("a=1;token=x") == [401, 404]  # one value, and no token
    assert {query: seen for query, seen in outcomes.items() if seen != [400, 400]} == {}


@pytest.mark.requirement("SRV-20")
async def test_a_refusal_says_what_to_send_and_where_the_token_is_and_holds_none() -> None:
    missing, wrong = await answers([], [("authorization", f"Bearer {OTHER}")])

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
    async with client() as asking:
        for _ in range(50):
            await asking.get("/nothing", headers={"authorization": f"Bearer {OTHER}"})
            await asking.get("/nothing", headers={"authorization": f"Bearer {TOKEN}"})

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
