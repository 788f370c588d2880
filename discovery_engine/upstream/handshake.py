"""The handshake of a connection in both eras, its time limit, and the order of attempts.

A server of unknown era is sent `server/discover`. If it refuses the version and names one that is
supported here, the request is repeated with that version. After any other error, or three seconds
without an answer, `initialize` is sent. If that fails, a late answer to `server/discover` still
counts, since the server may start slowly. A server that requires a login for `server/discover` is
sent `initialize` as well: some list their tools without a login in that era. If it refuses the
version of `initialize` and names others, the newest common version is sent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias

import anyio
from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import open_task_group
from discovery_engine._util.version import __version__
from discovery_engine.config.settings import (
    USUAL_CONNECT,
    RemoteTransport,
    ServerSettings,
    StdioTransport,
)
from discovery_engine.config.syntax import PACKAGE_RUNNERS, program_name
from discovery_engine.errors import FailureKind, NeedsAuthError, UnavailableError
from discovery_engine.rpc import protocol
from discovery_engine.rpc.messages import RequestTimeout, RpcError
from discovery_engine.rpc.request_headers import RequestDetails
from discovery_engine.rpc.request_timer import RequestTimeLimit
from discovery_engine.upstream.connection import Era, TransportKind
from discovery_engine.upstream.transport import Transport

_OWN_EXTENSIONS: JSONObject = {protocol.SKILLS_EXTENSION: {}}
"""Extensions that are used for clients of any kind."""
_CLIENT_INFO = {"name": "discovery", "version": __version__}
_DISCOVER = "server/discover"
_PROBE_TIMEOUT = 3.0  # seconds without an answer after which `initialize` is sent as well
_UNSUPPORTED = protocol.UNSUPPORTED_PROTOCOL_VERSION
_ACCEPTED = ("2024-10-07", *protocol.HANDSHAKE_VERSIONS)
"""The versions that `initialize` may agree on.

The first is a draft that some servers use and other clients accept.
"""
_VERSION = re.compile(r"\b20\d\d-\d\d-\d\d\b(?!,? \d\d?:)")  # a date without a time of day
_OF_VERSIONS = re.compile("protocol.?version|supported", re.IGNORECASE)

Capabilities: TypeAlias = Mapping[str, JSONObject]
_NOTHING: Capabilities = MappingProxyType({})


class NoCommonVersionError(ValueError):
    """A server that supports only `versions`, none of which `initialize` supports here."""

    def __init__(self, versions: Collection[str]) -> None:
        theirs, ours = (", ".join(sorted(v)) for v in (versions, _ACCEPTED))
        super().__init__(
            f"it has no protocol version in common with discovery: it supports {theirs}; "
            f"`initialize` of discovery supports {ours}"
        )
        self.versions = versions


class ServerInfo(Struct, frozen=True):
    """The result of the handshake."""

    version: str
    instructions: str = ""
    discover: JSONObject | None = None
    """The raw answer to `server/discover`; None after `initialize`."""
    capabilities: JSONObject = {}
    """The capabilities that the server declares."""

    @property
    def is_modern(self) -> bool:
        return self.discover is not None

    @property
    def listenable(self) -> JSONObject:
        """The list changes that the server declares, as params of `subscriptions/listen`."""
        return {
            f"{name}ListChanged": True
            for name in ("tools", "prompts", "resources")
            if self.declares(name, "listChanged")
        }

    def declares(self, capability: str, option: str) -> bool:
        declared = self.capabilities.get(capability)
        return isinstance(declared, dict) and declared.get(option) is True


class _Probe(Struct):
    """One `server/discover` request in flight."""

    answer: JSONObject | None = None
    refusal: RpcError | None = None
    """The error of a server that requires a login; None otherwise."""
    settled: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, transport: Transport) -> None:
        try:
            self.answer = await _discover_any_version(transport)
        except RpcError as error:
            if isinstance(transport.refusal_error(error), NeedsAuthError):
                self.refusal = error
        self.settled.set()


def request_meta(version: str, capabilities: Capabilities = _NOTHING) -> JSONObject:
    """Return the `_meta` of a request of the newer era, with the capabilities of its client."""
    return {
        protocol.PROTOCOL_VERSION: version,
        protocol.CLIENT_INFO: _CLIENT_INFO,
        protocol.CLIENT_CAPABILITIES: {
            **capabilities,
            "extensions": _OWN_EXTENSIONS | capabilities.get("extensions", {}),
        },
    }


async def discover(transport: Transport, version: str = protocol.LATEST_MODERN) -> JSONObject:
    """Send `server/discover`, and return the raw answer.

    Raises:
        RpcError: If the server answers with an error or the connection breaks.
    """
    params = {"_meta": request_meta(version)}
    headers = transport.headers(_DISCOVER, RequestDetails(version))
    return await transport.peer.request(_DISCOVER, params, headers=headers, can_cancel=False)


async def _discover_any_version(transport: Transport) -> JSONObject:
    """Call `discover`; if the server refuses the version, retry with the newest common one."""
    try:
        return await discover(transport)
    except RpcError as error:
        versions = _mutual_versions(error)
        if not versions:
            raise
    return await discover(transport, versions[-1])


def _mutual_versions(error: RpcError) -> list[str]:
    """Return the supported versions, oldest first, that the refusal of a version names."""
    match error.data:
        case {"supported": list() as supported} if error.code == _UNSUPPORTED:
            return [version for version in protocol.MODERN_VERSIONS if version in supported]
    return []


async def connect(
    transport: Transport, era: Era | None, capabilities: Capabilities, start: Startup
) -> ServerInfo | UnavailableError:
    """Do the handshake within the time limit of `start`, and return its result or the failure.

    Without an `era` both are tried; with one that has an answer to `server/discover`, nothing is
    sent.
    """
    # Errors are returned, not raised, so that task groups do not wrap them.
    try:
        with RequestTimeLimit(RequestTimeout(start.limit - start.seconds)):
            if era is None:
                return await negotiate(transport, capabilities)
            return read_discovered(era.discover) or await initialize(transport, capabilities)
    except TimeoutError:
        return transport.timeout_error(start.limit)
    except NoCommonVersionError as error:
        hint = "install another version of the server, or a newer one of discovery"
        return UnavailableError(
            transport.server, FailureKind.NOT_MCP, str(error), hint=hint, stderr=transport.stderr
        )
    except (RpcError, ValueError) as error:
        return await transport.connect_error(error)


async def negotiate(transport: Transport, capabilities: Capabilities = _NOTHING) -> ServerInfo:
    """Do the handshake with a server of unknown era, declaring the clients' `capabilities`.

    Raises:
        RpcError: If the server refuses both handshakes, or the connection breaks.
        NoCommonVersionError: If it supports other versions only.
        ValueError: If its answer is invalid.
    """
    probe = _Probe()
    async with open_task_group() as tasks:
        tasks.start_soon(probe.run, transport)
        with anyio.move_on_after(_PROBE_TIMEOUT):
            await probe.settled.wait()
        outcome = read_discovered(probe.answer) or await _initialize_or_adopt(
            transport, probe, capabilities
        )
        tasks.cancel_scope.cancel()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def read_discovered(answer: JSONObject | None) -> ServerInfo | None:
    """Parse an answer to `server/discover`; None if it is invalid or has no supported version."""
    if answer is None:
        return None
    match answer:
        case {"supportedVersions": list() as supported, "capabilities": dict() as capabilities}:
            versions = [v for v in protocol.MODERN_VERSIONS if v in supported]
        case _:
            return None
    if not versions:
        return None
    return ServerInfo(
        versions[-1],
        _instructions(answer),
        discover=answer,
        capabilities=capabilities,
    )


async def initialize(transport: Transport, capabilities: Capabilities = _NOTHING) -> ServerInfo:
    """Do the handshake of the older era, declaring the clients' `capabilities`.

    If the server refuses the version and names others, the newest common one is tried.

    Raises:
        RpcError: If the server answers with an error or the connection breaks.
        NoCommonVersionError: If it supports other versions only.
        ValueError: If its answer is invalid.
    """
    try:
        result = await _initialize(transport, protocol.LATEST_HANDSHAKE, capabilities)
    except RpcError as error:
        named = _named_versions(transport, error) - {protocol.LATEST_HANDSHAKE}
        if not named:
            raise
        if not (shared := named.intersection(_ACCEPTED)):
            raise NoCommonVersionError(named) from error
        result = await _initialize(transport, max(shared), capabilities)
    version = result.get("protocolVersion")
    if not isinstance(version, str):
        raise ValueError("it names no protocol version")  # noqa: TRY004 - external data
    if version not in _ACCEPTED:
        if not _VERSION.fullmatch(version):
            raise ValueError("it names a protocol version that is none of MCP")
        raise NoCommonVersionError([version])
    declared = result.get("capabilities")
    initialized = "notifications/initialized"
    headers = transport.headers(initialized, RequestDetails(version))
    await transport.peer.notify(initialized, headers=headers)
    return ServerInfo(
        version,
        _instructions(result),
        capabilities=declared if isinstance(declared, dict) else {},  # PHP writes `[]` for `{}`
    )


async def _initialize(transport: Transport, version: str, capabilities: Capabilities) -> JSONObject:
    params = {
        "protocolVersion": version,
        "capabilities": dict(capabilities),
        "clientInfo": _CLIENT_INFO,
    }
    return await transport.peer.request("initialize", params, can_cancel=False)


def _named_versions(transport: Transport, error: RpcError) -> frozenset[str]:
    """Return the versions that a refusal names in its data, message or HTTP body.

    A refusal that demands a login names none.
    """
    refusal = transport.refusal_error(error)
    if isinstance(refusal, NeedsAuthError):
        return frozenset()
    text = f"{error.message} {json.dumps(error.data)} {refusal.detail if refusal else ''}"
    versions = frozenset(_VERSION.findall(text))
    return versions if _OF_VERSIONS.search(text) else versions.intersection(_ACCEPTED)


async def _initialize_or_adopt(
    transport: Transport, probe: _Probe, capabilities: Capabilities
) -> ServerInfo | Exception:
    # Errors are returned, so that the task group around this does not wrap them.
    try:
        return await initialize(transport, capabilities)
    except RpcError as error:
        if error.code == protocol.UNSUPPORTED_PROTOCOL_VERSION:
            await probe.settled.wait()  # the server is of the newer era and answers slowly
        # A missing login comes before other errors: the owner can do something about it.
        return read_discovered(probe.answer) or probe.refusal or error
    except NoCommonVersionError as error:
        if set(error.versions).intersection(protocol.MODERN_VERSIONS):
            await probe.settled.wait()
        return read_discovered(probe.answer) or error
    except ValueError as error:
        return error


def _instructions(answer: JSONObject) -> str:
    instructions = answer.get("instructions")
    return instructions if isinstance(instructions, str) else ""


# One start of a server: its time limit and its progress.
#
# `timeouts.connect` applies to every start. Without it, the first start of a program has a longer
# limit: its modules are not compiled yet, and a package runner may have to download it.

FIRST_START_TIMEOUT = 60.0  # seconds; compiling Python modules on a slow disk takes half of it
RUNNER_START_TIMEOUT = 180.0  # seconds: 200 MB (an image, or a package with a browser) at 10 Mbit/s

_LEADING_WORDS = 6  # a runner may follow `env`, `cmd /c` or `sh -c "exec`


class Startup:
    """One start of a server, timed from its creation, when the server has its start slot."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        """Seconds within which the server must answer the handshake."""
        self.transport: Transport | None = None
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start began; may be read from any thread."""
        return time.monotonic() - self._began

    @property
    def stderr(self) -> str:
        """The last stderr lines of the program; empty before there is a transport."""
        return self.transport.stderr if self.transport else ""


def startup_timeout(server: ServerSettings, *, is_first: bool) -> float:
    """Return the seconds that a start may take; `is_first` means that no era is stored."""
    if server.timeouts.connect is not None:
        return server.timeouts.connect
    if not is_first or not isinstance(server.transport, StdioTransport):
        return USUAL_CONNECT
    return RUNNER_START_TIMEOUT if _is_run_by_a_runner(server.transport) else FIRST_START_TIMEOUT


def _is_run_by_a_runner(stdio: StdioTransport) -> bool:
    words = " ".join((stdio.command, *stdio.args[:_LEADING_WORDS])).split()[:_LEADING_WORDS]
    return any(program_name(word) in PACKAGE_RUNNERS for word in words)


# The strategies for connecting to a server, and their order.
#
# The stored era is tried first; if that fails, the server is probed once. A program that exits on
# `server/discover` is started again and sent `initialize`.

_FINAL = {
    FailureKind.NOT_FOUND,
    FailureKind.PERMISSION,
    FailureKind.NEEDS_CONFIG,
    FailureKind.AUTH,
    FailureKind.DNS,
    FailureKind.TLS,
    FailureKind.REFUSED,
    FailureKind.TIMEOUT,
    FailureKind.UNTRUSTED,
}


class ConnectStrategy(Struct, frozen=True):
    """One way to connect."""

    kind: TransportKind
    era: Era | None = None
    """The protocol era to use; None probes the server."""
    is_stored: bool = False
    """True if the era comes from an earlier connection."""
    falls_back: bool = False
    """True if SSE is tried when the server does not support streamable HTTP."""
    first_failure: UnavailableError | None = None
    """The failure that is raised if later strategies, which are only guesses, fail as well."""

    @property
    def skips_handshake(self) -> bool:
        """True if the stored answer to `server/discover` replaces the handshake."""
        return self.is_stored and self.era is not None and self.era.discover is not None


def first_strategy(server: ServerSettings, stored: Era | None) -> ConnectStrategy:
    if stored is not None:
        return ConnectStrategy(stored.kind, stored, is_stored=True)
    transport = server.transport
    if not isinstance(transport, RemoteTransport):
        return ConnectStrategy("stdio")
    if transport.kind == "sse":
        return ConnectStrategy("sse", Era("sse"))
    return ConnectStrategy("http", falls_back=transport.kind == "auto")


def next_strategy(
    server: ServerSettings, failed: ConnectStrategy, failure: UnavailableError
) -> ConnectStrategy | None:
    """Return the strategy to try after `failed`; None if there is none."""
    if failure.kind in _FINAL:
        return None
    if failed.is_stored:
        return first_strategy(server, None)
    if failed.kind == "stdio" and failed.era is None and failure.kind is FailureKind.EXITED:
        return replace(failed, era=Era("stdio"))
    if failed.falls_back and failure.kind in {FailureKind.HTTP, FailureKind.NOT_MCP}:
        return ConnectStrategy("sse", Era("sse"), first_failure=failure)
    return None
