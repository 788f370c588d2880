"""Questions of servers in the middle of a call, over HTTP: to the SDK's client, and by hand."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client

from discovery_engine._util.json import JSONObject
from discovery_server.tokens import parse_tokens
from tests.rows import rows
from tests.unit.server.fakes import make_engine
from tests.unit.server.test_questions import ALL, ANNA, NAME, asking
from tests.unit.server.web import SessionClient, result_of, served
from tests.unit.server.wire import HANDSHAKE, MODERN, request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("QST-2", "SRV-27")]

EXECUTE = {"name": "execute_tool", "arguments": {"tool": "github:list_issues"}}
STATELESS = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "execute_tool",
}


@pytest.mark.thorough
@rows("mode", ["legacy", "auto"])
async def test_the_sdks_client_is_asked_and_its_answer_reaches_the_server(mode: str) -> None:
    async def answer(_: Any, asked: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": asked.message})

    engine = make_engine(execution=asking(("elicitation/create", NAME)))
    async with (
        served(engine) as address,
        Client(address, mode=mode, elicitation_callback=answer) as client,
    ):
        result = await client.call_tool(EXECUTE["name"], EXECUTE["arguments"])

    assert "Your name?" in result.content[0].text


async def opened(client: SessionClient, address: str) -> dict[str, str]:
    """The header of a session whose client can be asked."""
    initialize = request(0, "initialize", **HANDSHAKE | {"capabilities": ALL})
    answer = await client.http.post(address, json=initialize)
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


async def next_event(lines: Any) -> JSONObject:
    async for line in lines:
        if line.startswith("data: "):
            message: JSONObject = json.loads(line.removeprefix("data: "))
            return message
    raise AssertionError("the stream has ended")


async def test_a_question_comes_with_its_call_and_is_answered_in_its_own_session_only() -> None:
    engine = make_engine(execution=asking(("elicitation/create", NAME)))
    async with served(engine) as address, SessionClient(address) as client:
        own, other = await opened(client, address), await opened(client, address)
        call = request(1, "tools/call", **EXECUTE)
        async with client.http.stream("POST", address, json=call, headers=own) as stream:
            lines = stream.aiter_lines()
            asked = await next_event(lines)
            answer = {"jsonrpc": "2.0", "id": asked["id"]}
            strange = {**answer, "result": {"action": "decline"}}
            statuses = [(await client.http.post(address, json=strange, headers=other)).status_code]
            mine = {**answer, "result": ANNA}
            statuses += [(await client.http.post(address, json=mine, headers=own)).status_code]
            done = await next_event(lines)

    assert asked["method"] == "elicitation/create"
    assert statuses == [202, 202]
    assert done["result"]["content"][0]["text"] == str([ANNA])


async def test_the_end_of_a_session_withdraws_its_questions() -> None:
    engine = make_engine(execution=asking(("elicitation/create", NAME)))
    async with served(engine) as address, SessionClient(address) as client:
        session = await opened(client, address)
        call = request(1, "tools/call", **EXECUTE)
        async with client.http.stream("POST", address, json=call, headers=session) as stream:
            lines = stream.aiter_lines()
            await next_event(lines)
            await client.http.delete(address, headers=session)
            with anyio.fail_after(60):
                done = await next_event(lines)

    assert done["id"] == 1


def stateless_call(number: int, **params: Any) -> dict[str, Any]:
    meta = MODERN | {"io.modelcontextprotocol/clientCapabilities": ALL}
    message = request(number, "tools/call", **EXECUTE, _meta=meta, **params)
    return {"json": message, "headers": STATELESS}


async def test_a_call_without_a_session_is_continued_by_another_connection() -> None:
    engine = make_engine(execution=asking(("elicitation/create", NAME)))
    async with (
        served(engine) as address,
        SessionClient(address) as first,
        SessionClient(address) as second,
    ):
        asked = result_of(await first.http.post(address, **stateless_call(1)))
        [key] = asked["inputRequests"]
        more = {"inputResponses": {key: ANNA}, "requestState": asked["requestState"]}
        done = result_of(await second.http.post(address, **stateless_call(2, **more)))

    assert asked["resultType"] == "input_required"
    assert done["content"][0]["text"] == str([ANNA])


async def test_another_token_does_not_continue_the_call() -> None:
    one, other = "the-token-of-one-client", "the-token-of-the-other"
    engine = make_engine(execution=asking(("elicitation/create", NAME)))
    async with (
        served(engine, parse_tokens(one, other)) as address,
        SessionClient(address, one) as owner,
        SessionClient(address, other) as thief,
    ):
        asked = result_of(await owner.http.post(address, **stateless_call(1)))
        [key] = asked["inputRequests"]
        more = {"inputResponses": {key: ANNA}, "requestState": asked["requestState"]}
        stolen: httpx2.Response = await thief.http.post(address, **stateless_call(2, **more))
        done = result_of(await owner.http.post(address, **stateless_call(3, **more)))

    assert "error" in stolen.json()
    assert done["content"][0]["text"] == str([ANNA])
