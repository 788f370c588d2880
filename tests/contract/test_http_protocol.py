"""Our streamable HTTP beside the SDK's: the same requests, and what each answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from discovery_server.gateway import Gateway
from tests.unit.server.fakes import make_engine
from tests.unit.server.sdk_oracle import served_by_sdk
from tests.unit.server.web import SessionClient, served
from tests.unit.server.wire import HANDSHAKE, INITIALIZE, INITIALIZED, MODERN, request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-27")]

Case = tuple[str, dict[str, Any]]
"""A method of HTTP, and the other arguments of a request."""
Outcome = tuple[int, str, Any]
"""The status, the kind of the body, and the result's members or the error's code."""

CALL = {"name": "list_mcp_servers", "arguments": {}}
BOTH = "application/json, text/event-stream"
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
    message = request(1, "tools/call", **CALL, _meta=envelope())
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
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/x"}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}
ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}
FUTURE = "2099-01-01"
STATELESS: dict[str, Case] = {
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
IN_SESSION: dict[str, Case] = {
    "ping": post(request(1, "ping")),
    "list": post(request("a", "tools/list")),
    "call": post(request(1, "tools/call", **CALL)),
    "unknown method": post(request(1, "tools/destroy")),
    "wrong params": post(request(1, "tools/call", name=5)),
    "an unknown tool": post(request(1, "tools/call", name="x", arguments={})),
    "notification": post(NOTIFICATION),
    "response": post(RESULT),
    "error": post(ERROR),
    "a stream that cannot be read": ("GET", {"headers": {"accept": JSON}}),
    "another method of HTTP": ("PUT", {"json": request(1, "ping")}),
    "end": ("DELETE", {}),
    "after the end": post(request(1, "ping")),
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


async def test_requests_without_a_session_are_answered_as_by_the_sdk() -> None:
    assert await compared(STATELESS, session=False) == _expected(STATELESS)


async def test_requests_in_a_session_are_answered_as_by_the_sdk() -> None:
    assert await compared(IN_SESSION, session=True) == _expected(IN_SESSION)
