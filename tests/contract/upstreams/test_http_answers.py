"""Answers of remote servers that are none of MCP: lost sessions, refusals, unusable ones."""

from __future__ import annotations

import gzip
import json

import pytest

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import DiscoveryError, UnavailableError, UpstreamProtocolError
from tests.servers.programs import call, remote_server, upstreams
from tests.servers.scripted import (
    EVENTS,
    Asked,
    Reply,
    events,
    reply_to,
    result_of,
    scripted_http,
    usual,
)

pytestmark = pytest.mark.anyio

TEXT = {"content-type": "text/plain"}


def error(code: int, message: str) -> JSONObject:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}


LOST: dict[str, Reply] = {
    "404": Reply(404),
    "400, JSON-RPC": Reply(400, error(-32000, "Bad Request: No valid session ID provided")),
    "400, text": Reply(400, b"Invalid session ID", TEXT),
    "400, not initialized": Reply(400, error(-32000, "Bad Request: Server not initialized")),
    "410": Reply(410, {"error": "Session expired"}),
    "200, -32001": Reply(200, error(-32001, "Session not found")),
    "200, -32600": Reply(200, error(-32600, "Session has expired. Please reinitialize.")),
    "200, named": Reply(200, error(-32001, "Session SID does not exist")),
    "200, a word": Reply(200, {"error": "Session not found"}),
    "event, -32001": events(error(-32001, "Session not found")),
    "event, a word": events({"error": "Session not found"}),
    "event, several lines": events(b'{"error":\ndata: "Session not found"}'),
    "event, compressed": Reply(
        200,
        gzip.compress(b'data: {"error": "Session not found"}\n\n'),
        {"content-type": EVENTS, "content-encoding": "gzip"},
    ),
}
NOT_LOST = {
    "of the tool": Reply(200, error(-32000, "Browser session not found")),
    "of another id": Reply(200, error(-32001, "Session 4711 not found")),
    "of an argument": Reply(200, error(-32602, "Session not found")),
    "500": Reply(500, b"Session not found", TEXT),
}


class Forgetful:
    """Forgets its first session when a tool is called; its path says how it says so."""

    def __init__(self, replies: dict[str, Reply]) -> None:
        self._replies = replies
        self.calls = 0
        """In sessions that it knows, or answered in another way."""
        self._sessions = 0

    def __call__(self, asked: Asked) -> Reply:
        if asked.rpc_method == "initialize":
            self._sessions += 1
            return usual(asked, session=f"sid-{self._sessions}")
        if asked.rpc_method != "tools/call":
            return usual(asked)
        self.calls += 1
        if asked.headers["mcp-session-id"] != "sid-1":
            return usual(asked)
        reply = self._replies[asked.path.strip("/").replace("%20", " ")]
        if isinstance(reply.body, bytes):
            return reply
        text = json.dumps(reply.body).replace("SID", asked.headers["mcp-session-id"])
        return reply._replace(body=text.encode())


@pytest.mark.requirement("UPS-17")
async def test_a_call_is_sent_again_in_a_new_session_however_the_old_one_is_refused() -> None:
    wrong: list[str] = []
    for name, reply in (LOST | NOT_LOST).items():
        server = Forgetful({name: reply})
        with scripted_http(server) as url:
            async with upstreams() as opened:
                try:
                    outcome = await call(opened, remote_server(f"{url}/{name}"), text="hi")
                except DiscoveryError as failure:
                    outcome = str(failure)
        is_lost = "hi" in outcome and server.calls == 2
        if is_lost != (name in LOST) or "validation error" in outcome:
            wrong.append(f"{name}: {outcome}, {server.calls} calls")

    assert wrong == []


@pytest.mark.requirement("UPS-17")
async def test_a_session_that_is_refused_again_is_told_in_the_words_of_the_server() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.rpc_method == "tools/call":
            return Reply(200, error(-32001, "Session not found"))
        return usual(asked, session="sid")

    with scripted_http(answer) as url:
        async with upstreams() as opened:
            with pytest.raises(UpstreamProtocolError) as caught:
                await call(opened, remote_server(url))

    assert caught.value.message == "server 'remote' answered error -32001: \"Session not found\""


REFUSALS: dict[str, tuple[Reply, str]] = {
    "text": (Reply(421, b"Invalid Host header", TEXT), 'it answered "Invalid Host header"'),
    "json": (
        Reply(403, {"message": "this address is not allowed; see Settings > Network"}),
        'it answered "this address is not allowed; see Settings > Network"',
    ),
    "nested": (
        Reply(400, {"error": {"code": 7, "hint": "use\u202e https"}, "doc": "d"}),
        'it answered "error: code: 7; hint: use https; doc: d"',
    ),
    "page": (
        Reply(502, b"<html><head><title>Bad &amp; down</title>", {"content-type": "text/html"}),
        'it answered "Bad & down"',
    ),
    "secret": (
        Reply(403, b"no access for k3y-0123456789-abcdef", TEXT),
        "no access for",
    ),
    "long": (Reply(400, b"x" * 60_000, TEXT), "xxx…"),
    "empty": (Reply(500), ""),
}  # fmt: skip


@pytest.mark.requirement("UPS-93")
async def test_the_owner_reads_what_a_refusal_says_and_an_agent_does_not() -> None:
    wrong: list[str] = []

    def answer(asked: Asked) -> Reply:
        return REFUSALS[asked.path.strip("/")][0]

    with scripted_http(answer) as url:
        async with upstreams() as opened:
            for name, (reply, said) in REFUSALS.items():
                server = remote_server(f"{url}/{name}", name=name, kind="http")
                with pytest.raises(UnavailableError) as caught:
                    await opened.list_tools(server)
                detail = caught.value.detail
                if said not in detail or len(detail) > 600 or (not said and detail):
                    wrong.append(f"{name}: {detail!r}")
                if f"HTTP {reply.status}" not in caught.value.reason or "answered" in str(
                    caught.value
                ):
                    wrong.append(f"{name}: {caught.value}")

    assert wrong == []


@pytest.mark.requirement("UPS-93")
async def test_the_pause_that_a_busy_server_asks_for_is_said_with_a_hint_that_fits() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(int(asked.path.strip("/")), b"", {"retry-after": "7"})

    failures: dict[int, UnavailableError] = {}
    with scripted_http(answer) as url:
        async with upstreams() as opened:
            for status in (429, 503):
                server = remote_server(f"{url}/{status}", name=f"s{status}", kind="http")
                with pytest.raises(UnavailableError) as caught:
                    await opened.list_tools(server)
                failures[status] = caught.value

    assert {status: failure.retry_after for status, failure in failures.items()} == {
        429: 7.0,
        503: 7.0,
    }
    assert all("7 s" in failure.reason for failure in failures.values())
    assert "`limits.callsPerMinute` of server 's429'" in failures[429].hint
    assert all("`url`" not in failure.hint for failure in failures.values())


UNUSABLE: dict[str, tuple[Reply, str]] = {
    "null": (Reply(200, b"null"), "it is null"),
    "list": (Reply(200, b"[]"), "it is a list"),
    "text": (Reply(200, b'"hi"'), "it is a text"),
    "page": (Reply(200, b"<html>", {"content-type": "text/html"}), "answers with text/html"),
    "object": (Reply(200, {"hello": "world"}), "it has neither `result` nor `error`"),
    "cut": (Reply(200, b'{"jsonrpc":'), "it cannot be read"),
    "cut-event": (Reply(200, b'data: {"jsonrpc": "2.0", "id"', {"content-type": EVENTS}),
                  "its event stream ended without a whole answer"),
    "no-type": (Reply(200, b"{}", {"content-type": None}), "has no Content-Type"),
    "nothing": (Reply(200, b"", {"content-type": None}), "it answers with nothing"),
}  # fmt: skip


@pytest.mark.requirement("UPS-11")
async def test_an_answer_that_is_none_is_named_and_no_error_code_is_made_up() -> None:
    wrong: list[str] = []

    def answer(asked: Asked) -> Reply:
        return UNUSABLE[asked.path.strip("/")][0]

    def answer_call(asked: Asked) -> Reply:
        return answer(asked) if asked.rpc_method == "tools/call" else usual(asked)

    for is_at_start, script in ((True, answer), (False, answer_call)):
        with scripted_http(script) as url:
            async with upstreams() as opened:
                for name, (_, said) in UNUSABLE.items():
                    server = remote_server(f"{url}/{name}", name=name, kind="http")
                    with pytest.raises(DiscoveryError) as caught:
                        await (opened.list_tools(server) if is_at_start else call(opened, server))
                    if said not in caught.value.message or "-32" in caught.value.message:
                        wrong.append(f"{name}: {caught.value}")

    assert wrong == []


def with_id(asked: Asked, **members: JSONValue) -> JSONObject:
    return reply_to(asked, result_of("tools/call", asked.message["params"])) | members


@pytest.mark.requirement("UPS-83")
async def test_an_answer_in_an_unusual_form_is_an_answer() -> None:
    forms = {
        "id as a float": lambda asked: with_id(asked, id=float(asked.message["id"])),
        "in a list": lambda asked: [
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {}},
            with_id(asked),
        ],
        "no version": lambda asked: {k: v for k, v in with_id(asked).items() if k != "jsonrpc"},
        "a vendor's member": lambda asked: with_id(asked, vendor=1),
    }
    wrong: list[str] = []

    def answer(asked: Asked) -> Reply:
        if asked.rpc_method != "tools/call":
            return usual(asked)
        kind, _, name = asked.path.strip("/").replace("%20", " ").partition("/")
        body = forms[name](asked)
        return events(b"ping", body) if kind == "events" else Reply(200, body)

    with scripted_http(answer) as url:
        async with upstreams() as opened:
            for name in forms:
                for kind in ("json", "events"):
                    server = remote_server(f"{url}/{kind}/{name}")
                    try:
                        assert json.loads(await call(opened, server, text="hi")) == {"text": "hi"}
                    except (DiscoveryError, AssertionError) as failure:
                        wrong.append(f"{kind}, {name}: {failure}")

    assert wrong == []
