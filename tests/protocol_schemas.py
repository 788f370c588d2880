"""The protocol's own schemas, from the types of the MCP SDK: what a strict client accepts.

The types take null for what may be absent; the schemas of the protocol do not, and nor does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import jsonschema_rs
from mcp_types.methods import SERVER_RESULTS
from pydantic import TypeAdapter

from discovery_engine._util.json import JSONObject, JSONValue

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
BLOCKS = {"2024-11-05": {"text", "image", "resource"}} | {
    "2025-03-26": {"text", "image", "resource", "audio"}
}
"""Those that the types of the SDK allow in every version, and that it did not have yet."""


def faults_of(method: str, version: str, result: JSONObject) -> list[str]:
    """What is not valid in a result."""
    found = [
        f"{one.instance_path}: {one.message[:200]}"
        for one in _schema(method, version).iter_errors(result)
    ]
    if found or version not in BLOCKS:
        return found
    known = BLOCKS[version]
    found += [
        f"a block of {kind}" for kind in _blocks(method, result) if known and kind not in known
    ]
    return found


@cache
def _schema(method: str, version: str) -> jsonschema_rs.Validator:
    of = SERVER_RESULTS[method, version]
    # The other member of a union is the result that asks for input, which is looser.
    complete = next((one for one in get_args(of) if "InputRequired" not in one.__name__), of)
    schema = TypeAdapter(complete).json_schema(by_alias=True)
    return jsonschema_rs.validator_for(_without_null(schema))


def _without_null(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_null(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _without_null(value) for key, value in schema.items()}
    if made.get("default", 0) is None:
        del made["default"]
    if "anyOf" in made:
        made["anyOf"] = [one for one in made["anyOf"] if one != {"type": "null"}]
    return made


def _blocks(method: str, result: JSONValue) -> Iterator[str]:
    match method:
        case "tools/call":
            yield from (block["type"] for block in result["content"])
        case "prompts/get":
            yield from (message["content"]["type"] for message in result["messages"])
