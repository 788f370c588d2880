"""The HTTP headers that the protocol requires of a request, for both sides.

Since 2026-07-28 they repeat what a proxy may decide by: the method, the name of the tool, and the
arguments that the schema of the tool marks with `x-mcp-header`. Towards servers we send them;
`discovery_server.http.mirrored_headers` compares those of clients with the body.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc import protocol

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
PARAMETER = "Mcp-Param-"
MARK = "x-mcp-header"

_SAFE = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # of RFC 9110
_TYPES = ("boolean", "integer", "string")
_IN_ONE = (
    *("items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "not", "if", "then", "else", "contentSchema"),
)
_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
_IN_MAP = ("patternProperties", "dependentSchemas", "$defs", "definitions")
_SHOWN = 100  # characters of a header's name


HeaderMap: TypeAlias = Mapping[tuple[str, ...], str]
"""The names of headers, by the path of an argument."""


class RequestDetails(Struct, frozen=True):
    """The details that the HTTP headers of a request depend on, besides its method."""

    version: str
    """The protocol version in use."""
    tool: str | None = None
    """The tool that it calls."""
    arguments: JSONObject = {}
    header_map: HeaderMap | None = None
    """The arguments that are sent as headers."""


def request_headers(method: str, details: RequestDetails) -> dict[str, str]:
    """The headers of a request, besides those of its connection."""
    headers = {VERSION: details.version}
    if details.version not in protocol.MODERN_VERSIONS:
        return headers
    headers[METHOD] = method
    if details.tool is not None:
        headers[NAME] = _encoded(details.tool)
    for path, name in (details.header_map or {}).items():
        if (text := header_text(value_at(details.arguments, path))) is not None:
            headers[f"{PARAMETER}{name}"] = _encoded(text)
    return headers


def header_map(definition: JSONObject) -> HeaderMap | None:
    """Return the arguments of a tool that are sent as headers; see `Transport.header_map`."""
    marks = {
        path: schema[MARK]
        for path, schema in schemas_in(definition.get("inputSchema"))
        if path and isinstance(schema.get(MARK), str)
    }
    return marks or None


def header_fault(schema: JSONValue) -> str | None:
    """Return why a tool with this schema cannot be used; see `Transport.header_fault`."""
    owners: dict[str, str] = {}
    for path, part in schemas_in(schema):
        if MARK not in part:
            continue
        if not path:
            return f"its schema has `{MARK}` at a place that is no property of its arguments"
        name, where = part[MARK], ".".join(path)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            label = repr(name[:_SHOWN]) if isinstance(name, str) else "no text"
            return f"`{MARK}` of its argument {where!r} is {label}, not the name of a header"
        if part.get("type") not in _TYPES:
            return f"its argument {where!r} has `{MARK}` and is no string, integer or boolean"
        if other := owners.get(name.lower()):
            return f"`{MARK}` of its argument {where!r} is also that of {other!r}"
        owners[name.lower()] = where
    return None


def schemas_in(schema: JSONValue) -> Iterator[tuple[tuple[str, ...] | None, JSONObject]]:
    """Each subschema with its path of properties; None for one that is not a property of those.

    References are not followed, and data such as `default` is no schema.
    """
    rest: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while rest:
        path, node = rest.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                named = value.items()
                rest += [(None if path is None else (*path, name), sub) for name, sub in named]
            elif keyword in _IN_ONE:
                rest.append((None, value))
            elif keyword in _IN_LIST and isinstance(value, list):
                rest += [(None, sub) for sub in value]
            elif keyword in _IN_MAP and isinstance(value, dict):
                rest += [(None, sub) for sub in value.values()]


def value_at(arguments: JSONValue, path: tuple[str, ...]) -> JSONValue:
    """The value at a path; None if there is none."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def header_text(value: JSONValue) -> str | None:
    """A value as a header has it; None if it cannot be in one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits
        return None


def _encoded(text: str) -> str:
    """A text that survives in a header: printable ASCII as it is, anything else as Base64."""
    is_safe = _SAFE.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text)
    return text if is_safe else f"=?base64?{b64encode(text.encode()).decode()}?="
