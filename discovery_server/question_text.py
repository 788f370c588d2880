"""A server's question as its client is given it: with the server's name in front, and cleaned.

The person or the model that reads it must see which server asks, and that the words are its own.
What must come back unchanged (names, values, an address) is not touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from discovery_engine._util.text import block, clean, named
from discovery_engine.rpc.client import CAPABILITIES, of_questions
from discovery_engine.rpc.incremental_json import ParseSteps
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    ASKING_SERVER,
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    MODERN_VERSIONS,
)
from discovery_engine.tools.limits import shortened

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.rpc.scheduling import FairScheduler

ELICIT = "elicitation/create"
_ASKED = (*CAPABILITIES, "extensions")
_PIECE = 8 * 1024  # characters that are cleaned at a time: at most about 2 ms
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
    """The capabilities of a client since 2026-07-28 that say what it can answer, and show.

    `params` are those of its request. Without changes of its roots: this era has no notification.
    """
    declared = params["_meta"][CLIENT_CAPABILITIES]
    capabilities = {name: declared[name] for name in _ASKED if isinstance(declared.get(name), dict)}
    return of_questions(capabilities)


async def presented_requests(
    asked: Mapping[str, JSONValue],
    capabilities: Mapping[str, JSONObject],
    version: str,
    scheduler: FairScheduler,
) -> JSONObject:
    """`inputRequests` as a client is given them.

    Raises:
        RpcError: If the client cannot answer one of them.
    """
    return {
        key: await _presented_request(question, capabilities, version, scheduler)
        for key, question in asked.items()
    }


async def _presented_request(
    question: JSONValue,
    capabilities: Mapping[str, JSONObject],
    version: str,
    scheduler: FairScheduler,
) -> JSONObject:
    match question:
        case {"method": str(method)}:
            params = question.get("params")
            question_params = params if isinstance(params, dict) else {}
            require_capability(method, question_params, capabilities)
            return {
                **question,
                "params": await present(method, question_params, version, scheduler),
            }
    raise RpcError(INVALID_PARAMS, "the server requires input, but asks no question")


def require_capability(
    method: str, params: JSONObject, capabilities: Mapping[str, JSONValue]
) -> None:
    """Check that a client can answer a question.

    Raises:
        RpcError: If it has not declared the capability that the question needs.
    """
    requirements = _wanted(method, params)
    [(name, parts)] = requirements.items()
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
        raise RpcError(MISSING_CLIENT_CAPABILITY, text, {"requiredCapabilities": requirements})


async def present(
    method: str, params: JSONObject, version: str, scheduler: FairScheduler
) -> JSONObject:
    """The params of a question for a client of this version of the protocol.

    A long one is cleaned in steps, between which other tasks run.

    Raises:
        RpcError: If it asks the user to open what is no address of the web, or nests too deeply.
    """
    return await scheduler.run(presented_steps(method, params, version), size=0)


def presented_steps(method: str, params: JSONObject, version: str) -> ParseSteps[JSONObject]:
    """The steps of `present`."""
    members = {key: value for key, value in params.items() if key not in _LEFT_OUT}
    try:
        question: JSONObject = yield from _cleaned(members)
    except RecursionError:
        raise RpcError(INVALID_PARAMS, "the question nests too deeply") from None
    if method != ELICIT:
        return question
    message = params.get("message")
    text = (yield from _cleaned_text(message)) if isinstance(message, str) else ""
    question["message"] = _attributed(params, shortened(text, _MESSAGE_LENGTH))
    if params.get("mode") == "url":
        url = params.get("url")
        if not (isinstance(url, str) and url.casefold().startswith(_WEB) and _is_one_word(url)):
            text = "a question may ask its user to open an address of the web only (https, http)"
            raise RpcError(INVALID_PARAMS, text)
        # Which requires an id; servers of the other era have none.
        if version not in MODERN_VERSIONS:
            elicitation_id = params.get("elicitationId")
            question["elicitationId"] = (
                elicitation_id if isinstance(elicitation_id, str) else os.urandom(8).hex()
            )
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


def _attributed(params: JSONObject, text: str) -> str:
    """`github asks: …`; of several lines, none begins with the server's words."""
    meta = params.get("_meta")
    server = meta.get(ASKING_SERVER) if isinstance(meta, Mapping) else None
    asks = f"{named(server)} asks:" if isinstance(server, str) else "A server asks:"
    lines = text.strip().splitlines()
    return f"{asks} {lines[0]}" if len(lines) == 1 else "\n".join([asks, *block("\n".join(lines))])


def _cleaned(
    value: JSONValue, *, is_read: bool = False, is_map: bool = False
) -> ParseSteps[JSONValue]:
    """A question without invisible characters in what is read.

    The members of a map have names of the server's own, which say nothing about their values.
    """
    match value:
        case str() if is_read:
            return (yield from _cleaned_text(value))
        case list():
            items = []
            for item in value:
                element = yield from _cleaned(item, is_read=is_read)
                items.append(element)
            yield
            return items
        case dict():
            members = {}
            for name, item in value.items():
                if is_map:
                    members[name] = yield from _cleaned(item)
                elif name in _AS_IS:
                    members[name] = item
                else:
                    of_name = _cleaned(item, is_read=name in _READ, is_map=name in _MAPS)
                    members[name] = yield from of_name
            return members
    return value


def _cleaned_text(text: str) -> ParseSteps[str]:
    """A text, in pieces that end behind a line or a word: no escape sequence has a line end."""
    pieces, start = [], 0
    while len(text) - start > _PIECE:
        end = start + _PIECE
        end = text.rfind("\n", start, end) + 1 or text.rfind(" ", start, end) + 1 or end
        pieces.append(clean(text[start:end]))
        start = end
        yield
    return "".join((*pieces, clean(text[start:])))
