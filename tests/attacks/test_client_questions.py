"""Clients that interfere with the questions of others, or that are asked and never answer.

Each attack is judged by what the tool was given, and by whether others are served.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RpcError
from discovery_server.tokens import parse_tokens
from tests.unit.server.fakes import Call, make_engine
from tests.unit.server.web import SessionClient, served
from tests.unit.server.wire import HANDSHAKE, INITIALIZED, MODERN, request

pytestmark = pytest.mark.anyio

ANNA, BERTA = "anna-token-of-many-characters", "berta-token-of-many-characters"
TOKENS = parse_tokens(ANNA, BERTA)
CAPABILITIES = {"elicitation": {"form": {}}, "roots": {}}
ENVELOPE = MODERN | {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}


class Tool:
    """A tool that asks once, and notes what it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.ended = 0
        self.engine = make_engine(execution=self.run)

    async def run(self, call: Call) -> JSONObject:
        try:
            assert call.caller
            self.given.append(await call.caller.ask("elicitation/create", {"message": "Who?"}))
        except RpcError:
            pass  # it goes on without
        finally:
            self.ended += 1
        return {"content": [{"type": "text", "text": "done"}]}


@pytest.fixture
def tool() -> Tool:
    return Tool()


def execute(number: int, **params: Any) -> JSONObject:
    arguments = {"tool": "github:list_issues"}
    return request(number, "tools/call", name="execute_tool", arguments=arguments, **params)


class Client(SessionClient):
    """A client with a token, which reads the events of an answer one by one."""

    async def open_askable(self) -> str:
        params = HANDSHAKE | {"capabilities": CAPABILITIES}
        opened = await self.http.post(self._address, json=request(1, "initialize", **params))
        session: str = opened.headers["mcp-session-id"]
        await self.request("POST", session, INITIALIZED)
        return session

    @asynccontextmanager
    async def calling(self, session: str, message: JSONObject) -> AsyncIterator[Any]:
        """The messages that answer one."""
        headers = {"mcp-session-id": session}
        stream = self.http.stream("POST", self._address, json=message, headers=headers)
        async with stream as answer:
            lines = answer.aiter_lines()

            async def receive() -> JSONObject:
                async for line in lines:
                    if line.startswith("data: "):
                        found: JSONObject = json.loads(line[6:])
                        return found
                raise EOFError

            yield receive

    async def execute(self, number: int = 1, **params: Any) -> JSONObject:
        """The answer to a call of 2026-07-28."""
        return (await self.post_modern(execute(number, _meta=ENVELOPE, **params))).json()

    async def post_modern(self, message: JSONObject) -> httpx2.Response:
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "execute_tool",
        }
        return await self.http.post(self._address, json=message, headers=headers)


def answer_to(question: JSONObject, name: str) -> JSONObject:
    result = {"action": "accept", "content": {"name": name}}
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def responding(asked: JSONObject, name: str) -> JSONObject:
    result = asked["result"]
    given = {
        key: {"action": "accept", "content": {"name": name}} for key in result["inputRequests"]
    }
    return {"inputResponses": given, "requestState": result["requestState"]}


@pytest.mark.requirement("QST-2")
async def test_no_other_client_answers_a_question(tool: Tool) -> None:
    async with (
        served(tool.engine, TOKENS) as address,
        Client(address, ANNA) as anna,
        Client(address, BERTA) as berta,
    ):
        own, second = await anna.open_askable(), await anna.open_askable()
        others = await berta.open_askable()
        async with anna.calling(own, execute(1)) as receive:
            question = await receive()
            forged = answer_to(question, "mallory")
            await berta.request("POST", others, forged)  # with the same id
            await berta.request("POST", own, forged)  # in Anna's session
            await anna.request("POST", second, forged)  # in another session of the same token
            await anna.request("POST", own, {**forged, "id": question["id"] + 1})
            assert tool.given == []
            await anna.request("POST", own, answer_to(question, "anna"))
            done = await receive()

    assert done["result"]["content"][0]["text"] == "done"
    assert tool.given == [{"action": "accept", "content": {"name": "anna"}}]


@pytest.mark.requirement("QST-20")
async def test_no_other_client_continues_a_parked_call(tool: Tool) -> None:
    async with (
        served(tool.engine, TOKENS) as address,
        Client(address, ANNA) as anna,
        Client(address, BERTA) as berta,
    ):
        asked = await anna.execute()
        stolen = await berta.execute(2, **responding(asked, "mallory"))
        assert tool.given == []
        done = await anna.execute(3, **responding(asked, "anna"))

    assert stolen["error"]["code"] == -32602
    assert done["result"]["resultType"] == "complete"
    assert tool.given == [{"action": "accept", "content": {"name": "anna"}}]


@pytest.mark.requirement("QST-20")
@pytest.mark.parametrize("forgery", ["", "x", "0" * 200, "last", "first", "twice", None])
async def test_no_forged_state_continues_a_call(tool: Tool, forgery: str | None) -> None:
    async with served(tool.engine, TOKENS) as address, Client(address, ANNA) as anna:
        asked = await anna.execute()
        state: str = asked["result"]["requestState"]
        forged = {
            "last": state[:-1] + ("A" if state[-1] != "A" else "B"),
            "first": "B" + state[1:],
            "twice": state + state,
        }.get(forgery or "", forgery)
        params = responding(asked, "mallory") | {"requestState": forged}
        answer = await anna.execute(2, **params)
        assert tool.given == []
        await anna.execute(3, **responding(asked, "anna"))

    assert [one["content"]["name"] for one in tool.given] == ["anna"]
    if forgery is not None:  # without a state it is another call, which asks, too
        assert answer["error"]["data"] == {"reason": "invalid_request_state"}


@pytest.mark.requirement("QST-44")
async def test_64_calls_that_one_client_leaves_unanswered_hold_up_no_other(tool: Tool) -> None:
    async with (
        served(tool.engine, TOKENS) as address,
        Client(address, ANNA) as anna,
        Client(address, BERTA) as berta,
    ):
        left = [await anna.execute(number) for number in range(64)]
        asked = await berta.execute()
        done = await berta.execute(2, **responding(asked, "berta"))

    required = [one["result"]["resultType"] == "input_required" for one in left]
    assert sum(required) == 32
    assert done["result"]["resultType"] == "complete"
    assert [one["content"]["name"] for one in tool.given] == ["berta"]


@pytest.mark.requirement("QST-2")
async def test_a_client_that_is_gone_while_it_is_asked_leaves_no_call(tool: Tool) -> None:
    async with served(tool.engine, TOKENS) as address, Client(address, ANNA) as anna:
        session = await anna.open_askable()
        async with anna.calling(session, execute(1)) as receive:
            await receive()
        assert tool.ended == 0
        await anna.request("DELETE", session)
        with anyio.fail_after(60):
            while not tool.ended:
                await anyio.lowlevel.checkpoint()

    assert tool.given == []
