"""Headers that mirror the body of a request since 2026-07-28, so that proxies can route by them.

A header that differs from the body is refused: a proxy would have routed by a value that the
request does not have.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import HEADER_MISMATCH, PROTOCOL_VERSION
from discovery_engine.rpc.request_headers import (
    MARK,
    METHOD,
    NAME,
    PARAMETER,
    header_fault,
    header_text,
    schemas_in,
    value_at,
)
from discovery_engine.rpc.request_headers import VERSION as VERSION_NAME

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.rpc.messages import Request
    from discovery_server.http.request import Headers

VERSION, _METHOD, _NAME = VERSION_NAME.encode(), METHOD.encode(), NAME.encode()
_NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The member of the params that the header `Mcp-Name` mirrors."""

_MOST_KNOWN = 256  # schemas
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")
_DECIMAL = re.compile(r"-?[0-9]{1,4000}(\.0+)?")  # Python refuses to read longer integers


def mismatch(headers: Headers, request: Request) -> RpcError | None:
    """The first header that does not mirror a request; its params have an envelope."""
    params = request.params or {}
    version = params["_meta"][PROTOCOL_VERSION]
    for name in (VERSION, _METHOD, _NAME):
        if headers.is_repeated(name):
            return _error(f"{name.decode()} was sent more than once")
    if headers.get(VERSION) != version:
        return _error(f"{VERSION.decode()} is not the version of the body's envelope")
    if headers.get(_METHOD) != request.method:
        return _error(f"{_METHOD.decode()} is not the method of the body")
    member = _NAMED_BY.get(request.method)
    named = params.get(member) if member else None
    if named is not None and decoded(headers.get(_NAME)) != named:
        return _error(f"{_NAME.decode()} is not `params.{member}` of the body")
    return None


class MirroredParameter(Struct, frozen=True):
    """A property of a schema whose value is sent as a header, too."""

    path: tuple[str, ...]
    header: str
    type: str


def parameter_mismatch(
    headers: Headers, mirrored: tuple[MirroredParameter, ...], params: JSONObject
) -> RpcError | None:
    """The first `Mcp-Param-*` header that does not mirror an argument of a call."""
    arguments = params.get("arguments") or {}
    if not mirrored or not isinstance(arguments, Mapping):
        return None
    return next(
        filter(None, (_compared(headers, parameter, arguments) for parameter in mirrored)), None
    )


class ParameterCache:
    """A cache of the results of `mirrored_parameters` for recent schemas."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[JSONObject, tuple[MirroredParameter, ...]]] = {}

    def of(self, schema: JSONObject | None) -> tuple[MirroredParameter, ...]:
        """Return the mirrored parameters of a tool's schema; none if the tool does not exist."""
        if schema is None:
            return ()
        entry = self._known.get(id(schema))
        if entry is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            # It is kept with its id, which would otherwise be given to another object.
            entry = self._known[id(schema)] = schema, mirrored_parameters(schema)
        return entry[1]


def mirrored_parameters(schema: JSONObject) -> tuple[MirroredParameter, ...]:
    """The properties with `x-mcp-header`.

    None if any such keyword of the schema is invalid, since clients ignore that tool.
    """
    if header_fault(schema):
        return ()
    return tuple(
        MirroredParameter(path, part[MARK], part["type"])
        for path, part in schemas_in(schema)
        if path and MARK in part
    )


def decoded(value: str | None) -> str | None:
    """The text of a header, which may be encoded as `=?base64?…?=`; None if that is malformed."""
    match = _ENCODED.fullmatch(value) if value else None
    if match is None:
        return value
    try:
        data = base64.b64decode(match[1], validate=True)
        text = data.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    # Base64 has several spellings of some bytes, and two readers may compare the spelling.
    return text if base64.b64encode(data).decode() == match[1] else None


def _compared(
    headers: Headers, parameter: MirroredParameter, arguments: Mapping[str, Any]
) -> RpcError | None:
    name = f"{PARAMETER}{parameter.header}"
    key = name.lower().encode()
    value, argument = headers.get(key), value_at(arguments, parameter.path)
    argument_text = header_text(argument)
    if value is not None and headers.is_repeated(key):
        return _error(f"{name} was sent more than once")
    if value is None:
        return (
            None
            if argument_text is None
            else _error(f"{name} is missing, and its argument is there")
        )
    if argument_text is None:
        return _error(f"{name} was sent, and its argument is missing")
    text = decoded(value)
    if text is None or not _is_same(parameter.type, argument, argument_text, text):
        return _error(f"{name} is not the argument of the body")
    return None


def _is_same(kind: str, value: JSONValue, shown: str, text: str) -> bool:
    """Return whether a header has the value of an argument; the integer 42 may be 42.0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer" and is_number and _DECIMAL.fullmatch(text):
        return bool(int(text.partition(".")[0]) == value)
    return text == shown


def _error(text: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {text}")
