"""Lists what a server has: its tools, and its resources and prompts.

A tool may want some of its arguments as HTTP headers: which they are is known from its list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.errors import UpstreamProtocolError, UpstreamTimeoutError
from discovery_engine.events import EventBus, ServerDiscovering
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import METHOD_NOT_FOUND
from discovery_engine.upstream.handshake import ServerInfo
from discovery_engine.upstream.listing import (
    Listing,
    Pages,
    header_maps,
    read_pages,
    split_usable,
)
from discovery_engine.upstream.offering_listing import declared_kinds, list_offerings
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
        """As `Upstreams.list_tools`, once.

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
        """Whether the tools of its server were listed over this connection."""
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
    """Whether a server declares that it has resources or prompts, and no tools."""
    return "tools" not in info.capabilities and bool(declared_kinds(info.capabilities))


def _no_fault(definition: JSONObject) -> None:  # noqa: ARG001 - same signature as `header_fault`
    return None
