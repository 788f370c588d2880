"""What our client sends is what the SDK's client sends, byte by byte, but for what is listed."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import anyio
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.protocol import HANDSHAKE_VERSIONS
from discovery_engine.upstream.stdio.process import start_program
from tests.contract.rpc.conversation import (
    Client,
    Held,
    Script,
    held_by_both,
    our_client,
    sdk_client,
)
from tests.servers.programs import HERE

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("UPS-82")]


class Difference(NamedTuple):
    """What the SDK writes, and what ours writes in its place."""

    theirs: bytes
    ours: bytes
    reason: str


DIFFERENCES = (
    Difference(
        rb'"reason":"timed out after [^"]*"',
        rb'"reason":"timed out: [^"]*"',
        "the reason is free text for logs",
    ),
    Difference(
        rb'"reason":"caller cancelled"',
        rb'"reason":"the caller was cancelled"',
        "the reason is free text for logs",
    ),
    Difference(
        rb'"method":"tools/list"}',
        rb'"method":"tools/list","params":{}}',
        "both forms are allowed, and some servers read `params` without looking",
    ),
    Difference(
        rb'(?<=d":)"listen-\d+"',
        rb"\d+",
        "a request may have any id; ours are all numbers",
    ),
)
"""Every difference that is left. There is no other: not in the order of keys, nor in blanks, nor in
escapes, nor a trace context in `_meta`, which the SDK adds only within a span."""

SERVER_REQUESTS = {
    "ping": {},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
    "elicitation/create": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    "tasks/get": {"taskId": "1"},
    "nobody/knows": {},
}


def modern(message: JSONObject) -> Iterable[JSONObject]:
    """A server of the newer era; `hangs` is not answered."""
    complete = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    capabilities = {"tools": {"listChanged": True}}
    match message:
        case {"id": id_, "method": "server/discover"}:
            found = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
            yield {"id": id_, "result": complete | found}
        case {"id": id_, "method": "subscriptions/listen"}:
            meta = {"io.modelcontextprotocol/subscriptionId": id_}
            params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
            yield {"method": "notifications/subscriptions/acknowledged", "params": params}
        case _:
            yield from answered(message, complete)


def legacy(version: str, message: JSONObject) -> Iterable[JSONObject]:
    """A server of the older era."""
    match message:
        case {"id": id_, "method": "server/discover"}:
            yield {"id": id_, "error": {"code": -32601, "message": "Method not found"}}
        case {"id": id_, "method": "initialize"}:
            info = {"name": "s", "version": "1"}
            about = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            yield {"id": id_, "result": about}
        case _:
            yield from answered(message, {})


def answered(message: JSONObject, members: JSONObject) -> Iterable[JSONObject]:
    match message:
        case {"id": id_, "method": "tools/list"}:
            yield {"id": id_, "result": {"tools": [], **members}}
        case {"id": id_, "method": "tools/call", "params": {"name": "t", **params}}:
            token = params.get("_meta", {}).get("progressToken")
            if token is not None:
                note = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
                yield {"method": "notifications/progress", "params": note}
            yield {"id": id_, "result": {"content": [], **members}}


def is_equal_but_for_the_differences(ours: list[bytes], theirs: list[bytes]) -> bool:
    patterns = [expected_of_ours(line) for line in theirs]
    return len(ours) == len(theirs) and all(map(re.fullmatch, patterns, ours))


def expected_of_ours(line: bytes) -> bytes:
    """A pattern for the line that ours writes where the SDK writes this one."""
    expected, end = b"", 0
    for found in re.finditer(b"|".join(b"(%b)" % one.theirs for one in DIFFERENCES), line):
        assert found.lastindex is not None
        expected += re.escape(line[end : found.start()]) + DIFFERENCES[found.lastindex - 1].ours
        end = found.end()
    return expected + re.escape(line[end:])


async def compared(script: Callable[[], Script], talk: Any) -> list[JSONObject]:
    ours, theirs = await held_by_both(script, talk)
    assert is_equal_but_for_the_differences(ours.lines, theirs.lines), (ours, theirs)
    return ours.messages


def methods(messages: list[JSONObject]) -> list[str]:
    return [message.get("method", "answer") for message in messages]


async def lists_and_calls(client: Client, _: Held, *, version: str) -> None:
    seen: list[Any] = []

    async def on_progress(*report: Any) -> None:
        seen.append(report)

    assert await client.connect() == version
    await client.list_tools()
    await client.list_tools("näch\u2028ste Seite")
    assert (await client.call())[0] == "result"
    assert (await client.call(on_progress=on_progress))[0] == "result"
    assert seen == [(1, 2, "half")]


async def test_a_conversation_of_the_newer_era_is_the_same() -> None:
    messages = await compared(lambda: modern, partial(lists_and_calls, version="2026-07-28"))

    assert methods(messages) == ["server/discover", *["tools/list"] * 2, *["tools/call"] * 2]


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_a_conversation_of_the_older_era_is_the_same(version: str) -> None:
    talk = partial(lists_and_calls, version=version)
    messages = await compared(lambda: partial(legacy, version), talk)

    assert methods(messages)[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert methods(messages)[3:] == [*["tools/list"] * 2, *["tools/call"] * 2]


@pytest.mark.parametrize("version", ["2023-01-01", "2026-07-28", "", "2025-06-18 "])
async def test_an_answer_with_another_version_ends_the_handshake_without_a_word(
    version: str,
) -> None:
    async def talk(client: Client, _: Held) -> None:
        with pytest.raises((ValueError, RuntimeError)):  # ours, and the one of the SDK
            await client.connect(is_legacy=True)

    assert methods(await compared(lambda: partial(legacy, version), talk)) == ["initialize"]


@pytest.mark.parametrize("is_legacy", [False, True])
async def test_a_request_that_is_given_up_is_cancelled_in_the_same_way(is_legacy: bool) -> None:
    async def talk(client: Client, held: Held) -> None:
        await client.connect(is_legacy=is_legacy)
        assert await client.call("hangs", seconds=0.05) == ("timeout", None)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call, "hangs")
            await held.wait_for("tools/call", 2)
            tasks.cancel_scope.cancel()

    script = partial(legacy, "2025-11-25") if is_legacy else modern
    messages = await compared(lambda: script, talk)

    assert methods(messages)[-4:] == ["tools/call", "notifications/cancelled"] * 2
    for call, cancelled in (messages[-4:-2], messages[-2:]):
        assert cancelled["params"]["requestId"] == call["id"]


async def test_notifications_of_changes_are_requested_and_ended_in_the_same_way() -> None:
    async def talk(client: Client, held: Held) -> None:
        await client.connect()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.listen)
            await held.wait_for("subscriptions/listen")
            tasks.cancel_scope.cancel()

    messages = await compared(lambda: modern, talk)

    assert methods(messages)[1:] == ["subscriptions/listen", "notifications/cancelled"]


async def test_requests_of_a_server_are_answered_as_the_sdk_answers_them() -> None:
    class Asking:
        """Asks everything when its tool is called, and answers the call when all is answered."""

        def __init__(self) -> None:
            self.call: JSONObject = {}
            self.waiting = len(SERVER_REQUESTS)

        def __call__(self, message: JSONObject) -> Iterable[JSONObject]:
            if message.get("method") == "tools/call":
                self.call = message
                for method, params in SERVER_REQUESTS.items():
                    yield {"id": f"about {method}", "method": method, "params": params}
            elif "method" not in message:
                self.waiting -= 1
                if not self.waiting:
                    yield {"id": self.call["id"], "result": {"content": []}}
            else:
                yield from legacy("2025-11-25", message)

    async def talk(client: Client, _: Held) -> None:
        await client.connect(is_legacy=True)
        assert await client.call() == ("result", {"content": []})

    ours, theirs = await held_by_both(Asking, talk)
    answers = [{m["id"]: m for m in held.messages if "method" not in m} for held in (ours, theirs)]

    assert answers[0].keys() == answers[1].keys() == {f"about {name}" for name in SERVER_REQUESTS}
    pings = [line for held in (ours, theirs) for line in held.lines if b"about ping" in line]
    assert pings[0] == pings[1]
    for request, answer in answers[0].items():
        theirs_code = answers[1][request].get("error", {}).get("code")
        # Difference: the SDK refuses what it knows and has no callback for with -32600. To say that
        # a method is not supported, JSON-RPC has -32601.
        expected = {-32600: -32601}.get(theirs_code, theirs_code)
        assert answer.get("error", {}).get("code") == expected, request


async def test_each_message_is_one_line_of_plain_json() -> None:
    ours, _ = await held_by_both(lambda: modern, partial(lists_and_calls, version="2026-07-28"))

    for line in ours.lines:
        plain = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
        assert line == plain.encode()
        assert not {b"\r"[0], b"\n"[0], 0} & set(line)


@pytest.mark.thorough
@pytest.mark.parametrize("is_legacy", [False, True])
async def test_the_sdks_own_server_answers_both_alike(is_legacy: bool) -> None:
    async def conversation(client_of: Any) -> list[Any]:
        command = [sys.executable, str(HERE / "sdk_server.py"), "stdio"]
        program = await start_program(command, env=dict(os.environ), cwd=None)
        async with client_of(program.stdin, program.stdout) as client:
            version = await client.connect(is_legacy=is_legacy)
            outcomes = [version, await client.list_tools(), await client.call("grow")]
        await program.aclose()
        return outcomes

    with anyio.fail_after(60):
        ours, theirs = await conversation(our_client), await conversation(sdk_client)

    assert ours == theirs
    assert ours[0] == ("2025-11-25" if is_legacy else "2026-07-28")
    assert ours[2][0] == "result"
