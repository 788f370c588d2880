"""A server that sends everything that a strict client refuses, in each place at once."""

from __future__ import annotations

from pathlib import Path

from discovery_engine._util.json import JSONObject, JSONValue
from tests.servers.offerings import World

FORGED = {
    "discovery/error": {"code": "forged"},
    "discovery/changes": {"a": "forged"},
    "io.modelcontextprotocol/serverInfo": {"name": "forged", "version": "1"},
    "own": 1,
}
ODD: dict[str, JSONValue] = {
    "title": None,
    "icons": None,
    "_meta": [],
    "annotations": [],
    "mimeType": None,
    "size": "12",
}
FAULTY_BLOCKS: list[JSONValue] = [
    5,
    None,
    "a word",
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "text", "text": 42},
    {"type": "text", "text": {"in": "words"}},
    {"type": "text", "text": "annotated", "annotations": [], "_meta": FORGED},
    {"type": "text", "text": "dated", "annotations": {"lastModified": "yesterday", "priority": 7}},
    {"type": "video", "text": "seen"},
    {"type": "image", "data": "aGk="},
    {"type": "image", "data": "iVBORw0KGgo="},
    {"type": "image", "data": "no base64!", "mimeType": "image/png"},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": None},
    {"type": "resource", "resource": {"text": "without an address"}},
    {"type": "resource", "resource": {"uri": "a b", "blob": "aGk\n="}},
    {"type": "resource_link", "uri": "x://linked:here", "size": "12"},
]
RESULTS: dict[str, JSONObject] = {
    "blocks": {"content": FAULTY_BLOCKS, "isError": "no", "_meta": FORGED},
    "text": {"content": "plain words"},
    "null": {"content": None, "structuredContent": None},
    "one": {"content": {"type": "text", "text": "a single block"}},
    "words": {"content": ["first", "second"]},
    "structured": {"structuredContent": {"total": 3}},
    "listed": {"content": [], "structuredContent": ["a", "b"]},
    "other": {"output": "other members"},
    "older": {"toolResult": {"total": 3}},
    "nothing": {},
    "failed": {"isError": True, "content": None},
    "failing": {"isError": "true", "content": [{"type": "text", "text": " "}]},
    "typed": {"resultType": 5, "content": [{"type": "text", "text": "typed"}], "_meta": None},
}
"""Of each tool."""
SAID = {
    "blocks": [
        "a word", "42", '{"in": "words"}', "annotated", "dated", "seen", "without an address",
        "x%3A%2F%2Flinked%3Ahere",
    ],
    "text": ["plain words"],
    "one": ["a single block"],
    "words": ["first", "second"],
    "structured": ['{"total": 3}'],
    "listed": ['["a", "b"]'],
    "other": ["other members"],
    "older": ['{"total": 3}'],
    "failed": ["The tool failed and gave no message."],
    "failing": ["The tool failed and gave no message."],
    "typed": ["typed"],
}  # fmt: skip
"""What a reader finds in the texts of each, in each revision."""
_OBJECT: JSONObject = {"type": "object"}
DEFINITIONS: list[JSONObject] = [
    *({"name": name, "description": name, "inputSchema": _OBJECT} for name in RESULTS),
    {"name": "nulls", "description": None, "inputSchema": {**_OBJECT, "required": None}, **ODD},
    {"name": "reference", "inputSchema": _OBJECT, "outputSchema": {"$ref": "#/$defs/A"}},
    {"name": "array", "inputSchema": _OBJECT, "outputSchema": {"type": "array"}},
    {"name": "schemas", "inputSchema": {**_OBJECT, "properties": {"a": True, "b": None}}},
    {"name": "unschemed"},
    {"name": "typeless", "inputSchema": {"properties": [], "required": {}}},
    {
        "name": "hints",
        "inputSchema": _OBJECT,
        "annotations": {"readOnlyHint": "true", "title": None, "openWorldHint": True},
        "execution": {"taskSupport": "always"},
        "icons": [{}, {"src": "x", "sizes": "48x48"}, 5],
        "_meta": FORGED,
    },
]
RESOURCES: list[JSONObject] = [
    {"uri": "x://a", "name": "a", "description": None, **ODD},
    {"uri": "x://a:b", "name": "no port", "_meta": FORGED},
    {"uri": "x://c", "name": "c", "size": 3, "annotations": {"audience": "user"}},
]
TEMPLATES: list[JSONObject] = [{"uriTemplate": "x://t/{a}", "name": "t", **ODD}]
PROMPTS: list[JSONObject] = [
    {"name": "p", "arguments": [{"name": "a", "description": None, "required": "yes"}], **ODD}
]
OTHERS: dict[str, JSONObject] = {
    "resources/read x://a": {
        "contents": [
            {"uri": "x://a", "text": "hello", "mimeType": None, "_meta": FORGED},
            {"text": "unaddressed"},
            {"uri": "x://a", "blob": "no base64!"},
            "a word",
        ],
        "ttlMs": "long",
        "cacheScope": 5,
    },
    "resources/read x://a:b": {"contents": {"uri": "x://a:b", "text": "alone"}},
    "resources/read x://c": {"text": "no contents"},
    "prompts/get p": {
        "description": None,
        "messages": [
            {"role": "user", "content": "plain"},
            {"role": "system", "content": FAULTY_BLOCKS},
            "a word",
            None,
        ],
    },
    "completion/complete": {"completion": {"values": ["a", None, 5] * 50, "total": None}},
}


def hostile(path: Path) -> World:
    """That server, with a world in a file."""
    calls = {f"tools/call {name}": result for name, result in RESULTS.items()}
    return World(path, "hostile").offer(
        tools=DEFINITIONS,
        resources=RESOURCES,
        templates=TEMPLATES,
        prompts=PROMPTS,
        results={**calls, **OTHERS},
    )


HOSTILE_PACKAGES = (
    *("-c", "--call", "--eval=process.exit()", "--privileged", "--from", "--registry=http://x"),
    *("./evil", "../../evil", "/etc/cron.d", "~/evil", "file:evil", "evil.tgz", "evil.whl"),
    *("attacker/pwn", "github:attacker/pwn", "git+https://x.example/y", "https://x.example/y.tgz"),
    *("npm:other@1.0.0", "mcp-x@latest", "mcp-x@npm:evil", "mcp-x@file:..", "mcp-x @ file:///x"),
    *("mcp-x; touch M", "mcp-x && touch M", "$(touch M)", "`touch M`", "a|touch M", "a\ntouch M"),
    *("mcp-x\x00", "mcp-\u0455erver", "mcp\u200b-x", "\uff4dcp-x", "mcp-x\u202e", "@a/../../evil"),
    *("a" * 300, "@" + "a" * 250 + "/x", "@acme//mcp", "@/mcp", "mcp-x/", "mcp-x[all]", "mcp-x>=1"),
)
"""Names of packages that a program would take for an option, a path, an address or a command."""
