"""The protocol towards clients on stdio is ours; the server of the SDK is its oracle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rows import rows
from tests.unit.server.oracle import ours, outcome, sdks
from tests.unit.server.wire import HANDSHAKE, INITIALIZE, INITIALIZED, MODERN, PROBE, call, request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-1")]

ENVELOPE: dict[str, Any] = {
    **MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1", "title": "T"},
    "progressToken": 7,
}
OPENED = [INITIALIZE, INITIALIZED]
REQUESTS: list[dict[str, Any]] = [
    request(3, "tools/list"),
    request(4, "tools/list", cursor="x"),
    request(5, "prompts/list"),
    request(6, "prompts/get", name="mcp-discovery-usage-guide"),
    request(7, "prompts/get", name="other"),
    request(8, "prompts/get", name="mcp-discovery-usage-guide", arguments={"a": "b"}),
    request(9, "resources/list"),
    request(10, "resources/templates/list"),
    request(11, "resources/read", uri="discovery://docs/usage-guide"),
    request(12, "resources/read", uri="discovery://docs/none"),
    request(13, "resources/read", uri="discovery://servers/github/info"),
    call(14, "search_tools", query="issue"),
    call(15, "list_mcp_servers"),
    call(16, "execute_tool", tool="github:list_issues"),
    call(17, "create_issue"),
    request(18, "tools/call", name="list_mcp_servers", arguments=None),
    request(19, "tools/call", name="list_mcp_servers"),
    request(20, "ping"),
    request(21, "tools/unknown"),
    request(22, "server/discover"),
    request(23, "initialize", **HANDSHAKE),
    request("text", "tools/list"),
    request("24", "tools/list"),
    request(-1, "tools/list"),
    request(2**70, "tools/list"),
    request(25, "tools/call"),
    request(26, "tools/call", name=5),
    request(27, "tools/call", name="search_tools", arguments=[]),
    request(28, "prompts/get", name="x", arguments={"a": 5}),
    request(29, "resources/read"),
    request(30, "tools/list", cursor=5),
]


def with_envelope(message: dict[str, Any], envelope: Any = ENVELOPE) -> dict[str, Any]:
    return message | {"params": message.get("params", {}) | {"_meta": envelope}}


def without_texts(answers: list[list[dict[str, Any]]]) -> Any:
    """Answers without the messages of errors, which are our own, and data that is only an echo."""
    return [[_plain(answer) for answer in step] for step in answers]


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" not in answer:
        return answer
    data = answer["error"].get("data")
    kept = {"data": data} if isinstance(data, dict) else {}
    return answer | {"error": {"code": answer["error"]["code"], **kept}}


@rows("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_all_requests_of_the_handshake_era_are_answered_as_by_the_sdk(version: str) -> None:
    initialize = request(2, "initialize", **HANDSHAKE | {"protocolVersion": version})
    messages = [initialize, INITIALIZED, *REQUESTS]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


async def test_all_requests_of_2026_07_28_are_answered_as_by_the_sdk() -> None:
    messages = [PROBE, *map(with_envelope, REQUESTS)]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


SEQUENCES: dict[str, list[Any]] = {
    "requests before initialize": [*REQUESTS[:3], request(3, "ping"), *OPENED, *REQUESTS[:3]],
    "initialized without initialize": [INITIALIZED, *REQUESTS[:3]],
    "initialized is enough": [request(1, "ping"), INITIALIZED, *REQUESTS[:3]],
    "no initialized": [INITIALIZE, *REQUESTS[:3]],
    "initialize twice": [
        *OPENED,
        request(3, "initialize", **HANDSHAKE | {"protocolVersion": "2024-11-05"}),
        *REQUESTS[:3],
    ],
    "unknown version": [request(1, "initialize", **HANDSHAKE | {"protocolVersion": "1999-01-01"})],
    "modern version in the handshake": [
        request(1, "initialize", **HANDSHAKE | {"protocolVersion": "2026-07-28"}),
        request(2, "tools/list"),
    ],
    "envelope on initialize": [with_envelope(INITIALIZE), request(3, "tools/list")],
    "envelope after the handshake": [*OPENED, *map(with_envelope, REQUESTS[:3])],
    "no envelope after a modern request": [with_envelope(REQUESTS[0]), *REQUESTS[:3]],
    "initialize after a modern request": [
        with_envelope(REQUESTS[0]),
        INITIALIZE,
        request(3, "initialize"),
        request(4, "initialize", protocolVersion=5),
    ],
    "probe without an envelope": [request(1, "server/discover"), *OPENED, *REQUESTS[:3]],
    "initialize without params": [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}],
    "cancelled before it came": [
        *OPENED,
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}},
        REQUESTS[0],
    ],
    "notifications of all kinds": [
        *OPENED,
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 3}},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "method": "notifications/unknown", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
    ],
}


@rows("name", SEQUENCES)
async def test_sequences_are_answered_as_by_the_sdk(name: str) -> None:
    messages = SEQUENCES[name]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


@rows(
    "envelope",
    [
        {},
        None,
        "x",
        {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
        {"io.modelcontextprotocol/clientCapabilities": {}},
        MODERN | {"io.modelcontextprotocol/protocolVersion": "2027-01-01"},
        MODERN | {"io.modelcontextprotocol/protocolVersion": "2025-11-25"},
        MODERN | {"io.modelcontextprotocol/protocolVersion": 5},
        MODERN | {"io.modelcontextprotocol/protocolVersion": None},
        MODERN | {"io.modelcontextprotocol/clientCapabilities": None},
        MODERN | {"io.modelcontextprotocol/clientCapabilities": {"roots": 5}},
        MODERN | {"io.modelcontextprotocol/clientInfo": {"name": "x"}},
        MODERN | {"io.modelcontextprotocol/logLevel": "loud"},
        MODERN | {"io.modelcontextprotocol/logLevel": "info"},
        MODERN | {"progressToken": []},
        MODERN | {"x": "y"},
    ],
    ids=repr,
)
@rows("is_first", [False, True])
async def test_envelopes_are_judged_as_by_the_sdk(envelope: Any, *, is_first: bool) -> None:
    opened = [] if is_first else [with_envelope(request(1, "tools/list"))]
    messages = [*opened, with_envelope(request(2, "tools/list"), envelope)]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


DIFFERENCES: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "a batch is served in the version that has them": (
        [
            request(1, "initialize", **HANDSHAKE | {"protocolVersion": "2025-03-26"}),
            [INITIALIZED, request(3, "ping"), request(4, "x"), 5, [], call(5, "list_mcp_servers")],
        ],
        [(3, "result"), (4, -32601), (None, -32600), (None, -32600), (5, "result")],
        [],
    ),
    "a method that is not served is not found, whatever its params": (
        [*OPENED, request(3, "resources/subscribe", uri=5)],
        [(3, -32601)],
        [(3, -32602)],
    ),
    "a text is not taken for a boolean": (
        [
            request(
                3, "initialize", **HANDSHAKE | {"capabilities": {"roots": {"listChanged": "yes"}}}
            )
        ],
        [(3, -32602)],
        [(3, "result")],
    ),
    "a progress token of null is none": (
        [with_envelope(request(3, "tools/list"), MODERN | {"progressToken": None})],
        [(3, "result")],
        [(3, -32602)],
    ),
}


@rows("why", DIFFERENCES)
async def test_what_differs_from_the_sdk_is_known(why: str) -> None:
    messages, of_us, of_the_sdk = DIFFERENCES[why]

    assert outcome((await ours(messages))[-1]) == of_us
    assert outcome((await sdks(messages))[-1]) == of_the_sdk


MESSAGES = [
    *REQUESTS,
    *(with_envelope(message) for message in [PROBE, *REQUESTS]),
    INITIALIZE,
    INITIALIZED,
]


DAMAGE = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [b'"', b"\\", b"\\ud800", b"\\u0000", b"1e999", b"9" * 5000, b"NaN", b"[" * 2000]
    ),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A line in which some bytes were replaced, inserted or removed."""
    line = bytearray(json.dumps(draw(st.sampled_from(MESSAGES))).encode())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(line) - 1)))
        line[at : at + draw(st.integers(0, 3))] = draw(DAMAGE)
    return bytes(line).replace(b"\n", b" ")


@pytest.mark.requirement("SRV-8")
@settings(max_examples=300)
@given(st.sampled_from([[], OPENED]), damaged())
async def test_damaged_lines_are_answered_with_one_message_each_and_the_next_is_served(
    opened: list[Any], line: bytes
) -> None:
    *_, answers, pong = await ours([*opened, line, request(77, "ping")])

    assert len([answer for answer in answers if "id" in answer]) <= 1
    assert 77 in [answer["id"] for answer in pong]
