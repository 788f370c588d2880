"""The handshake of a connection, in both eras.

A server of unknown era gets `server/discover`; any error answer means the older `initialize`. If
it does not answer within three seconds, it gets `initialize` as well. If it refuses that too, it
may be a slow starter of the newer era: its late answer to `server/discover` still counts.
"""

from __future__ import annotations

import anyio
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    Implementation,
)
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from msgspec import Struct, field
from pydantic import ValidationError

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine.version import __version__

CLIENT_INFO = Implementation(name="discovery", version=__version__)

_DISCOVER = "server/discover"
_PROBE_TIMEOUT = 3.0  # seconds without an answer after which `initialize` is sent as well


class ServerInfo(Struct, frozen=True):
    """The result of the handshake."""

    version: str
    instructions: str = ""
    list_changed: bool = False
    """Whether it declares the `listChanged` capability for tools."""
    discover: JSONObject | None = None
    """Its raw answer to `server/discover`; None after `initialize`."""

    @property
    def is_modern(self) -> bool:
        return self.discover is not None


class _Probe(Struct):
    """One `server/discover` request in flight."""

    answer: JSONObject | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, dispatcher: JSONRPCDispatcher) -> None:
        try:
            self.answer = await discover(dispatcher)
        except MCPError:
            self.answer = None
        self.settled.set()


def request_meta(version: str) -> JSONObject:
    """The `_meta` of every request of the newer era; this client declares no capabilities."""
    return {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": CLIENT_INFO.name, "version": CLIENT_INFO.version},
        CLIENT_CAPABILITIES_META_KEY: {},
    }


async def discover(dispatcher: JSONRPCDispatcher) -> JSONObject:
    """The raw answer to `server/discover`.

    Raises:
        MCPError: If the server answers with an error or the connection breaks.
    """
    headers = {
        MCP_PROTOCOL_VERSION_HEADER: LATEST_MODERN_VERSION,
        MCP_METHOD_HEADER: _DISCOVER,
    }
    options: CallOptions = {"cancel_on_abandon": False, "headers": headers}
    params = {"_meta": request_meta(LATEST_MODERN_VERSION)}
    return await dispatcher.send_raw_request(_DISCOVER, params, options)


async def negotiate(session: ClientSession, dispatcher: JSONRPCDispatcher) -> ServerInfo:
    """Open a connection to a server of unknown era.

    Raises:
        MCPError: If it refuses both handshakes, or the connection breaks.
        RuntimeError, ValueError: If its answer is not valid.
    """
    probe = _Probe()
    async with open_task_group() as tasks:
        tasks.start_soon(probe.run, dispatcher)
        with anyio.move_on_after(_PROBE_TIMEOUT):
            await probe.settled.wait()
        outcome = adopt(session, probe.answer) or await _initialize_or_adopt(session, probe)
        tasks.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def adopt(session: ClientSession, answer: JSONObject | None) -> ServerInfo | None:
    """Use an answer to `server/discover` as the handshake; None if it is not usable."""
    info = read_discovered(answer)
    if info is not None:
        session.adopt(DiscoverResult.model_validate(info.discover))
    return info


def read_discovered(answer: JSONObject | None) -> ServerInfo | None:
    """Parse an answer to `server/discover`; None if it has no version that we support."""
    if answer is None:
        return None
    ttl = answer.get("ttlMs")
    if isinstance(ttl, int | float) and ttl < 0:
        answer = answer | {"ttlMs": 0}
    try:
        result = DiscoverResult.model_validate(answer)
    except ValidationError:
        return None
    versions = [v for v in MODERN_PROTOCOL_VERSIONS if v in result.supported_versions]
    if not versions:
        return None
    tools = result.capabilities.tools
    return ServerInfo(
        versions[-1],
        result.instructions or "",
        list_changed=bool(tools and tools.list_changed),
        discover=answer,
    )


async def initialize(session: ClientSession) -> ServerInfo:
    """Open a connection in the older era.

    Raises:
        MCPError: If the server answers with an error or the connection breaks.
        RuntimeError, ValueError: If its answer is not valid.
    """
    result = await session.initialize()
    return ServerInfo(str(result.protocol_version), result.instructions or "")


async def _initialize_or_adopt(session: ClientSession, probe: _Probe) -> ServerInfo | Exception:
    # Errors are returned, so that the task group around this does not wrap them.
    try:
        return await initialize(session)
    except MCPError as error:
        if error.code == UNSUPPORTED_PROTOCOL_VERSION:
            await probe.settled.wait()  # it is of the newer era and answers slowly
        return adopt(session, probe.answer) or error
    except (RuntimeError, ValueError) as error:
        return error
