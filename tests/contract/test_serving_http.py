"""Streamable HTTP towards clients that speak it by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.unit.server.fakes import Call, FakeEngine, make_engine
from tests.unit.server.sdk_oracle import served_by_sdk
from tests.unit.server.web import SessionClient, running, served, service_of, unhurried
from tests.unit.server.wire import HANDSHAKE, INITIALIZE, INITIALIZED, MODERN, request

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


Case = tuple[str, dict[str, Any]]
"""A method of HTTP, and the other arguments of a request."""
Outcome = tuple[int, str, Any]
"""The status, the kind of the body, and the result's members or the error's code."""

SERVERS_CALL = {"name": "list_mcp_servers", "arguments": {}}
EVENTS, JSON, TEXT = "text/event-stream", "application/json", "text/plain"


def envelope(**changes: Any) -> dict[str, Any]:
    members = {**MODERN, **changes}
    return {key: value for key, value in members.items() if value is not ...}


VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def modern_headers(method: str, name: str | None = None, **changes: Any) -> dict[str, str]:
    headers: dict[str, Any] = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if name is not None:
        headers["mcp-name"] = name
    headers |= {key.replace("_", "-"): value for key, value in changes.items()}
    return {key: value for key, value in headers.items() if value is not ...}


def modern_call(**changes: Any) -> Case:
    message = request(1, "tools/call", **SERVERS_CALL, _meta=envelope())
    headers = modern_headers("tools/call", "list_mcp_servers", **changes)
    return "POST", {"json": message, "headers": headers}


def modern_list(*, meta: Any = ..., **changes: Any) -> Case:
    message = request(1, "tools/list", _meta=envelope() if meta is ... else meta)
    return "POST", {"json": message, "headers": modern_headers("tools/list", **changes)}


def post(message: Any, **headers: str) -> Case:
    return "POST", {
        "json": message,
        "headers": {k.replace("_", "-"): v for k, v in headers.items()},
    }


def modern(method: str, **headers: Any) -> Case:
    message = request(1, method, _meta=envelope())
    return "POST", {"json": message, "headers": modern_headers(method, **headers)}


UNKNOWN = {"mcp-session-id": "0" * 32}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}
FUTURE = "2099-01-01"
WITHOUT_SESSION: dict[str, Case] = {
    "initialize": post(INITIALIZE),
    "initialize in an unknown version": post(
        request(1, "initialize", **{**HANDSHAKE, "protocolVersion": "1.0"})
    ),
    "no session": post(request(1, "ping")),
    "a notification without a session": post(INITIALIZED),
    "an unknown session": post(request(1, "ping"), **UNKNOWN),
    "a header sent twice": (
        "POST",
        {"json": request(1, "ping"), "headers": [("mcp-session-id", "a")] * 2},
    ),
    "a stream without a session": ("GET", {"headers": {"accept": EVENTS}}),
    "a stream of an unknown session": ("GET", {"headers": UNKNOWN}),
    "the end of no session": ("DELETE", {}),
    "the end of an unknown session": ("DELETE", {"headers": UNKNOWN}),
    "discover": modern("server/discover"),
    "a list": modern_list(),
    "a call": modern_call(),
    "a call with a name in base64": modern_call(mcp_name="=?base64?bGlzdF9tY3Bfc2VydmVycw==?="),
    "a call with a name in bad base64": modern_call(mcp_name="=?base64?bGlz?="),
    "a call without its name": modern_call(mcp_name=...),
    "a call with another name": modern_call(mcp_name="search_tools"),
    "a call with another method": modern_call(mcp_method="tools/list"),
    "a call without its method": modern_call(mcp_method=...),
    "an unknown version": modern_list(mcp_protocol_version=FUTURE),
    "an unknown version in both": modern_list(
        meta=envelope(**{VERSION: FUTURE}), mcp_protocol_version=FUTURE
    ),
    "an envelope without headers": post(request(1, "tools/list", _meta=envelope())),
    "no envelope": modern_list(meta={}),
    "no capabilities": modern_list(meta=envelope(**{CAPABILITIES: ...})),
    "an envelope that is none": modern_list(meta=5),
    "a version that is no text": modern_list(meta=envelope(**{VERSION: 5})),
    "a method that does not exist": modern("tools/destroy"),
    "ping since 2026-07-28": modern("ping"),
    "a notification since 2026-07-28": post(INITIALIZED, **modern_headers(INITIALIZED["method"])),
    "a notification in an unknown version": post(INITIALIZED, mcp_protocol_version=FUTURE),
    "a response since 2026-07-28": post(RESULT, **modern_headers("x")),
    "a batch since 2026-07-28": post([request(1, "ping")], **modern_headers("ping")),
    "a stream since 2026-07-28": ("GET", {"headers": modern_headers("x", accept=EVENTS)}),
    "an end since 2026-07-28": ("DELETE", {"headers": modern_headers("x")}),
    "an answer that nobody could read": post(INITIALIZE, accept="text/html"),
    "an answer since 2026-07-28 that nobody could read": modern_list(accept="text/html"),
    "another kind of body": (
        "POST",
        {"content": json.dumps(INITIALIZE), "headers": {"content-type": TEXT}},
    ),
    "an empty body": ("POST", {"content": b""}),
    "another method of HTTP": ("PUT", {"json": INITIALIZE}),
}

WITH_REASON = "a refusal has a body that says why"
DIFFERENCES: dict[str, tuple[Outcome, Outcome, str]] = {
    "a stream since 2026-07-28": ((405, "message", -32600), (405, "", None), WITH_REASON),
    "an end since 2026-07-28": ((405, "message", -32600), (405, "", None), WITH_REASON),
    "an answer since 2026-07-28 that nobody could read": (
        (406, "message", -32600),
        (406, "", None),
        WITH_REASON,
    ),
    "another kind of body": ((415, "message", -32600), (400, "", None), "415 is its status"),
    "an envelope without headers": (
        (400, "message", -32020),
        (400, "message", -32600),
        "the SDK takes it for one of the handshake era, and asks for a session",
    ),
    "a header sent twice": (
        (400, "message", -32600),
        (404, "message", -32600),
        "two readers could take different values; the SDK joins them",
    ),
}
"""What each side answers, ours first, and the reason."""


async def outcome(client: SessionClient, address: str, case: Case, **headers: str) -> Outcome:
    method, parts = case
    more = parts.get("headers", {})
    sent = [*headers.items(), *(more.items() if isinstance(more, dict) else more)]
    body = {key: value for key, value in parts.items() if key != "headers"}
    answer = await client.http.request(method, address, headers=sent, **body)
    return answer.status_code, *_content(answer)


def _content(answer: httpx2.Response) -> tuple[str, Any]:
    kind = answer.headers.get("content-type", "").partition(";")[0]
    text = answer.text.rpartition("data: ")[2] if kind == EVENTS else answer.text
    if kind not in (JSON, EVENTS) or not text:
        return "", None
    message = json.loads(text)
    if "error" in message:
        return "message", message["error"]["code"]
    return "message", sorted(message["result"])


async def compared(cases: dict[str, Any], *, session: bool) -> dict[str, tuple[Outcome, Outcome]]:
    """What ours and the SDK answer, where that is different."""
    found: list[dict[str, Outcome]] = []
    gateway = Gateway(make_engine())
    for side in (served(make_engine()), served_by_sdk(gateway)):
        async with side as address, SessionClient(address) as client:
            ids = {"mcp-session-id": await client.open()} if session else {}
            found.append(
                {name: await outcome(client, address, case, **ids) for name, case in cases.items()}
            )
    ours, sdks = found
    return {name: (ours[name], sdks[name]) for name in cases if ours[name] != sdks[name]}


def _expected(names: Iterator[str] | Any) -> dict[str, tuple[Outcome, Outcome]]:
    return {name: DIFFERENCES[name][:2] for name in names if name in DIFFERENCES}


@pytest.mark.requirement("SRV-27")
async def test_requests_without_a_session_are_answered_as_by_the_sdk() -> None:
    assert await compared(WITHOUT_SESSION, session=False) == _expected(WITHOUT_SESSION)
