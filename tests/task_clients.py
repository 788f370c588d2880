"""Clients of 2026-07-28 over HTTP, of a gateway with `tests/servers/task_server.py` behind it."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import anyio

from discovery_engine._util.json import JSONObject
from discovery_engine.engine import Engine
from discovery_engine.rpc.protocol import CLIENT_CAPABILITIES, TASKS_EXTENSION
from tests.engines import Folder, program
from tests.unit.server.web import SessionClient, served
from tests.unit.server.wire import MODERN, request

SERVER = Path(__file__).parent / "servers" / "task_server.py"
TASKS: JSONObject = {"extensions": {TASKS_EXTENSION: {}}}
FORMS: JSONObject = {"elicitation": {"form": {}}}


@asynccontextmanager
async def engine_of(folder: Path, *modes: str, **sections: Any) -> AsyncIterator[Engine]:
    """An engine with a server for each mode, which has its name."""
    place = Folder(folder)
    arguments = ("-I", "-S", str(SERVER))
    servers = [program(mode, sys.executable, *arguments, mode, "--era", "modern") for mode in modes]
    place.write(*servers, **sections)
    async with place.open() as engine:
        await engine.refresh()
        yield engine


class TaskClient(SessionClient):
    """A client that knows tasks, unless it is said otherwise."""

    numbers = count(1)

    async def send(
        self, method: str, capabilities: JSONObject = TASKS, path: str = "", **params: Any
    ) -> JSONObject:
        """The answer, whole."""
        meta = {**MODERN, CLIENT_CAPABILITIES: capabilities, **params.pop("_meta", {})}
        message = request(next(self.numbers), method, _meta=meta, **params)
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if name := params.get("name") or params.get("taskId"):
            encoded = base64.b64encode(name.encode()).decode()
            headers["mcp-name"] = name if name == name.strip() else f"=?base64?{encoded}?="
        answered = await self.http.post(self._address + path, json=message, headers=headers)
        found: JSONObject = json.loads(answered.text.rpartition("data: ")[2] or answered.text)
        return found

    async def call(  # type: ignore[override]
        self, tool: str, capabilities: JSONObject = TASKS, **arguments: Any
    ) -> JSONObject:
        """The result of `execute_tool`."""
        given = {"tool": tool, **arguments}
        answer = await self.send("tools/call", capabilities, name="execute_tool", arguments=given)
        result: JSONObject = answer["result"]
        return result

    async def about(self, method: str, task: str, **params: Any) -> JSONObject:
        return await self.send(f"tasks/{method}", taskId=task, **params)

    async def get(self, task: str, **more: Any) -> JSONObject:
        """The state of a task that is there."""
        result: JSONObject = (await self.about("get", task, **more))["result"]
        return result

    async def ended(self, task: str) -> JSONObject:
        """The last state of a task."""
        with anyio.fail_after(60):
            while (state := await self.get(task))["status"] == "working":
                await anyio.lowlevel.checkpoint()
        return state

    async def notified(
        self, is_last: Callable[[JSONObject], bool], **notifications: Any
    ) -> list[JSONObject]:
        """The messages on the stream of a subscription, up to one."""
        meta = {**MODERN, CLIENT_CAPABILITIES: TASKS}
        method = "subscriptions/listen"
        message = request(next(self.numbers), method, _meta=meta, notifications=notifications)
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        stream = self.http.stream("POST", self._address, json=message, headers=headers)
        received: list[JSONObject] = []
        with anyio.fail_after(60):
            async with stream as answer:
                lines = answer.aiter_lines()
                while not (received and is_last(received[-1])):
                    line = await anext(lines)
                    if line.startswith("data: "):
                        received.append(json.loads(line[6:]))
        return received

    async def log(self, server: str) -> list[list[str]]:
        """The requests about tasks that a server has had: method and id."""
        result = await self.call(f"{server}:log")
        found: list[list[str]] = json.loads(result["content"][0]["text"])
        return found


def text_of(result: JSONObject) -> str:
    text: str = result["content"][0]["text"]
    return text


@asynccontextmanager
async def client_of(folder: Path, *modes: str, **sections: Any) -> AsyncIterator[TaskClient]:
    """A client of a gateway to `engine_of`."""
    async with (
        engine_of(folder, *modes, **sections) as engine,
        served(engine) as address,
        TaskClient(address) as client,
    ):
        yield client
