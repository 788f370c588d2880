"""Any JSON in place of a result, a definition or a member is valid behind the border."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.validity import received, sent
from tests.protocol_schemas import VERSIONS, faults_of

pytestmark = pytest.mark.anyio

ICON = {"src": "https://x.example/i.png", "mimeType": "image/png", "sizes": ["any"]}
SHOWN = {"annotations": {"audience": ["user"], "priority": 0.5, "vendor": None}, "_meta": {"v": 1}}
BLOCKS: list[JSONObject] = [
    {"type": "text", "text": "é\u2028", **SHOWN},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", **SHOWN},
    {"type": "resource", "resource": {"uri": "x:/y", "text": "t", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "x:/y", "blob": "aGk=", "_meta": {"v": None}}},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "x://a", "name": "a", "size": 3, "icons": [ICON]},
]
SCHEMA: JSONObject = {
    "type": "object",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
}
TOOL: JSONObject = {
    "name": "t",
    "title": "T",
    "description": "d",
    "icons": [ICON],
    "inputSchema": SCHEMA,
    "outputSchema": SCHEMA,
    "annotations": {"title": "T", "readOnlyHint": True, "vendor": []},
    "execution": {"taskSupport": "optional"},
    "_meta": {"vendor/key": [None]},
    "vendor": None,
}
ARGUMENT = {"name": "a", "title": "A", "description": "d", "required": True}
VALID: dict[str, JSONObject] = {
    "tools/call": {"content": BLOCKS, "structuredContent": {"a": [None]}, "isError": False},
    "prompts/get": {
        "description": "d",
        "messages": [{"role": "user", "content": block} for block in BLOCKS],
    },
    "resources/read": {
        "contents": [
            {"uri": "x://a", "text": "t", "mimeType": "text/plain"},
            {"uri": "x://b", "blob": "aGk="},
        ],
        "ttlMs": 5,
        "cacheScope": "private",
    },
    "completion/complete": {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
    "tools/list": {"tools": [TOOL, {"name": "u", "inputSchema": {"type": "object"}}]},
    "resources/list": {
        "resources": [{"uri": "x://a", "name": "a", "size": 1, "icons": [ICON], **SHOWN}]
    },
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "x://{a}", "name": "a", "icons": [ICON], **SHOWN}]
    },
    "prompts/list": {"prompts": [{"name": "p", "arguments": [ARGUMENT], "icons": [ICON]}]},
}
FROM_SERVERS = ("tools/call", "prompts/get", "resources/read", "completion/complete")


def places(value: JSONValue, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to each value within one, and to itself."""
    yield at
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*at, key))


def replaced(value: JSONValue, at: tuple[Any, ...], by: JSONValue) -> JSONValue:
    if not at:
        return by
    made = copy.copy(value)
    made[at[0]] = replaced(value[at[0]], at[1:], by)
    return made


NAMES = sorted({str(key) for one in VALID.values() for at in places(one) for key in at[-1:]})
WORDS = st.sampled_from(["text", "image", "resource", "user", "object", "discovery/answer", "aGk="])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSONS = st.recursive(
    PLAIN | WORDS | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def faulty(draw: st.DrawFn) -> tuple[str, JSONObject]:
    """A method, and a result with any JSON at one or two places."""
    method = draw(st.sampled_from(sorted(VALID)))
    result: JSONValue = VALID[method]
    for _ in range(draw(st.integers(1, 2))):
        # The list itself of what is listed is the gateway's own.
        first = 1 if method in FROM_SERVERS else 2
        paths = [at for at in places(result) if len(at) >= first]
        if paths:
            result = replaced(result, draw(st.sampled_from(paths)), draw(JSONS))
    if method in FROM_SERVERS:
        result = {**result, **draw(st.dictionaries(st.sampled_from(NAMES), JSONS, max_size=2))}
        for name in draw(st.sets(st.sampled_from(sorted(result)), max_size=2)):
            del result[name]
    return method, result


async def behind_the_border(method: str, result: JSONObject, version: str) -> JSONObject:
    """As a client gets it, without what its era adds."""
    if method in FROM_SERVERS:
        result = await received(method, result, uri="x://asked")
    made = sent(method, result, version)
    added = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return {**added, **made} if version == "2026-07-28" else made


@pytest.mark.requirement("SRV-90")
@given(faulty())
async def test_any_json_in_any_place_leaves_a_result_valid_in_each_revision(
    case: tuple[str, JSONObject],
) -> None:
    method, result = case
    before = json.dumps(result)

    for version in VERSIONS:
        made = await behind_the_border(method, result, version)
        again = sent(method, made, version)

        assert not faults_of(method, version, made)
        assert again is made
    assert json.dumps(result) == before


@pytest.mark.requirement("SRV-90", "MET-19")
async def test_what_is_valid_is_the_same_object() -> None:
    for method, result in VALID.items():
        assert not faults_of(method, "2025-11-25", result)
        assert sent(method, result, "2025-11-25") is result
        if method in FROM_SERVERS:
            assert await received(method, result) is result
