"""Why an HTTP exchange failed: a text that names the host, and a hint for the owner.

What the libraries raise says "All connection attempts failed", and the reason is somewhere behind
it. An address is named by host and port alone: the rest of it may hold a key.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx2
from msgspec import Struct

from discovery_engine.errors import FailureKind

_PORTS = {"http": 80, "https": 443}
_ENDPOINT = "check that url is an MCP endpoint"


class Outage(Struct, frozen=True):
    kind: FailureKind
    reason: str
    hint: str = ""
    detail: str = ""
    """The message of a library, which may quote the server."""


def outage(error: httpx2.RequestError, request: httpx2.Request) -> Outage:
    """The cause of `error`, which was raised when `request` was sent."""
    place = _place(request.url)
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
    return Outage(FailureKind.OTHER, type(error).__name__, detail=str(error))


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all its causes."""
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


def _place(url: httpx2.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or _PORTS.get(url.scheme, '')}"


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
    """The message of the system, if there is one."""
    messages = (cause.strerror for cause in causes(error) if isinstance(cause, OSError))
    text = next(filter(None, messages), "") or str(error)
    return f": {text}" if text else ""
