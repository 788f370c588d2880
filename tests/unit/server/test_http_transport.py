"""Streamable HTTP towards clients that speak it by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_server.http import http_server, streams
from discovery_server.http.sessions import Session
from tests.rows import rows
from tests.unit.server.fakes import Call, FakeEngine, make_engine
from tests.unit.server.web import SessionClient, running, served, service_of
from tests.unit.server.wire import INITIALIZE, MODERN, request

pytestmark = pytest.mark.anyio

EXECUTE = {"name": "execute_tool", "arguments": {"tool": "list_issues"}}
EVENTS = {"accept": "text/event-stream"}
TOKEN = {"_meta": {"progressToken": "p"}}


class Waiting:
    """An engine whose calls report progress, and wait to be released."""

    def __init__(self, *, progress: int = 0) -> None:
        self.engine: FakeEngine = make_engine()
        self.engine.execution = self._execute
        self.entered, self.release, self.cancelled = anyio.Event(), anyio.Event(), anyio.Event()
        self._progress = progress

    async def _execute(self, call: Call) -> JSONObject:
        for number in range(self._progress):
            assert call.on_progress
            await call.on_progress(number, None, None)
        self.entered.set()
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return {"content": [{"type": "text", "text": "done"}]}


def events(answer: httpx2.Response) -> list[JSONObject]:
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def kind(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("content-type", "")


@pytest.mark.requirement("SRV-27")
async def test_an_answer_that_nothing_precedes_is_json_and_has_its_length() -> None:
    async with served(make_engine()) as address, SessionClient(address) as client:
        session = await client.open()
        answer = await client.request("POST", session, request(1, "tools/call", **EXECUTE))

    assert kind(answer) == (200, "application/json")
    assert answer.json()["id"] == 1
    assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.requirement("SRV-27", "MET-20")
async def test_progress_turns_the_answer_into_events_with_the_answer_last() -> None:
    waiting = Waiting(progress=3)
    waiting.release.set()
    async with served(waiting.engine) as address, SessionClient(address) as client:
        session = await client.open()
        message = request(1, "tools/call", **EXECUTE, **TOKEN)
        answer = await client.request("POST", session, message)

    *progress, last = events(answer)
    assert kind(answer) == (200, "text/event-stream")
    assert [one["params"]["progress"] for one in progress] == [0, 1, 2]
    assert last["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("SRV-27")
@rows(
    ("accept", "expected"),
    [
        ("text/event-stream", "text/event-stream"),
        ("application/json", "application/json"),
        ("application/json;q=0.5, text/event-stream", "application/json"),
        ("*/*", "application/json"),
        ("TEXT/*", "text/event-stream"),
    ],
)
async def test_the_answer_is_of_a_kind_that_the_client_accepts(accept: str, expected: str) -> None:
    waiting = Waiting(progress=2)
    waiting.release.set()
    message = request(1, "tools/call", **EXECUTE)
    async with served(waiting.engine) as address, SessionClient(address) as client:
        waiting._progress = 0
        headers = {"mcp-session-id": await client.open(), "accept": accept}
        answer = await client.http.post(address, json=message, headers=headers)

    assert kind(answer) == (200, expected)
    found = events(answer)[-1] if "event" in expected else answer.json()
    assert found["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("SRV-27")
async def test_a_client_that_accepts_json_alone_gets_the_answer_without_progress() -> None:
    waiting = Waiting(progress=2)
    waiting.release.set()
    async with served(waiting.engine) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open(), "accept": "application/json"}
        message = request(1, "tools/call", **EXECUTE, **TOKEN)
        answer = await client.http.post(address, json=message, headers=headers)

    assert answer.json()["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("SRV-27")
async def test_a_long_call_is_kept_alive_by_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PING_INTERVAL", 0.01)
    waiting = Waiting()
    async with served(waiting.engine) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open()}
        message = request(1, "tools/call", **EXECUTE)
        call = client.http.stream("POST", address, json=message, headers=headers)
        async with call as answer:
            lines = answer.aiter_lines()
            pings = [await anext(lines) for _ in range(3)]
            waiting.release.set()
            rest = [line async for line in lines if line.startswith("data: ")]

    assert ": ping" in pings
    assert json.loads(rest[0].removeprefix("data: "))["id"] == 1


@pytest.mark.requirement("SRV-27")
async def test_messages_that_need_no_answer_are_accepted_without_one() -> None:
    response = {"jsonrpc": "2.0", "id": 5, "result": {}}
    notification = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    async with served(make_engine()) as address, SessionClient(address) as client:
        session = await client.open()
        answers = [await client.request("POST", session, one) for one in (response, notification)]

    assert [(one.status_code, one.content) for one in answers] == [(202, b"")] * 2


OLD = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": "2025-03-26"}}


async def batch(body: Any, opening: JSONObject = OLD) -> httpx2.Response:
    async with served(make_engine()) as address, SessionClient(address) as client:
        opened = await client.http.post(address, json=opening)
        headers = {"mcp-session-id": opened.headers["mcp-session-id"]}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await client.http.post(address, json=initialized, headers=headers)
        return await client.http.post(address, json=body, headers=headers)


@pytest.mark.requirement("SRV-37")
async def test_a_batch_of_its_version_is_answered_with_an_array() -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    requests = [request(1, "ping"), notification, request(2, "tools/call", **EXECUTE)]

    answer = await batch(requests)

    assert sorted(one["id"] for one in answer.json()) == [1, 2]


@pytest.mark.requirement("SRV-37")
async def test_a_batch_of_notifications_is_accepted_without_an_answer() -> None:
    answer = await batch([{"jsonrpc": "2.0", "method": "notifications/whatever"}] * 2)

    assert (answer.status_code, answer.content) == (202, b"")


@pytest.mark.requirement("SRV-37")
@rows("opening", [OLD, INITIALIZE], ids=["2025-03-26", "2025-11-25"])
@rows("body", [[], [5], [request(1, "ping"), {}]], ids=["none", "5", "mixed"])
async def test_what_is_no_batch_is_refused_as_a_whole(opening: JSONObject, body: Any) -> None:
    answer = await batch(body, opening)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.requirement("SRV-37")
async def test_other_versions_have_no_batches() -> None:
    answer = await batch([request(1, "ping")], INITIALIZE)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)


@asynccontextmanager
async def calling(
    client: SessionClient, address: str, waiting: Waiting, message: JSONObject, **headers: str
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
    message = request(1, "tools/call", **EXECUTE, _meta=MODERN)
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "execute_tool",
    }
    async with (
        served(waiting.engine) as address,
        SessionClient(address) as client,
        calling(client, address, waiting, message, **headers) as (connection, answers),
    ):
        connection.cancel()
        await waiting.cancelled.wait()

    assert answers == []


@pytest.mark.requirement("SRV-29")
async def test_before_that_a_lost_connection_cancels_nothing() -> None:
    waiting = Waiting()
    message = request(1, "tools/call", **EXECUTE)
    async with served(waiting.engine) as address, SessionClient(address) as client:
        session = await client.open()
        headers = {"mcp-session-id": session}
        async with calling(client, address, waiting, message, **headers) as (connection, _):
            connection.cancel()
        await client.request("POST", session)
        was_cancelled = waiting.cancelled.is_set()
        waiting.release.set()

    assert not was_cancelled


@pytest.mark.requirement("SRV-29")
async def test_a_call_that_is_cancelled_by_a_notification_is_answered_with_an_error() -> None:
    waiting = Waiting()
    message = request(1, "tools/call", **EXECUTE)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    async with served(waiting.engine) as address, SessionClient(address) as client:
        session = await client.open()
        headers = {"mcp-session-id": session}
        async with calling(client, address, waiting, message, **headers) as (_, answers):
            await client.request("POST", session, cancel)
            await waiting.cancelled.wait()

    assert answers[0].json()["error"] == {"code": -32800, "message": "Request cancelled"}


@pytest.mark.requirement("SRV-34")
async def test_the_end_of_a_session_ends_its_calls_and_its_stream() -> None:
    waiting = Waiting()
    message = request(1, "tools/call", **EXECUTE)
    async with served(waiting.engine) as address, SessionClient(address) as client:
        session = await client.open()
        headers = {"mcp-session-id": session}
        async with client.http.stream("GET", address, headers={**headers, **EVENTS}) as stream:
            async with calling(client, address, waiting, message, **headers) as (_, answers):
                await client.request("DELETE", session)
            rest = [line async for line in stream.aiter_lines()]

    assert answers[0].json()["error"]["code"] == -32000
    assert rest == []


@pytest.mark.requirement("SRV-36")
async def test_a_session_has_one_stream_at_a_time() -> None:
    async with served(make_engine()) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open(), **EVENTS}
        async with client.http.stream("GET", address, headers=headers) as first:
            second = await client.http.get(address, headers=headers)
        third = 409
        while third == 409:  # until the server knows that the first connection is lost
            async with client.http.stream("GET", address, headers=headers) as answer:
                third = answer.status_code

    assert first.headers["content-type"] == "text/event-stream"
    assert second.status_code == 409
    assert third == 200


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Session, Any]]:
    """A session, and the lines of its stream."""
    service = service_of(make_engine())
    async with running(service) as address, SessionClient(address) as client:
        headers = {"mcp-session-id": await client.open(), **EVENTS}
        async with client.http.stream("GET", address, headers=headers) as stream:
            [session] = service._mcp._sessions._open.values()
            yield session, stream


@pytest.mark.requirement("SRV-36")
async def test_unsolicited_messages_are_events_of_the_stream() -> None:
    async with listening() as (session, stream):
        assert session.connection.standalone
        for number in (1, 2):
            message = {"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": number}}
            session.connection.standalone.write(message)
        lines = stream.aiter_lines()
        got = [await anext(lines) for _ in range(6)]

    assert [line for line in got if line.startswith("event")] == ["event: message"] * 2
    assert '"n":2' in got[4]


@pytest.mark.requirement("SRV-36")
async def test_a_client_that_does_not_read_its_stream_loses_it_and_may_open_another() -> None:
    async with listening() as (session, first):
        unread = session.listening
        assert unread
        written = 0
        while not unread.is_closed and written < 100_000_000:
            unread.write({"jsonrpc": "2.0", "method": "x", "params": {"x": "x" * 1_000_000}})
            written += 1_000_000
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
        async with SessionClient(str(first.request.url)) as client:
            headers = {"mcp-session-id": session.id, **EVENTS}
            async with client.http.stream("GET", first.request.url, headers=headers) as second:
                await first.aclose()
                status = second.status_code

    assert written < 50_000_000
    assert status == 200


@pytest.mark.requirement("SRV-27")
@rows("path", ["/", "/mcp/x", "/mcpx", "/MCP", "/.well-known/oauth"])
async def test_other_addresses_are_not_found(path: str) -> None:
    async with served(make_engine()) as address, SessionClient(address) as client:
        answer = await client.http.post(address.replace("/mcp", path), json=INITIALIZE)

    assert answer.status_code == 404


@pytest.mark.requirement("SRV-27")
async def test_a_slash_behind_the_address_does_not_matter() -> None:
    async with served(make_engine()) as address, SessionClient(f"{address}/") as client:
        assert await client.open()


@pytest.mark.requirement("SRV-17")
async def test_a_subscription_ends_at_once_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = request(1, "subscriptions/listen", notifications={}, _meta=MODERN)
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
    monkeypatch.setattr(http_server, "_GRACE", 3600)
    service = service_of(make_engine())

    async with (
        running(service) as address,
        SessionClient(address) as client,
        client.http.stream("POST", address, json=message, headers=headers) as stream,
    ):
        lines = stream.aiter_lines()
        first = [await anext(lines) for _ in range(2)]
        service.stop()
        rest = [line async for line in lines if line]

    assert "acknowledged" in first[1]
    assert rest == []
