"""Requests without the token, with half of one, or with more than one: none gets in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_server.access_tokens import AccessTokens
from discovery_server.tokens import Tokens, parse_tokens
from tests.rows import rows
from tests.unit.server.fakes import ISSUES, FakeEngine, ServeSettings, make_engine, make_view
from tests.unit.server.web import SessionClient, result_of, served, service_of
from tests.unit.server.wire import INITIALIZE

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


def with_sessions(most: int) -> FakeEngine:
    return FakeEngine(make_view(ISSUES, server=ServeSettings(max_sessions=most)))


async def is_alive(client: SessionClient, session: str) -> bool:
    return (await client.request("POST", session)).status_code == 200


@pytest.mark.requirement("SRV-33")
async def test_a_loop_of_openings_ends_its_own_sessions_and_none_that_is_used() -> None:
    engine = with_sessions(4)

    async with served(engine) as address, SessionClient(address) as client:
        used = [await client.open() for _ in range(3)]
        opened = [await client.open(is_ready=False) for _ in range(50)]
        alive = [session for session in used if await is_alive(client, session)]

    assert alive == used
    assert engine.ended == opened[:-1]


@pytest.mark.requirement("SRV-33")
async def test_a_session_on_which_its_client_listens_is_not_ended_and_the_next_is_refused() -> None:
    async with (
        served(with_sessions(2)) as address,
        SessionClient(address) as client,
        AsyncExitStack() as streams,
    ):
        listening = [await client.open() for _ in range(2)]
        for session in listening:
            stream = client.http.stream("GET", address, headers={"mcp-session-id": session})
            await streams.enter_async_context(stream)
        refused = await client.http.post(address, json=INITIALIZE)
        alive = [session for session in listening if await is_alive(client, session)]
        await client.request("DELETE", listening[0])
        again = await client.http.post(address, json=INITIALIZE)

    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "5"
    assert "all 2 sessions of this gateway are in use" in refused.json()["error"]["message"]
    assert alive == listening
    assert again.status_code == 200


CHOSEN = "correct-horse-battery"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"
AT_ONCE = 10
CHOSEN_ALONE = parse_tokens(CHOSEN)


class Gateway:
    """Requests that come from any address."""

    def __init__(self, data: Path, tokens: Tokens = CHOSEN_ALONE) -> None:
        self.made, _ = AccessTokens(data / "tokens.json").create()
        self.service = service_of(make_engine(), tokens, data=data)

    @contextmanager
    def client(self, address: str) -> Iterator[httpx2.AsyncClient]:
        own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
        transport = httpx2.ASGITransport(self.service.app, client=(address, 1))
        yield httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=own)

    async def ask(self, token: str, address: str = HERE) -> httpx2.Response:
        with self.client(address) as http:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return await http.get("/api/openapi.json", headers=headers)

    async def status(self, token: str, address: str = HERE) -> int:
        return (await self.ask(token, address)).status_code

    async def guess(self, count: int, address: str = HERE) -> Counter[int]:
        return Counter([await self.status(f"guess-{n:016}", address) for n in range(count)])


@pytest.mark.requirement("API-32")
async def test_an_address_has_ten_tries_and_locks_out_nobody_elsewhere(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for _ in range(30):
        assert await gateway.status("") == 401  # no token is no try

    guesses = await gateway.guess(50)
    refused = await gateway.ask(CHOSEN)

    assert guesses == {401: AT_ONCE, 429: 50 - AT_ONCE}
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert 0 < int(refused.headers["retry-after"]) <= 6
    assert CHOSEN not in refused.text
    assert await gateway.status(CHOSEN, ELSEWHERE) == 200
    assert await gateway.status(gateway.made) == 200  # cannot be found by trying
    await gateway.guess(20, "127.0.0.1")
    assert await gateway.status(CHOSEN, "127.0.0.1") == 200


@pytest.mark.requirement("API-32")
async def test_many_addresses_together_have_a_limit_and_lock_out_no_address_that_was_never_wrong(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    addresses = [f"198.51.100.{number}" for number in range(50)]

    statuses = sum([await gateway.guess(5, one) for one in addresses], Counter[int]())

    assert statuses[401] <= 100 + len(addresses) + 20  # each one's first, and what time forgets
    assert await gateway.status(CHOSEN, addresses[-1]) == 429
    assert await gateway.status(CHOSEN, ELSEWHERE) == 200


@pytest.mark.requirement("RSL-7")
async def test_only_the_client_that_made_a_call_reads_on_in_its_result() -> None:
    secret, tokens = "the salary of the director", ("a" * 20, "b" * 20)
    engine = make_engine(result={"content": [{"type": "text", "text": f"{secret}\n" * 20_000}]})
    call = "execute_tool", {"tool": "github:list_issues"}
    async with (
        served(engine, parse_tokens(*tokens)) as address,
        SessionClient(address, tokens[0]) as client,
        SessionClient(address, tokens[1]) as other,
    ):
        mine, second = await client.open(), await client.open()
        cut = result_of(await client.call(*call, session=mine))
        read = "read_result", {"handle": cut["_meta"]["discovery/answer"]["handle"]}
        stateless = result_of(await client.call_statelessly(*call))
        again = "read_result", {"handle": stateless["_meta"]["discovery/answer"]["handle"]}
        refused = [
            result_of(await client.call(*read, session=second)),
            result_of(await client.call_statelessly(*read)),
            result_of(await other.call_statelessly(*again)),
        ]
        answered = [
            result_of(await client.call(*read, session=mine)),
            result_of(await client.call_statelessly(*again)),
        ]

    assert all(answer["isError"] and secret not in json.dumps(answer) for answer in refused)
    assert all(answer["content"][0]["text"].startswith(secret) for answer in answered)
    engine.results.close()


async def test_wrong_codes_of_browsers_count_and_right_ones_open_all_the_same(
    tmp_path: Path,
) -> None:
    gateway = Gateway(tmp_path)
    outcomes = {}
    for address in ("127.0.0.1", HERE):
        with gateway.client(address) as http:
            codes = [await http.post("/session", json={"code": "x"}) for _ in range(12)]
            form = await http.post("/session", data={"token": CHOSEN})
            opened = await http.post(
                "/session", json={"code": gateway.service.new_link("http://x").partition("=")[2]}
            )
        assert Counter(one.status_code for one in codes) == {401: AT_ONCE, 429: 2}
        outcomes[address] = [form.status_code, opened.status_code]

    assert outcomes == {"127.0.0.1": [303, 204], HERE: [429, 204]}
