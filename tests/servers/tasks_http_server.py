"""A server with the tasks that the official conformance suite asks for, made with the SDK.

    python tasks_http_server.py stdio|http [--tools PREFIX]

Over HTTP it prints its port first. With a prefix it has only the tools whose names begin with it,
named by the rest. The SDK has no tasks of this revision, so they are here.
"""

from __future__ import annotations

import argparse
import secrets
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MISSING: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
CACHED = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}


class TaskParams(types.RequestParams):
    taskId: str  # noqa: N815 - as on the wire
    inputResponses: dict[str, Any] | None = None  # noqa: N815


def text(value: str, **more: Any) -> dict[str, Any]:
    block = {"type": "text", "text": value}
    return {"resultType": "complete", "content": [block], **more}


def form(message: str, **properties: Any) -> dict[str, Any]:
    wanted = {"type": "object", "properties": properties, "required": list(properties)}
    params = {"mode": "form", "message": message, "requestedSchema": wanted}
    return {"method": "elicitation/create", "params": params}


CONFIRM = {"confirm": {"type": "boolean"}}
NAME = {"name": {"type": "string"}}


class Task:
    """One call, in the background."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(24)
        self.created = self.updated = now()
        self.state: dict[str, Any] = {"status": "working"}
        self.open: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.scope = anyio.CancelScope()
        self._answered = anyio.Event()

    @property
    def fields(self) -> dict[str, Any]:
        state = self.state
        if self.open and state["status"] == "working":
            state = {"status": "input_required", "inputRequests": self.open}
        return {
            "taskId": self.id,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": 600_000,
            "pollIntervalMs": 200,
            **state,
        }

    async def run(self, work: Callable[[Task], Awaitable[dict[str, Any]]]) -> None:
        self.state_now(status="cancelled")
        with self.scope:
            self.state_now(status="working")
            try:
                result = await work(self)
                self.state_now(status="completed", result=result)
            except MCPError as error:
                failure = {"code": error.code, "message": error.message}
                self.state_now(status="failed", error=failure, statusMessage=error.message)
        if self.scope.cancelled_caught:
            self.state_now(status="cancelled")

    def state_now(self, **state: Any) -> None:
        self.state, self.updated = state, now()

    async def ask(self, **questions: Any) -> dict[str, Any]:
        self.open = dict(questions)
        while self.open:
            await self._answered.wait()
        return self.given

    def answer(self, responses: dict[str, Any]) -> None:
        for key in self.open.keys() & responses.keys():
            self.given[key] = responses[key]
            del self.open[key]
        answered, self._answered = self._answered, anyio.Event()
        answered.set()


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


TASKS: dict[str, Task] = {}


# -- tools ---------------------------------------------------------------------------------------


async def slow_compute(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    await anyio.sleep(arguments["seconds"])
    return text(f"computed {arguments.get('label', '')}")


async def failing_job(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    return text("the job failed", isError=True)


async def protocol_error_job(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    raise MCPError(-32603, "the job broke")


async def confirm_delete(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    given = await task.ask(sure=form(f"Delete {arguments['filename']}?", **CONFIRM))
    return text(f"{arguments['filename']}: {given['sure']['action']}")


async def multi_input(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    given = await task.ask(first=form("First?", **NAME), second=form("Second?", **NAME))
    return text(f"got {sorted(given)}")


async def test_tool_with_task(task: Task, arguments: dict[str, Any]) -> dict[str, Any]:
    return text(f"Hello, {arguments['user_name']}!")


TOOLS: dict[str, Any] = {
    "greet": None,
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
    "test_tool_with_task": test_tool_with_task,
}
ONLY_AS_TASKS = ("failing_job", "test_tool_with_task")
PROPERTIES: dict[str, Any] = {
    "greet": NAME,
    "slow_compute": {"seconds": {"type": "number"}, "label": {"type": "string"}},
    "confirm_delete": {"filename": {"type": "string"}},
}


async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
    listed = [
        {
            "name": name.removeprefix(OPTIONS.tools),
            "description": f"The tool {name}",
            "inputSchema": {"type": "object", "properties": PROPERTIES.get(name, {})},
        }
        for name in TOOLS
        if name.startswith(OPTIONS.tools)
    ]
    return {"tools": listed, **CACHED}


def knows_tasks(ctx: Any) -> bool:
    meta = (ctx.params or {}).get("_meta") or {}
    return EXTENSION in (meta.get(CAPABILITIES, {}).get("extensions") or {})


async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    name, arguments = OPTIONS.tools + params.name, dict(params.arguments or {})
    if name == "greet":
        return text(f"Hello, {arguments['name']}!")
    if not knows_tasks(ctx) and name in ONLY_AS_TASKS:
        raise MCPError(-32021, "Missing required client capability", MISSING)
    if name == "test_tool_with_task":
        given = ((ctx.params or {}).get("inputResponses") or {}).get("user_name")
        if given is None:
            asked = {"user_name": form("What is your name?", **NAME)}
            return {"resultType": "input_required", "inputRequests": asked}
        arguments["user_name"] = next(iter((given.get("content") or {"name": "?"}).values()))
    task = Task()

    async def work(task: Task) -> dict[str, Any]:
        done: dict[str, Any] = await TOOLS[name](task, arguments)
        return done

    if not knows_tasks(ctx):
        await task.run(work)
        result: dict[str, Any] = task.state["result"]
        return result
    TASKS[task.id] = task
    GROUP.start_soon(task.run, work)
    return {"resultType": "task", **task.fields}


# -- tasks ---------------------------------------------------------------------------------------


def found(ctx: Any, params: Any) -> Task:
    if not knows_tasks(ctx):
        raise MCPError(-32021, "Missing required client capability", MISSING)
    if params.taskId not in TASKS:
        raise MCPError(-32602, "Failed to retrieve task: Task not found")
    return TASKS[params.taskId]


async def get(ctx: Any, params: Any) -> dict[str, Any]:
    return {"resultType": "complete", **found(ctx, params).fields}


async def update(ctx: Any, params: Any) -> dict[str, Any]:
    found(ctx, params).answer(params.inputResponses or {})
    return {"resultType": "complete"}


async def cancel(ctx: Any, params: Any) -> dict[str, Any]:
    found(ctx, params).scope.cancel()
    return {"resultType": "complete"}


def make_server() -> Server[Any]:
    server: Server[Any] = Server("tasks", version="1", get_tool_input_schema=lambda _: {})
    server.extensions = {EXTENSION: {}}
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("tasks/get", TaskParams, get)
    server.add_request_handler("tasks/update", TaskParams, update)
    server.add_request_handler("tasks/cancel", TaskParams, cancel)
    return server


async def main() -> None:
    global GROUP
    async with anyio.create_task_group() as GROUP:
        server = make_server()
        if OPTIONS.transport == "stdio":
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        else:
            listener = socket.create_server(("127.0.0.1", 0))
            print(listener.getsockname()[1], flush=True)  # noqa: T201
            app = server.streamable_http_app(streamable_http_path="/mcp")
            config = uvicorn.Config(app, log_level="error")
            await uvicorn.Server(config).serve(sockets=[listener])
        GROUP.cancel_scope.cancel()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--tools", default="")
    return parser.parse_args()


GROUP: TaskGroup

if __name__ == "__main__":
    OPTIONS = options()
    anyio.run(main)
