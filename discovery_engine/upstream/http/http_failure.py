"""Failures of HTTP exchanges, with a reason that names the host, and a hint for the owner.

The library raises "All connection attempts failed"; the reason is in the causes of that error. An
address is named by host and port only, since the rest of a URL may contain a key.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx2
from msgspec import Struct

from discovery_engine._util.fetch.fetch_error import authority
from discovery_engine.errors import FailureKind
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import CONNECTION_CLOSED

_ENDPOINT = "check that url is an MCP endpoint"


class Outage(Struct, frozen=True):
    kind: FailureKind
    reason: str
    hint: str = ""
    detail: str = ""
    """The message of the library, which may quote the server."""


class HttpFailure(Struct, frozen=True):
    """The failure of one HTTP exchange."""

    reason: str
    status: int | None = None
    outage: Outage | None = None
    """The cause, if there was no response."""
    detail: str = ""
    """The message of the server or a library, for the owner only."""
    os_error: OSError | None = None
    """Set if this process was out of resources, so that nothing was sent."""
    was_sent: bool = True
    """False if the request provably never reached the server."""
    lost_session: bool = False
    """True if the server refused the request because it no longer has the session."""
    retry_after: float | None = None
    """The seconds in the server's Retry-After header."""
    challenge: str = ""
    """The server's WWW-Authenticate header."""
    hint: str = ""
    """The next step, if more is known than the status; may be empty."""
    can_log_in: bool = False
    """True if nobody has logged in, but a person could."""
    is_explained: bool = False
    """True if the reason is a sentence about the login, rather than a status."""
    announces_endpoint: bool = False
    """True if the server has the SSE transport, but its endpoint cannot be used."""
    lacks_scope: bool = False
    """True if the server accepts the token, but not for this request."""


class HttpError(RpcError):
    """The error of a request whose HTTP exchange failed."""

    def __init__(self, failure: HttpFailure, *, code: int = CONNECTION_CLOSED) -> None:
        super().__init__(code, failure.reason)
        self.failure = failure


def outage(error: httpx2.RequestError, request: httpx2.Request) -> Outage:
    """Return the outage that `error` means, which was raised while `request` was sent."""
    place = authority(request.url)
    if isinstance(error, httpx2.TimeoutException):
        reason = _timed_out(error, request, place)
        return Outage(FailureKind.TIMEOUT, reason, "check that the host can be reached from here")
    for cause in causes(error):
        if explanation := _behind(cause, request, place):
            return explanation
    if isinstance(error, httpx2.ConnectError):
        hint = "check that the server runs, and the host and port in url"
        return Outage(FailureKind.REFUSED, _not_connected(error, place), hint)
    if isinstance(error, httpx2.RemoteProtocolError):
        reason = f"{place} does not keep to HTTP"
        return Outage(FailureKind.NOT_MCP, reason, _ENDPOINT, detail=str(error))
    if isinstance(error, httpx2.NetworkError):
        return Outage(FailureKind.OTHER, f"the connection to {place} broke{_detail(error)}")
    is_decoding = isinstance(error, httpx2.DecodingError)
    reason = f"{place} sent {'what cannot be decompressed' if is_decoding else 'no usable answer'}"
    return Outage(FailureKind.OTHER, reason, detail=str(error) or type(error).__name__)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and all its causes, including members of exception groups."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from causes(inner)
        error = error.__cause__ or error.__context__


def _behind(cause: BaseException, request: httpx2.Request, place: str) -> Outage | None:
    if isinstance(cause, ssl.SSLError):
        hint = "check the certificate, and whether url should begin with http://"
        return Outage(FailureKind.TLS, _no_tls(cause, place), hint)
    if isinstance(cause, socket.gaierror):
        reason = f"host {request.url.host!r} cannot be resolved"
        return Outage(FailureKind.DNS, reason, "check the host name in url, and the network")
    return None


def _timed_out(error: httpx2.TimeoutException, request: httpx2.Request, place: str) -> str:
    limits = request.extensions.get("timeout", {})
    is_connecting = isinstance(error, httpx2.ConnectTimeout)
    seconds = limits.get("connect" if is_connecting else "read")
    within = f" within {seconds:g} s" if seconds else " in time"
    return f"{place} {'took no connection' if is_connecting else 'did not answer'}{within}"


def _no_tls(cause: ssl.SSLError, place: str) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate of {place} is not trusted: {cause.verify_message}"
    why = (cause.reason or "").replace("_", " ").lower()
    return f"{place} has an unexpected TLS response" + (f": {why}" if why else "")


def _not_connected(error: httpx2.ConnectError, place: str) -> str:
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes(error)):
        return f"connection refused by {place}"
    return f"{place} cannot be reached{_detail(error)}"


def _detail(error: httpx2.RequestError) -> str:
    """Return the first message of the operating system, or else the error's own, after a colon."""
    messages = (cause.strerror for cause in causes(error) if isinstance(cause, OSError))
    text = next(filter(None, messages), "") or str(error)
    return f": {text}" if text else ""
