"""Whatever is sent to `/mcp`, the answer is one of the protocol, and the next request is served."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.test_serving import damaged
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import service_of
from tests.unit.server.wire import INITIALIZE, MODERN, request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-8", "SRV-27")]

CALL = request(1, "tools/call", name="list_mcp_servers", arguments={}, _meta=MODERN)
VALUES = st.one_of(
    st.sampled_from(
        b"2026-07-28 2025-03-26 2025-11-25 tools/call tools/list list_mcp_servers application/json"
        b" text/event-stream */* =?base64?bGlzdF9tY3Bfc2VydmVycw==?= =?base64??= \xff\xfe"
        b" 99999999999999999999".split(b" ")
    ),
    st.binary(max_size=8),
)
NAMES = st.sampled_from(
    b"mcp-protocol-version mcp-method mcp-name mcp-session-id mcp-param-x accept content-type"
    b" content-length last-event-id".split()
)
USUAL = [
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
]
STATELESS = [
    *USUAL,
    (b"mcp-protocol-version", b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"list_mcp_servers"),
]
HEADERS = st.tuples(
    st.sampled_from([[], USUAL, STATELESS]), st.lists(st.tuples(NAMES, VALUES), max_size=3)
).map(lambda parts: [*parts[0], *parts[1]])
BODIES = st.one_of(
    st.binary(max_size=20),
    damaged(),
    st.sampled_from([CALL, INITIALIZE, [INITIALIZE, CALL], {**CALL, "id": None}]).map(
        lambda value: json.dumps(value).encode()
    ),
)


class Exchange:
    """One request to an application, and what it answered."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.content = b""
        self.is_whole = False

    async def receive(self) -> Any:
        body, self._body = self._body, None
        if body is None:
            await anyio.sleep_forever()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        assert not self.is_whole
        if message["type"] == "http.response.start":
            assert not self.status
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            assert self.status
            self.content += message.get("body", b"")
            self.is_whole = not message.get("more_body")


async def exchange(
    app: Any, method: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> Exchange:
    made = Exchange(body)
    sent = [(b"host", b"localhost"), *headers]
    scope = {"type": "http", "method": method, "path": "/mcp", "headers": sent}
    with anyio.move_on_after(0 if method == "GET" else 20):
        await app(scope, made.receive, made.send)
    return made


@settings(max_examples=400)
@given(st.sampled_from(["POST", "POST", "POST", "DELETE", "PUT", "HEAD"]), HEADERS, BODIES)
async def test_any_request_is_answered_with_a_message_or_nothing(
    method: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    app = service_of(make_engine()).app

    answer = await exchange(app, method, headers, body)
    opened = await exchange(app, "POST", USUAL, json.dumps(INITIALIZE).encode())

    assert answer.is_whole
    assert answer.status in {200, 202, 400, 404, 405, 406, 413, 415}
    if length := answer.headers.get(b"content-length"):
        assert len(answer.content) == int(length)
    if answer.content:
        message = json.loads(answer.content.rpartition(b"data: ")[2])
        for one in message if isinstance(message, list) else [message]:
            assert one["jsonrpc"] == "2.0"
            assert ("result" in one) != ("error" in one)
    assert (opened.status, b"mcp-session-id" in opened.headers) == (200, True)


@settings(max_examples=200)
@given(st.text())
async def test_no_text_of_a_result_ends_its_event(text: str) -> None:
    engine = make_engine()
    engine.result = {"content": [{"type": "text", "text": text}]}
    app = service_of(engine).app
    arguments = {"tool": "list_issues"}
    call = request(1, "tools/call", name="execute_tool", arguments=arguments, _meta=MODERN)
    headers = [*STATELESS[:-1], (b"mcp-name", b"execute_tool")]
    headers[1] = (b"accept", b"text/event-stream")

    answer = await exchange(app, "POST", headers, json.dumps(call).encode())

    [event, data, *rest] = answer.content.decode().split("\n")
    assert (event, rest) == ("event: message", ["", ""])
    assert "\r" not in data
    assert json.loads(data.removeprefix("data: "))["id"] == 1
