"""Streamable HTTP towards clients that speak it by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from tests.rows import rows
from tests.unit.server.fakes import Call, FakeEngine, make_engine
from tests.unit.server.web import SessionClient, running, served, service_of, unhurried
from tests.unit.server.wire import INITIALIZE, MODERN, request

pytestmark = pytest.mark.anyio

EXECUTE = {"name": "execute_tool", "arguments": {"tool": "list_issues"}}
CALL = request(1, "tools/call", **EXECUTE)
STATELESS = request(1, "tools/call", **EXECUTE, _meta=MODERN)
STATELESS_HEADERS = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "execute_tool",
}
EVENTS = {"accept": "text/event-stream"}
PING = request(1, "ping")
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/x"}
VERSION = "mcp-protocol-version"
UNREADABLE, NO_SESSION = {"accept": "text/html"}, {"mcp-session-id": "0" * 32}


class Waiting:
    """An engine whose calls report progress, and wait to be released."""

    def __init__(self, *, progress: int = 0) -> None:
        self.engine: FakeEngine = make_engine()
        self.engine.execution = self._execute
        self.entered, self.release, self.cancelled = anyio.Event(), anyio.Event(), anyio.Event()
        self._progress = progress

    async def _execute(self, call: Call) -> Any:
        for number in range(self._progress if call.on_progress else 0):
            await call.on_progress(number, None, None)  # type: ignore[misc]
        self.entered.set()
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return {"content": [{"type": "text", "text": "done"}]}


def messages(answer: httpx2.Response) -> list[Any]:
    """What a POST is answered with: one message, or those of events."""
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    if "event-stream" not in answer.headers["content-type"]:
        return [answer.json()]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.requirement("SRV-27", "MET-20")
@rows(
    ("accept", "progress", "kind"),
    [
        ("application/json, text/event-stream", 0, "application/json"),
        ("application/json, text/event-stream", 3, "text/event-stream"),
        ("text/event-stream", 0, "text/event-stream"),
        ("application/json", 3, "application/json"),
        ("*/*", 0, "application/json"),
    ],
)
async def test_an_answer_is_events_where_something_precedes_it_or_the_client_accepts_nothing_else(
    accept: str, progress: int, kind: str
) -> None:
    waiting = Waiting(progress=progress)
    waiting.release.set()
    meta = {"_meta": {"progressToken": "p"}} if progress else {}
    async with served(waiting.engine) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open(), "accept": accept}
        message = request(1, "tools/call", **EXECUTE, **meta)
        answer = await client.http.post(address, json=message, headers=headers)

    *before, last = messages(answer)
    is_json = kind == "application/json"
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    expected = [] if is_json else list(range(progress))
    assert [one["params"]["progress"] for one in before] == expected
    assert last["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("SRV-8")
async def test_a_batch_of_2025_03_26_is_answered_with_an_array_or_refused_as_a_whole() -> None:
    old = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-03-26"}}
    notification = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    async with served(make_engine()) as address, SessionClient(address) as client:
        opened = await client.http.post(address, json=old)
        headers = {"mcp-session-id": opened.headers["mcp-session-id"]}
        answers = [
            await client.http.post(address, json=batch, headers=headers)
            for batch in ([request(1, "ping"), notification, CALL | {"id": 2}], [notification] * 2)
        ]
        refused = await client.http.post(address, json=[request(1, "ping"), {}], headers=headers)

    assert sorted(one["id"] for one in answers[0].json()) == [1, 2]
    assert (answers[1].status_code, answers[1].content) == (202, b"")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)


@pytest.mark.requirement("SRV-27")
@rows(
    ("method", "headers", "message", "status", "code"),
    [
        ("POST", UNREADABLE, INITIALIZE, 406, -32600),
        ("POST", {**STATELESS_HEADERS, **UNREADABLE}, STATELESS, 406, -32600),
        ("POST", {"content-type": "text/plain"}, INITIALIZE, 415, -32600),
        ("POST", {"content-type": "application/json; charset=utf-8"}, INITIALIZE, 200, None),
        ("GET", {"accept": "application/json"}, None, 406, -32600),
        ("GET", NO_SESSION, None, 404, -32600),
        ("GET", EVENTS, None, 400, -32600),
        ("GET", {VERSION: "2026-07-28"}, None, 405, -32600),
        ("DELETE", {VERSION: "2026-07-28"}, None, 405, -32600),
        ("DELETE", {}, None, 400, -32600),
        ("PUT", {}, PING, 405, -32600),
        ("POST", {}, PING, 400, -32600),
        ("POST", {}, NOTIFICATION, 400, -32600),
        ("POST", {}, {}, 400, -32600),
        ("POST", NO_SESSION, PING, 404, -32600),
        ("POST", {}, STATELESS, 400, -32020),
        ("POST", {VERSION: "2026-07-28"}, NOTIFICATION, 202, None),
        ("POST", {VERSION: "2099-01-01"}, NOTIFICATION, 400, -32022),
        ("POST", {VERSION: "2026-07-28"}, [PING], 400, -32600),
        ("POST", STATELESS_HEADERS, request(1, "tools/call", **EXECUTE), 400, -32602),
    ],
)
async def test_a_request_that_is_not_as_specified_is_refused_with_its_status(
    method: str, headers: dict[str, str], message: Any, status: int, code: int | None
) -> None:
    async with served(make_engine()) as address, SessionClient(address) as client:
        answer = await client.http.request(method, address, json=message, headers=headers)

    error = answer.json().get("error") if answer.content else None
    assert (answer.status_code, error and error["code"]) == (status, code)
    assert "allow" in answer.headers or status != 405


@asynccontextmanager
async def calling(
    client: SessionClient, address: str, waiting: Waiting, message: Any, **headers: str
) -> AsyncIterator[tuple[anyio.CancelScope, list[httpx2.Response]]]:
    """A call in flight: the scope that ends its connection, and its answer later."""
    answers: list[httpx2.Response] = []
    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            answers.append(await client.http.post(address, json=message, headers=headers))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await waiting.entered.wait()
        yield scope, answers


@pytest.mark.requirement("SRV-29")
async def test_since_2026_07_28_a_client_cancels_a_request_by_closing_its_connection() -> None:
    waiting = Waiting()
    async with (
        served(waiting.engine) as address,
        SessionClient(address) as client,
        calling(client, address, waiting, STATELESS, **STATELESS_HEADERS) as (connection, answers),
    ):
        connection.cancel()
        await waiting.cancelled.wait()

    assert answers == []


@pytest.mark.requirement("SRV-29")
async def test_before_that_a_lost_connection_cancels_nothing_and_a_notification_does() -> None:
    lost, notified = Waiting(), Waiting()
    async with served(lost.engine) as address, SessionClient(address) as client:
        session = await client.open()
        headers = {"mcp-session-id": session}
        async with calling(client, address, lost, CALL, **headers) as (connection, _):
            connection.cancel()
        await client.request("POST", session)
        was_cancelled = lost.cancelled.is_set()
        lost.release.set()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with served(notified.engine) as address, SessionClient(address) as client:
        session = await client.open()
        headers = {"mcp-session-id": session}
        async with calling(client, address, notified, CALL, **headers) as (_, answers):
            await client.request("POST", session, cancel)
            await notified.cancelled.wait()

    assert not was_cancelled
    assert answers[0].json()["error"]["code"] == -32800


@pytest.mark.requirement("SRV-3")
async def test_on_shutdown_streams_end_at_once_and_a_call_may_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unhurried(monkeypatch)
    waiting = Waiting()
    service = service_of(waiting.engine)
    listen = request(2, "subscriptions/listen", notifications={}, _meta=MODERN)
    kinds = {**STATELESS_HEADERS, "mcp-method": "subscriptions/listen"}
    del kinds["mcp-name"]
    async with running(service) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open()}
        get = client.http.stream("GET", address, headers={**headers, **EVENTS})
        post = client.http.stream("POST", address, json=listen, headers=kinds)
        async with get as stream, post as subscription:
            lines = subscription.aiter_lines()
            first = [await anext(lines) for _ in range(2)]
            async with calling(client, address, waiting, CALL, **headers) as (_, answers):
                service.stop()
                rest = [line async for line in stream.aiter_lines()]
                rest += [line async for line in lines if line]
                waiting.release.set()

    assert "acknowledged" in first[1]
    assert rest == []
    assert answers[0].json()["result"]["content"][0]["text"] == "done"
