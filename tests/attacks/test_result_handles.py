"""Over HTTP, nobody but the client that made a call reads on in its result."""

from __future__ import annotations

import json

import pytest

from discovery_server.tokens import parse_tokens
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import SessionClient, result_of, served

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("RSL-7")]

SECRET = "the salary of the director"
LONG = {"content": [{"type": "text", "text": f"{SECRET}\n" * 20_000}]}
ISSUES = {"tool": "github:list_issues"}
TOKENS = ("a-token-of-the-first-client", "a-token-of-the-second-one")


async def test_a_second_session_of_the_same_client_reads_nothing() -> None:
    engine = make_engine(result=LONG)
    async with served(engine) as address, SessionClient(address) as client:
        mine, other = await client.open(), await client.open()
        cut = result_of(await client.call("execute_tool", ISSUES, session=mine))
        handle = {"handle": cut["_meta"]["discovery/answer"]["handle"]}

        stolen = result_of(await client.call("read_result", handle, session=other))
        stateless = result_of(await client.call_statelessly("read_result", handle))
        read = result_of(await client.call("read_result", handle, session=mine))

    for answer in (stolen, stateless):
        assert answer["isError"]
        assert SECRET not in json.dumps(answer)
    assert read["content"][0]["text"].startswith(SECRET)
    assert len(engine.calls) == 1
    engine.results.close()


async def test_without_sessions_the_token_tells_clients_apart() -> None:
    engine = make_engine(result=LONG)
    async with (
        served(engine, parse_tokens(*TOKENS)) as address,
        SessionClient(address, TOKENS[0]) as mine,
        SessionClient(address, TOKENS[1]) as other,
    ):
        cut = result_of(await mine.call_statelessly("execute_tool", ISSUES))
        handle = {"handle": cut["_meta"]["discovery/answer"]["handle"]}

        stolen = result_of(await other.call_statelessly("read_result", handle))
        read = result_of(await mine.call_statelessly("read_result", handle))

    assert stolen["isError"]
    assert SECRET not in json.dumps(stolen)
    assert read["content"][0]["text"].startswith(SECRET)
    engine.results.close()
