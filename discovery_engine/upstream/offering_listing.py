"""Lists the resources, the resource templates and the prompts of a server.

Only what the server declares is asked for. Each kind is listed by itself: one that fails costs
neither the others nor the tools, and a bad definition costs only itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TypeAlias

import anyio

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import quoted
from discovery_engine.limits import PROMPT_NAME_LENGTH, URI_LENGTH
from discovery_engine.rpc.peer import InvalidAnswerError, RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.tools.offering import OfferingKind, decision_key
from discovery_engine.upstream.listing import (
    FindFault,
    ListedOfferings,
    fault_of_size,
    read_pages,
    split,
)

FetchList: TypeAlias = Callable[[str, JSONObject], Awaitable[JSONObject]]
"""Sends the method of a list with the given parameters."""

_MESSAGE_LENGTH = 200  # characters of a server's message
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

logger = logging.getLogger(__name__)


def declared_kinds(capabilities: JSONObject) -> tuple[OfferingKind, ...]:
    """What a server with these capabilities may be asked for."""
    declared = (capabilities.get(kind.wire.capability) for kind in OfferingKind)
    return tuple(
        kind for kind, one in zip(OfferingKind, declared, strict=True) if isinstance(one, dict)
    )


async def list_offerings(
    fetch: FetchList, capabilities: JSONObject, *, tools: Collection[str], seconds: float
) -> Mapping[OfferingKind, ListedOfferings]:
    """All declared kinds, side by side, at most `seconds` each; it never fails.

    `tools` are the names of the server's tools: no key of a decision may be one of them.
    """
    found: dict[OfferingKind, ListedOfferings] = {}

    async def list_one(kind: OfferingKind) -> None:
        find_fault = partial(fault_of_offering, kind, tools=tools)
        found[kind] = await _list_kind(kind, fetch, seconds, find_fault)

    async with anyio.create_task_group() as tasks:
        for kind in declared_kinds(capabilities):
            tasks.start_soon(list_one, kind)
    return found


async def _list_kind(
    kind: OfferingKind, fetch: FetchList, seconds: float, find_fault: FindFault
) -> ListedOfferings:
    wire = kind.wire
    try:
        pages = await read_pages(
            partial(fetch, wire.method), seconds=seconds, method=wire.method, member=wire.member
        )
    except RpcError as error:
        if error.code == METHOD_NOT_FOUND:  # many servers declare resources and have no templates
            return ListedOfferings()
        if isinstance(error, InvalidAnswerError):
            return _failed(kind, f"it sent an unusable answer: {error.message}")
        message = quoted(error.message[:_MESSAGE_LENGTH])
        return _failed(kind, f"it answered error {error.code}: {message}")
    except TimeoutError:
        return _failed(kind, f"it did not answer within {seconds:g} s")
    except ValueError as error:
        return _failed(kind, str(error))
    good, dropped = await split(
        pages.definitions, find_fault, identifier=wire.identifier, noun=kind.label
    )
    return ListedOfferings(good, dropped, cut=pages.cut, ttl=pages.ttl)


def _failed(kind: OfferingKind, reason: str) -> ListedOfferings:
    logger.debug("%s failed: %s", kind.wire.method, reason)
    return ListedOfferings(failure=reason)


def fault_of_offering(
    kind: OfferingKind, definition: JSONValue, *, tools: Collection[str] = ()
) -> str | None:
    """Why a definition cannot be listed or read; None if it can."""
    if not isinstance(definition, dict):
        return "it is not an object"
    required = {kind.wire.identifier, "name"}
    for member in sorted(required):
        if not isinstance(definition.get(member), str) or not definition[member].strip():
            return f"its {member} is not a non-empty string"
    if (key := decision_key(kind, definition[kind.wire.identifier])) in tools:
        return f"a tool is called {key!r}"
    return _fault_of_identifier(kind, definition) or fault_of_size(definition)


def _fault_of_identifier(kind: OfferingKind, definition: JSONObject) -> str | None:
    member = kind.wire.identifier
    identifier, is_prompt = definition[member], kind is OfferingKind.PROMPT
    limit = PROMPT_NAME_LENGTH if is_prompt else URI_LENGTH
    if len(identifier) > limit:
        return f"its {member} is longer than {limit} characters"
    if not (is_prompt or identifier.startswith("{") or _SCHEME.match(identifier)):
        return f"its {member} has no scheme"
    return None
