"""Clients that interfere with the questions of others, or that are asked and never answer.

Each attack is judged by what the tool was given, and by whether others are served.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RpcError
from discovery_server.tokens import parse_tokens
from tests.task_clients import FORMS, TASKS, TaskClient, engine_of
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


@pytest.mark.requirement("QST-20")
async def test_no_other_client_and_no_forged_state_continues_a_parked_call(tool: Tool) -> None:
    async with (
        served(tool.engine, TOKENS) as address,
        Client(address, ANNA) as anna,
        Client(address, BERTA) as berta,
    ):
        asked = await anna.execute()
        state: str = asked["result"]["requestState"]
        end = "A" if state[-1] != "A" else "B"
        params = responding(asked, "mallory")
        refused = [await berta.execute(2, **params)]
        refused += [
            await anna.execute(2, **params | {"requestState": forged})
            for forged in ("", "x", "0" * 200, state[:-1] + end, "B" + state[1:], state + state)
        ]
        assert tool.given == []
        done = await anna.execute(3, **responding(asked, "anna"))

    reasons = [one["error"].get("data", {}).get("reason") for one in refused]
    assert reasons == ["invalid_request_state"] * 7
    assert done["result"]["resultType"] == "complete"
    assert tool.given == [{"action": "accept", "content": {"name": "anna"}}]


ANSWER: dict[str, Any] = {
    "inputResponses": {"sure": {"action": "accept", "content": {"x": "evil"}}}
}


@pytest.mark.requirement("TSK-30")
async def test_a_task_of_a_tool_that_was_withheld_meanwhile_does_not_exist(tmp_path: Path) -> None:
    async with (
        engine_of(tmp_path, "works") as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        task = (await client.call("works:work"))["taskId"]
        config = json.loads((tmp_path / "discovery.yaml").read_text("utf-8"))
        config["toolRules"] = [{"pattern": "work", "enabled": False}]
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")
        await engine.reload()
        got = await client.about("get", task)
        answered = await client.about("update", task, **ANSWER)
        cancelled = await client.about("cancel", task)
        asked = await client.log("works")

    assert got["error"]["code"] == answered["error"]["code"] == -32602
    assert "result" in cancelled
    assert asked == [["tasks/cancel", "task-1"]]


@pytest.mark.requirement("TSK-30")
async def test_no_other_client_and_no_forged_id_reaches_a_task(tmp_path: Path) -> None:
    capabilities = {**TASKS, **FORMS}
    async with (
        engine_of(tmp_path, "asks") as engine,
        served(engine, parse_tokens("a" * 20, "b" * 20)) as address,
        TaskClient(address, "a" * 20) as anna,
        TaskClient(address, "b" * 20) as berta,
    ):
        task = (await anna.call("asks:work", capabilities))["taskId"]
        servers_own = "task-1"
        forged = [servers_own, task[:-1], task + "A", task.swapcase(), f" {task}"]
        forged += [f"asks:{servers_own}", f"../{servers_own}", "x" * 10_000, ""]
        answers = [
            await client.about(method, one, **(ANSWER if method == "update" else {}))
            for client, one in ((berta, task), *((anna, one) for one in forged))
            for method in ("get", "update", "cancel")
        ]
        before = await anna.log("asks")
        state = await anna.get(task, capabilities=capabilities)

    assert [one["error"]["code"] for one in answers[:3]] == [-32602] * 3
    assert {one["error"]["code"] for one in answers} <= {-32602, -32020, -32600}
    assert len({one["error"]["message"] for one in answers[:3]}) == 1
    assert all("x" * 300 not in json.dumps(one) for one in answers)
    assert before == []
    assert state["status"] == "input_required"
