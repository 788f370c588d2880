"""A server's question as its client is given it: with the server's name in front, and cleaned.

The person or the model that reads it must see who asks, and that the words are a server's. What
must come back unchanged (names, values, an address) is not touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine._util.text import block, clean, named
from discovery_engine.limits import shortened
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import (
    ASKING_SERVER,
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
)

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue

ELICIT = "elicitation/create"
_ASKED = ("elicitation", "sampling", "roots")
_MESSAGE_LENGTH = 4_000  # characters; a person reads it in a dialog
_LEFT_OUT = ("task", "elicitationId")
"""Members that only some versions have."""
_READ = frozenset({"title", "description", "enumNames", "text", "systemPrompt"})
"""Members whose texts are read, and are not sent back."""
_AS_IS = frozenset({"default", "const", "enum", "arguments", "input", "_meta", "metadata"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Members of a schema whose members are schemas, by names of the server's own."""
_WEB = ("https://", "http://")


def askable(params: JSONObject) -> dict[str, JSONObject]:
    """The capabilities of a client since 2026-07-28 that say what it can answer.

    `params` are those of its request.
    """
    declared = params["_meta"][CLIENT_CAPABILITIES]
    return {name: declared[name] for name in _ASKED if isinstance(declared.get(name), dict)}


def presented_request(
    question: JSONValue, capabilities: Mapping[str, JSONObject], version: str
) -> JSONObject:
    """A member of `inputRequests` as a client is given it.

    Raises:
        RpcError: If the client cannot answer it.
    """
    match question:
        case {"method": str(method)}:
            params = question.get("params")
            given = params if isinstance(params, dict) else {}
            require_capability(method, given, capabilities)
            return {**question, "params": presented(method, given, version)}
    raise RpcError(INVALID_PARAMS, "the server requires input, but asks no question")


def require_capability(
    method: str, params: JSONObject, capabilities: Mapping[str, JSONValue]
) -> None:
    """Check that a client can answer a question.

    Raises:
        RpcError: If it has not declared the capability that the question needs.
    """
    wanted = _wanted(method, params)
    [(name, parts)] = wanted.items()
    declared = capabilities.get(name)
    # A client that names no mode of elicitation has forms only.
    is_form = name == "elicitation" and "form" in parts
    has_parts = isinstance(declared, Mapping) and (
        all(part in declared for part in parts) or (is_form and "url" not in declared)
    )
    if not has_parts:
        dotted = ".".join([name, *parts])
        text = (
            f"{method} needs a client with the capability {dotted}, which this one lacks;"
            " use a client that has it, or give the tool what it asks for as arguments"
        )
        raise RpcError(MISSING_CLIENT_CAPABILITY, text, {"requiredCapabilities": wanted})


def presented(method: str, params: JSONObject, version: str) -> JSONObject:
    """The params of a question for a client of this version of the protocol.

    Raises:
        RpcError: If it asks the user to open what is no address of the web, or nests too deeply.
    """
    try:
        question: JSONObject = _cleaned({k: v for k, v in params.items() if k not in _LEFT_OUT})
    except RecursionError:
        raise RpcError(INVALID_PARAMS, "the question nests too deeply") from None
    if method != ELICIT:
        return question
    question["message"] = _attributed(params)
    if params.get("mode") == "url":
        url = params.get("url")
        if not (isinstance(url, str) and url.casefold().startswith(_WEB) and _is_one_word(url)):
            text = "a question may ask its user to open an address of the web only (https, http)"
            raise RpcError(INVALID_PARAMS, text)
        if (
            version not in MODERN_VERSIONS
        ):  # which requires an id; servers of the other era have none
            given = params.get("elicitationId")
            question["elicitationId"] = given if isinstance(given, str) else os.urandom(8).hex()
    return question


def _is_one_word(text: str) -> bool:
    return clean(text) == text and text.split() == [text]


def _wanted(method: str, params: JSONObject) -> dict[str, JSONObject]:
    match method:
        case "elicitation/create":
            return {"elicitation": {"url" if params.get("mode") == "url" else "form": {}}}
        case "sampling/createMessage":
            return {"sampling": {"tools": {}} if _has_tools(params) else {}}
        case "roots/list":
            return {"roots": {}}
    raise RpcError(METHOD_NOT_FOUND, f"{shortened(method, 50)} cannot be asked of a client")


def _has_tools(params: JSONObject) -> bool:
    return any(params.get(name) is not None for name in ("tools", "toolChoice"))


def _attributed(params: JSONObject) -> str:
    """`github asks: …`; of several lines, none begins with the server's words."""
    meta, message = params.get("_meta"), params.get("message")
    server = meta.get(ASKING_SERVER) if isinstance(meta, Mapping) else None
    asks = f"{named(server)} asks:" if isinstance(server, str) else "A server asks:"
    text = shortened(clean(message), _MESSAGE_LENGTH) if isinstance(message, str) else ""
    lines = text.strip().splitlines()
    return f"{asks} {lines[0]}" if len(lines) == 1 else "\n".join([asks, *block("\n".join(lines))])


def _cleaned(value: JSONValue, *, is_read: bool = False, is_map: bool = False) -> JSONValue:
    """A question without invisible characters in what is read.

    The members of a map have names of the server's own, which say nothing about their values.
    """
    match value:
        case str() if is_read:
            return clean(value)
        case list():
            return [_cleaned(item, is_read=is_read) for item in value]
        case dict() if is_map:
            return {name: _cleaned(item) for name, item in value.items()}
        case dict():
            return {
                name: item
                if name in _AS_IS
                else _cleaned(item, is_read=name in _READ, is_map=name in _MAPS)
                for name, item in value.items()
            }
    return value
