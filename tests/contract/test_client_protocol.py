"""The protocol towards clients on stdio is ours; the server of the SDK is its oracle."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.protocol import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from discovery_server.client_connection import ClientConnection
from discovery_server.client_stream import LineStream
from discovery_server.gateway import Gateway
from tests.rows import rows
from tests.unit.server.fakes import make_engine
from tests.unit.server.oracle import ListSink, ours, outcome, sdks
from tests.unit.server.wire import HANDSHAKE, INITIALIZE, INITIALIZED, MODERN, PROBE, call, request

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-1")]

ENVELOPE: JSONObject = {
    **MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1", "title": "T"},
    "progressToken": 7,
}
OPENED = [INITIALIZE, INITIALIZED]
REQUESTS: list[JSONObject] = [
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


def with_envelope(message: JSONObject, envelope: JSONValue = ENVELOPE) -> JSONObject:
    return message | {"params": message.get("params", {}) | {"_meta": envelope}}


def without_texts(answers: list[list[JSONObject]]) -> Any:
    """Answers without the messages of errors, which are our own, and data that is only an echo."""
    return [[_plain(answer) for answer in step] for step in answers]


def _plain(answer: JSONObject) -> JSONObject:
    if "error" not in answer:
        return answer
    data = answer["error"].get("data")
    kept = {"data": data} if isinstance(data, dict) else {}
    return answer | {"error": {"code": answer["error"]["code"], **kept}}


@rows("version", HANDSHAKE_VERSIONS)
async def test_all_requests_of_the_handshake_era_are_answered_as_by_the_sdk(version: str) -> None:
    initialize = request(2, "initialize", **HANDSHAKE | {"protocolVersion": version})
    messages = [initialize, INITIALIZED, *REQUESTS]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


async def test_all_requests_of_2026_07_28_are_answered_as_by_the_sdk() -> None:
    messages = [PROBE, *map(with_envelope, REQUESTS)]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


SEQUENCES: dict[str, list[JSONValue]] = {
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
async def test_envelopes_are_judged_as_by_the_sdk(envelope: JSONValue, *, is_first: bool) -> None:
    opened = [] if is_first else [with_envelope(request(1, "tools/list"))]
    messages = [*opened, with_envelope(request(2, "tools/list"), envelope)]

    assert without_texts(await ours(messages)) == without_texts(await sdks(messages))


@rows("version", [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS])
async def test_results_fit_the_schema_of_their_version(version: str) -> None:
    is_modern = version in MODERN_VERSIONS
    first = request(2, "initialize", **HANDSHAKE | {"protocolVersion": version})
    asked = [PROBE if is_modern else first, *REQUESTS]
    answers = await ours(list(map(with_envelope, asked)) if is_modern else asked)

    results = [
        (message["method"], answer["result"])
        for message, step in zip(asked, answers, strict=True)
        for answer in step
        if "result" in answer
    ]

    assert len({method for method, _ in results}) == (8 if is_modern else 9)
    for method, result in results:
        validate_server_result(method, version, result)


NOTHING: list[Any] = []
DIFFERENCES: dict[str, tuple[list[JSONValue], list[Any], list[Any]]] = {
    "an invalid request is answered, so that its sender need not time out": (
        [{"jsonrpc": "1.0", "id": 3, "method": "ping"}],
        [(3, -32600)],
        NOTHING,
    ),
    "a request with the id null is no notification": (
        [{"jsonrpc": "2.0", "id": None, "method": "ping"}],
        [(None, -32600)],
        NOTHING,
    ),
    "a request with a fraction as its id is no notification": (
        [{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}],
        [(None, -32600)],
        NOTHING,
    ),
    "a batch is refused in versions that have none": (
        [[request(3, "ping")]],
        [(None, -32600)],
        NOTHING,
    ),
    "a batch is served in the version that has them": (
        [
            request(1, "initialize", **HANDSHAKE | {"protocolVersion": "2025-03-26"}),
            [INITIALIZED, request(3, "ping"), request(4, "x"), 5, [], call(5, "list_mcp_servers")],
        ],
        [(3, "result"), (4, -32601), (None, -32600), (None, -32600), (5, "result")],
        NOTHING,
    ),
    "an empty batch is refused": (
        [request(1, "initialize", **HANDSHAKE | {"protocolVersion": "2025-03-26"}), []],
        [(None, -32600)],
        NOTHING,
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
    "a client that probed may still send initialize": (
        [PROBE, INITIALIZE],
        [(2, "result")],
        [(2, -32022)],
    ),
}


@rows("why", DIFFERENCES)
async def test_what_differs_from_the_sdk_is_known(why: str) -> None:
    messages, of_us, of_the_sdk = DIFFERENCES[why]

    assert outcome((await ours(messages))[-1]) == of_us
    assert outcome((await sdks(messages))[-1]) == of_the_sdk


VALUES = st.sampled_from([None, {}, [], "x", 1.5, 500, {"x": 500}, [{}], "2026-07-28"])
"""Values of each type; none is one that the SDK would convert to another type."""
SERVED = list(dict.fromkeys(message["method"] for message in REQUESTS))
UNSERVED = ("logging/setLevel", "resources/subscribe", "tasks/result")
METHODS = st.sampled_from([*SERVED, *UNSERVED, "x", ""])
RICH = HANDSHAKE | {
    "capabilities": {"roots": {"listChanged": True}, "sampling": {}, "experimental": {"x": {}}},
    "clientInfo": {"name": "t", "version": "1", "icons": [{"src": "x", "theme": "dark"}]},
}
RICH_ENVELOPE = ENVELOPE | {
    "io.modelcontextprotocol/clientCapabilities": RICH["capabilities"] | {"roots": {}},
    "io.modelcontextprotocol/clientInfo": RICH["clientInfo"],
}
MESSAGES = [
    *REQUESTS,
    *(with_envelope(message, RICH_ENVELOPE) for message in [PROBE, *REQUESTS]),
    request(40, "initialize", **RICH),
    INITIALIZED,
]


def paths(value: JSONValue, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the members of a message are."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))


@st.composite
def mutated(draw: st.DrawFn) -> JSONObject:
    """A message with up to three members changed or removed."""
    message = copy.deepcopy(draw(st.sampled_from(MESSAGES)))
    for _ in range(draw(st.integers(0, 3))):
        *parents, key = draw(st.sampled_from([*paths(message)] or [("method",)]))
        owner = message
        for parent in parents:
            owner = owner[parent]
        if draw(st.booleans()):
            owner.pop(key, None)
        else:
            is_method = (*parents, key) == ("method",)
            owner[key] = copy.deepcopy(draw(METHODS if is_method else VALUES))
    return message


ENVELOPED = with_envelope(REQUESTS[0])


def is_known_difference(message: JSONObject, of_us: list[Any], of_the_sdk: list[Any]) -> bool:
    """Whether one of the differences of the table above applies."""
    if of_the_sdk == []:
        return [code for _, code in of_us] == [-32600]
    if of_the_sdk[0][1] == -32022 and message.get("method") == "initialize":
        return of_us[0][1] in ("result", -32602)  # after nothing but probes
    if (of_us[0][1], of_the_sdk[0][1]) == ("result", -32602):
        return message["params"]["_meta"]["progressToken"] is None
    is_unserved = message.get("method") in UNSERVED
    return is_unserved and [code for _, code in of_us + of_the_sdk] == [-32601, -32602]


@pytest.mark.thorough
@settings(max_examples=300)
@given(
    st.sampled_from([[], OPENED, [PROBE, ENVELOPED], [INITIALIZED]]),
    st.lists(mutated(), min_size=1, max_size=3),
)
async def test_mutated_messages_are_answered_like_the_sdk_answers_them(
    opened: list[JSONObject], mutants: list[JSONObject]
) -> None:
    messages = [*opened, *mutants]

    of_us, of_the_sdk = await ours(messages), await sdks(messages)

    for message, our_answers, sdk_answers in zip(messages, of_us, of_the_sdk, strict=True):
        pair = outcome(our_answers), outcome(sdk_answers)
        assert pair[0] == pair[1] or is_known_difference(message, *pair), message
        if outcome(our_answers) != outcome(sdk_answers) and message.get("method") == "initialize":
            return  # from here on they are in different eras


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
    opened: list[JSONObject], line: bytes
) -> None:
    sink = ListSink()
    connection, stream = ClientConnection(Gateway(make_engine())), LineStream(sink)
    for message in opened:
        connection.receive(json.dumps(message).encode(), stream)
    sink.take()

    connection.receive(line, stream)
    await connection.close()
    answers = sink.take()
    connection.receive(json.dumps(request(77, "ping")).encode(), stream)

    assert len(answers) <= 1
    assert [answer["id"] for answer in sink.take()] == [77]
