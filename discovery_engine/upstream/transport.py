"""What carries messages to one server and back, and can say why it failed."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self, TypeGuard

import anyio
from mcp import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import quoted
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import TransportKind

_OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ETOOMANYREFS)


class Transport(ABC):
    """An open transport to one server; made, and closed, by a room-internal `open_…_link`."""

    kind: TransportKind
    is_lost: bool = False
    """Set when the server went away by itself."""

    def __init__(self, server: ServerName) -> None:
        self.server = server

    @property
    def stderr(self) -> str:
        """The last lines of a program's error output; empty for an address."""
        return ""

    @abstractmethod
    def dispatcher(self) -> JSONRPCDispatcher:
        """The messages of this transport as requests and answers; called once."""

    @abstractmethod
    async def connect_error(self, error: Exception) -> UnavailableError:
        """What kept the server from being connected, told from what was caught."""

    def timeout_error(self, seconds: float) -> UnavailableError:
        """The error for a server that did not answer the handshake in so many seconds."""
        return timed_out(self.server, seconds)

    def result(self, passed_on: JSONObject) -> JSONObject:
        """The result of a request, from what the SDK passed on."""
        return passed_on

    async def exit_reason(self) -> str:
        """How the server went away, in words."""
        return "it closed the connection"

    @abstractmethod
    async def describe_loss(self, error: MCPError) -> str | None:
        """Why the fate of a request that ended in `error` is unknown; None if it is known."""

    @abstractmethod
    def refusal_error(self, error: MCPError) -> UnavailableError | None:
        """Why a request that ended in `error` was not taken up on the way; None if it was."""

    @abstractmethod
    def wants_new_session(self, error: MCPError) -> bool:
        """Whether the server refused a request only because it forgot the session."""


class Stream:
    """What the SDK's protocols for reading and writing messages have in common.

    Its ends are closed by whoever opened them, not by the SDK.
    """

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class ReadingStream(Stream, ABC):
    """Messages to be read, one by one; what is no message may come as the error that it is."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """The next one.

        Raises:
            EndOfStream: If there will be none any more.
        """

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def handshake_error(server: ServerName, error: Exception, *, stderr: str = "") -> UnavailableError:
    """The error for a server that answers the handshake, but not as one does."""
    if isinstance(error, MCPError):
        reason = f"it refused the handshake with error {error.code}"
        detail = f"it answered {quoted(error.message[:200])}"
    else:
        reason = "its answer to the handshake is not one of MCP"
        detail = _first_line(error)
    hint = "check that this is an MCP server"
    return UnavailableError(
        server, FailureKind.NOT_MCP, reason, hint=hint, stderr=stderr, detail=detail
    )


def is_resource_exhausted(error: BaseException) -> TypeGuard[OSError]:
    """Whether the system had nothing left to give: no descriptor, no process, no memory."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_ROOM


def resources_exhausted(server: ServerName, error: OSError) -> UnavailableError:
    """The error for a server that we are in no state to reach; it is not to blame."""
    told = UnavailableError(
        server,
        FailureKind.BUSY,
        f"there is no room to reach it: {error.strerror}",
        hint="try again when less is going on, or raise the limits of this process (`ulimit -a`)",
    )
    told.retry_after = 1.0
    return told


class Wrote(Struct, frozen=True):
    """What a program wrote instead of messages; both are empty if it wrote nothing."""

    reason: str = ""
    """That it did, in our words."""
    detail: str = ""
    """The same with a quote, for the owner alone."""


_NOTHING = Wrote()


def timed_out(
    server: ServerName, seconds: float, *, wrote: Wrote = _NOTHING, stderr: str = ""
) -> UnavailableError:
    """The error for a server that did not answer; `wrote` is what came instead."""
    kind, reason = FailureKind.TIMEOUT, f"it did not answer the handshake within {seconds:g} s"
    hint = f"raise `timeouts.connect` of server {server!r} if it is slow to start"
    if wrote.reason:
        kind, reason = FailureKind.NOT_MCP, f"{reason}; {wrote.reason}"
        hint = f"check that this is an MCP server, with nothing else on its stdout; or {hint}"
    return UnavailableError(server, kind, reason, hint=hint, stderr=stderr, detail=wrote.detail)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
