"""The base class of transports: messages to and from one server, and why they failed."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeGuard

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import quoted
from discovery_engine.errors import FailureKind, UnavailableError
from discovery_engine.rpc.in_flight import IncomingRequests
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import (
    ErrorResponse,
    InvalidAnswerError,
    Notification,
    Peer,
    Request,
    Response,
    RpcError,
    as_json,
)
from discovery_engine.rpc.protocol import INTERNAL_ERROR
from discovery_engine.rpc.request_headers import HeaderMap, RequestDetails
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import TransportKind

OnNotification: TypeAlias = Callable[[Notification], None]
"""Called with each notification of the server that is not about a request in flight."""
RequestAnswer: TypeAlias = JSONObject | RpcError | Callable[[], Awaitable[JSONObject]]
"""The answer to a request of the server; or the work that gives it, which may raise RpcError."""
OnRequest: TypeAlias = Callable[[str, JSONObject], RequestAnswer]
"""Called with the method and the params of each request of the server."""


class MessageHandlers(NamedTuple):
    """The handlers of a server's messages that are not about a request in flight."""

    on_notification: OnNotification
    on_request: OnRequest
    answer_time: Callable[[], float]
    """Seconds that `on_request` may take to answer now."""


_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ETOOMANYREFS)


class Transport(ABC):
    """An open transport to one server; created and closed by an `open_…_transport` function."""

    kind: TransportKind
    is_lost: bool = False
    """Set when the server closed the connection."""

    def __init__(self, server: ServerName, peer: Peer) -> None:
        self.server = server
        self.peer = peer
        """The server, for requests and notifications."""

    @property
    def stderr(self) -> str:
        """The last stderr lines of a program; empty for a remote server."""
        return ""

    @abstractmethod
    async def connect_error(self, error: Exception) -> UnavailableError:
        """The error for a failed connect, from the exception that was caught."""

    def timeout_error(self, seconds: float) -> UnavailableError:
        """The error for a server that did not answer the handshake within `seconds`."""
        return timed_out(self.server, seconds)

    def headers(self, method: str, details: RequestDetails) -> Mapping[str, str] | None:
        """The HTTP headers of a request; None if this is not HTTP."""
        del method, details
        return None

    def header_fault(self, definition: JSONObject) -> str | None:
        """Why a tool cannot be used: an invalid header for one of its arguments; None if valid."""
        del definition
        return None

    def header_map(self, definition: JSONObject) -> HeaderMap | None:
        """The arguments of a tool that are sent as headers (`x-mcp-header`); None if none is."""
        del definition
        return None

    async def exit_reason(self) -> str:
        """How the server closed the connection, as text."""
        return "it closed the connection"

    @abstractmethod
    async def describe_loss(self, error: RpcError) -> str | None:
        """Why the outcome of a request that failed with `error` is unknown; None if it is known."""

    @abstractmethod
    def refusal_error(self, error: RpcError) -> UnavailableError | None:
        """Why a request that failed with `error` never reached the server; None if it did."""

    def never_left(self, error: RpcError) -> bool:
        """Return whether a request that failed with `error` provably never left this process."""
        del error
        return False

    @abstractmethod
    def wants_new_session(self, error: RpcError) -> bool:
        """Return whether the server refused a request because it no longer has the session."""


def handshake_error(server: ServerName, error: Exception, *, stderr: str = "") -> UnavailableError:
    """The error for a server whose answer to the handshake is not usable."""
    detail = ""
    if isinstance(error, InvalidAnswerError):
        reason = f"its answer to the handshake cannot be used: {error.message}"
    elif isinstance(error, RpcError):
        code = f"error {error.code}" if error.code else "an error"
        reason = f"it refused the handshake with {code}"
        detail = f"it answered {quoted(error.message[:200])}"
    else:
        reason = f"its answer to the handshake is not one of MCP: {error}"
    hint = "check that this is an MCP server"
    return UnavailableError(
        server, FailureKind.NOT_MCP, reason, hint=hint, stderr=stderr, detail=detail
    )


def is_resource_exhausted(error: BaseException) -> TypeGuard[OSError]:
    """Return whether the system is out of descriptors, processes or memory."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


def resources_exhausted(server: ServerName, error: OSError) -> UnavailableError:
    """The error when this process is out of resources; the server is not at fault."""
    failure = UnavailableError(
        server,
        FailureKind.BUSY,
        f"this process is out of resources to reach it: {error.strerror}",
        hint="try again when less is going on, or raise the limits of this process (`ulimit -a`)",
    )
    failure.retry_after = 1.0
    return failure


class ForeignOutput(Struct, frozen=True):
    """Output of a program that is not MCP; both fields are empty if there was none."""

    reason: str = ""
    """One sentence without a quote, for agents too."""
    detail: str = ""
    """The same with a quote of the output, for the owner only."""


_NOTHING = ForeignOutput()


def timed_out(
    server: ServerName, seconds: float, *, output: ForeignOutput = _NOTHING, stderr: str = ""
) -> UnavailableError:
    """The error for a server that did not answer; `output` is what it wrote instead."""
    kind, reason = FailureKind.TIMEOUT, f"it did not answer the handshake within {seconds:g} s"
    hint = f"raise `timeouts.connect` of server {server!r} if it is slow to start"
    if output.reason:
        kind, reason = FailureKind.NOT_MCP, f"{reason}; {output.reason}"
        hint = f"check that this is an MCP server, with nothing else on its stdout; or {hint}"
    return UnavailableError(server, kind, reason, hint=hint, stderr=stderr, detail=output.detail)


def answer_request(
    request: Request,
    on_request: OnRequest,
    working: IncomingRequests,
    respond: Callable[[Response | ErrorResponse | None], None],
) -> None:
    """Answer a request of the server, at once or when its work is done; see `Respond`."""
    match on_request(request.method, request.params or {}):
        case dict() as result:
            respond(Response(request.id, result))
        case RpcError() as error:
            respond(ErrorResponse(request.id, error))
        case work:
            working.start(request.id, work, respond)


def encoded_answer(answer: Response | ErrorResponse) -> bytes:
    """An answer to the server as a line; a client's answer that is not JSON becomes an error."""
    try:
        return encode(as_json(answer))
    except ValueError:
        error = RpcError(INTERNAL_ERROR, "the answer cannot be written as JSON")
        return encode(as_json(ErrorResponse(answer.id, error)))
