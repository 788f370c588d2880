"""Lists what a server has: its tools, and its resources and prompts.

A tool may want some of its arguments as HTTP headers: which they are is known from its list.
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
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamProtocolError, UpstreamTimeoutError
from discovery_engine.events import EventBus, ServerDiscovering
from discovery_engine.limits import PROMPT_NAME_LENGTH, URI_LENGTH
from discovery_engine.rpc.peer import InvalidAnswerError, RequestTimeout, RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.tools.offering import OfferingKind, decision_key
from discovery_engine.upstream.handshake import ServerInfo
from discovery_engine.upstream.listing import (
    FindFault,
    ListedOfferings,
    Listing,
    Pages,
    fault_of_size,
    header_maps,
    read_pages,
    split,
    split_usable,
)
from discovery_engine.upstream.request_errors import (
    RequestNotProcessed,
    is_unsent,
    listing_error,
    record_failure,
)
from discovery_engine.upstream.requests import CALL_TOOL, UpstreamRequest
from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.session_pool import SessionPool
from discovery_engine.upstream.transport import HeaderMap

_OFFERINGS = 10.0  # seconds that the tools of a server wait for its resources and prompts


class ServerLists:
    def __init__(self, sessions: SessionPool, events: EventBus) -> None:
        self._sessions = sessions
        self._events = events
        self._header_maps: dict[str, Mapping[str, HeaderMap]] = {}

    async def read(self, server: ServerSettings) -> Listing:
        """List the tools of a server, without a second try; see `Upstreams.list_tools`.

        Raises:
            RequestNotProcessed: If the server provably did not process a request.
        """
        session = self._sessions.for_listing(server)
        async with session.lease() as rpc:
            self._events.publish(ServerDiscovering(server.name))
            session.changes.rearm()
            pages = await self._pages(server, session, rpc)
            session.history.record_success()
            info = await session.refreshed_info(rpc)
            transport = rpc.transport
            find_fault = transport.header_fault if info.is_modern else _no_fault
            tools, dropped = await split_usable(pages.definitions, find_fault=find_fault)
            offerings = await list_offerings(
                rpc.list_page,
                info.capabilities,
                tools={tool["name"] for tool in tools},
                seconds=min(server.timeouts.list, _OFFERINGS),
            )
        maps = await header_maps(tools, transport.header_map) if info.is_modern else {}
        self._header_maps[session.connection] = maps
        return Listing(
            tools,
            dropped,
            info.instructions,
            pages.ttl,
            session.connection,
            pages.cut,
            offerings,
        )

    def knows_headers(self, session: Session) -> bool:
        """Return whether the tools of its server were listed over this connection."""
        return session.connection in self._header_maps

    def header_map(self, session: Session, request: UpstreamRequest) -> HeaderMap | None:
        """The arguments of a call that are sent as headers; None if none is."""
        if request.method != CALL_TOOL or request.name is None:
            return None
        return self._header_maps.get(session.connection, {}).get(request.name)

    async def _pages(self, server: ServerSettings, session: Session, rpc: RpcClient) -> Pages:
        seconds = server.timeouts.list
        try:
            return await read_pages(partial(rpc.list_page, "tools/list"), seconds=seconds)
        except RpcError as error:
            if rpc.is_proven and (error.code == METHOD_NOT_FOUND or _has_no_tools(rpc.info)):
                return Pages()  # a server without tools need not support the request
            failure = await listing_error(rpc.transport, error)
            if rpc.transport.wants_new_session(error) or is_unsent(error):
                session.retire()
                raise RequestNotProcessed(failure) from error
            await record_failure(session.history, rpc, failure, error)
        except TimeoutError:
            failure = UpstreamTimeoutError(server.name, "tools/list", seconds)
            session.history.record_timeout("tools/list", seconds)
        except ValueError as error:
            failure = UpstreamProtocolError(server.name, str(error))
        raise (
            RequestNotProcessed(failure)
            if await session.reject_stored_era(rpc, failure)
            else failure
        )


def _has_no_tools(info: ServerInfo) -> bool:
    """Return whether a server declares that it has resources or prompts, and no tools."""
    return "tools" not in info.capabilities and bool(declared_kinds(info.capabilities))


def _no_fault(definition: JSONObject) -> None:  # noqa: ARG001 - same signature as `header_fault`
    return None


# Lists the resources, the resource templates and the prompts of a server.
#
# Only what the server declares is asked for. Each kind is listed by itself: one that fails costs
# neither the others nor the tools, and a bad definition costs only itself.

FetchList: TypeAlias = Callable[[str, JSONObject, RequestTimeout], Awaitable[JSONObject]]
"""Sends the method of a list with the given parameters, and waits for so long."""

_MESSAGE_LENGTH = 200  # characters of a server's message
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

logger = logging.getLogger(__name__)


def declared_kinds(capabilities: JSONObject) -> tuple[OfferingKind, ...]:
    """Return the kinds that a server with these capabilities may be asked for."""
    declared = (capabilities.get(kind.wire.capability) for kind in OfferingKind)
    return tuple(
        kind
        for kind, capability in zip(OfferingKind, declared, strict=True)
        if isinstance(capability, dict)
    )


async def list_offerings(
    fetch: FetchList, capabilities: JSONObject, *, tools: Collection[str], seconds: float
) -> Mapping[OfferingKind, ListedOfferings]:
    """All declared kinds, side by side, at most `seconds` each; it never fails.

    `tools` are the names of the server's tools: no key of a decision may be one of them.
    """
    offerings: dict[OfferingKind, ListedOfferings] = {}

    async def list_one(kind: OfferingKind) -> None:
        find_fault = partial(fault_of_offering, kind, tools=tools)
        offerings[kind] = await _list_kind(kind, fetch, seconds, find_fault)

    async with anyio.create_task_group() as tasks:
        for kind in declared_kinds(capabilities):
            tasks.start_soon(list_one, kind)
    return offerings


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
