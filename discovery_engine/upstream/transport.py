"""The base class of transports, and the errors of failed connects and handshakes."""

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
"""Handles a notification of the server that does not belong to a request in flight."""
RequestAnswer: TypeAlias = JSONObject | RpcError | Callable[[], Awaitable[JSONObject]]
"""The answer to a request of the server, or a function that makes it, which may raise RpcError."""
OnRequest: TypeAlias = Callable[[str, JSONObject], RequestAnswer]
"""Handles a request of the server, given its method and parameters."""


class MessageHandlers(NamedTuple):
    """The handlers of messages that a server sends on its own."""

    on_notification: OnNotification
    on_request: OnRequest
    answer_time: Callable[[], float]
    """Returns the seconds in which a request of the server must be answered now."""


_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ETOOMANYREFS)


class Transport(ABC):
    """An open transport to one server, which an `open_…_transport` function opens and closes."""

    kind: TransportKind
    is_lost: bool = False
    """Set when the server closed the connection."""

    def __init__(self, server: ServerName, peer: Peer) -> None:
        self.server = server
        self.peer = peer
        """Sends requests and notifications to the server."""

    @property
    def stderr(self) -> str:
        """The last stderr lines of a program; empty for a remote server."""
        return ""

    @abstractmethod
    async def connect_error(self, error: Exception) -> UnavailableError:
        """Return the error for a connect that failed with the exception `error`."""

    def timeout_error(self, seconds: float) -> UnavailableError:
        """Return the error for a server that did not answer the handshake within `seconds`."""
        return timed_out(self.server, seconds)

    def headers(self, method: str, details: RequestDetails) -> Mapping[str, str] | None:
        """Return the HTTP headers of a request; None for a transport without HTTP."""
        del method, details
        return None

    def header_fault(self, definition: JSONObject) -> str | None:
        """Return why the headers that a tool declares are invalid; None if they are valid."""
        del definition
        return None

    def header_map(self, definition: JSONObject) -> HeaderMap | None:
        """Return which arguments of a tool are sent as headers (`x-mcp-header`); None if none."""
        del definition
        return None

    async def exit_reason(self) -> str:
        """Return how the server closed the connection, in words."""
        return "it closed the connection"

    @abstractmethod
    async def describe_loss(self, error: RpcError) -> str | None:
        """Return why the outcome of a request that failed with `error` is unknown, else None."""

    @abstractmethod
    def refusal_error(self, error: RpcError) -> UnavailableError | None:
        """Return the error of a request that never reached the server; None if it may have."""

    def never_left(self, error: RpcError) -> bool:
        """Return whether a request that failed with `error` provably never left this process."""
        del error
        return False

    @abstractmethod
    def wants_new_session(self, error: RpcError) -> bool:
        """Return whether the server refused a request because it no longer has the session."""


def handshake_error(server: ServerName, error: Exception, *, stderr: str = "") -> UnavailableError:
    """Return the error for a server whose answer to the handshake is an error or invalid."""
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
    """Return the error for a process that is out of resources, which is no fault of the server."""
    failure = UnavailableError(
        server,
        FailureKind.BUSY,
        f"this process is out of resources to reach it: {error.strerror}",
        hint="try again when less is going on, or raise the limits of this process (`ulimit -a`)",
    )
    failure.retry_after = 1.0
    return failure


class ForeignOutput(Struct, frozen=True):
    """Output on a program's stdout that is not MCP; both fields are empty if there was none."""

    reason: str = ""
    """A description of the output without a quote, which agents may read."""
    detail: str = ""
    """A description with a quote of the output, for the owner only."""


_NOTHING = ForeignOutput()


def timed_out(
    server: ServerName, seconds: float, *, output: ForeignOutput = _NOTHING, stderr: str = ""
) -> UnavailableError:
    """Return the error for a server that did not answer the handshake within `seconds`.

    `output` describes what its program wrote instead, and `stderr` has its last lines.
    """
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
    """Answer a request of the server, at once or when the function for it returns.

    See `Respond` for the None that `respond` may get.
    """
    match on_request(request.method, request.params or {}):
        case dict() as result:
            respond(Response(request.id, result))
        case RpcError() as error:
            respond(ErrorResponse(request.id, error))
        case work:
            working.start(request.id, work, respond)


def encoded_answer(answer: Response | ErrorResponse) -> bytes:
    """Encode an answer to the server; one that is not valid JSON becomes an internal error."""
    try:
        return encode(as_json(answer))
    except ValueError:
        error = RpcError(INTERNAL_ERROR, "the answer cannot be written as JSON")
        return encode(as_json(ErrorResponse(answer.id, error)))
