"""Requests without the token, with half of one, or with more than one: none gets in."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from discovery_server.tokens import parse_tokens
from tests.rows import rows
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


@pytest.mark.requirement("SRV-20")
async def test_only_the_token_itself_opens() -> None:
    right = [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER   {TOKEN}"]
    wrong = ["", "Bearer", "Bearer ", TOKEN, f"Bearer{TOKEN}", f"Bearer\t{TOKEN}", f"Basic {TOKEN}"]
    wrong += [f"Bearer {one}" for one in (TOKEN[:-2], TOKEN.swapcase(), f"{TOKEN}=", f'"{TOKEN}"')]
    wrong += [
        f"Bearer {TOKEN}, Bearer {OTHER}",
        f"Bearer {OTHER} {TOKEN}",
        f"Bearer {'a' * 60_000}",
    ]
    wrong += [f"Bearer {TOKEN}\xa0", f"Bearer {TOKEN}\xe9", "Bearer \xff\xfe"]
    outcomes = {}
    for value in right + wrong:  # each as the first one of its address
        [answer] = await answers([(b"authorization", value.encode("latin-1"))])
        outcomes[value] = answer.status_code

    assert outcomes == {**dict.fromkeys(right, 404), **dict.fromkeys(wrong, 401)}


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


@pytest.mark.requirement("SRV-20")
async def test_two_tokens_and_one_in_the_address_are_refused() -> None:
    right = ("authorization", f"Bearer {TOKEN}")
    queries = [f"access_token={TOKEN}", f"x=1&token={TOKEN}", "Access%5FToken=x", "token"]
    found = await answers([right, ("Authorization", f"Bearer {TOKEN}")])
    for query in [*queries, "api_key="]:
        found += await answers([], [right], address=f"/nothing?{query}")

    assert [answer.status_code for answer in found] == [400] * 11


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


@pytest.mark.requirement("SRV-22")
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
@rows("method", ["POST", "GET", "DELETE"])
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
