"""Who may ask over HTTP: a guard before all routes, against pages that the user opens.

A program on a port can be called by every web page, for a page may point a name of its own at any
address (DNS rebinding). So a request must be sent to a name of this server, and may come only
from a page of that name, or of the user's own machine. An address in digits is no name: no page
can point it anywhere else.

A request that says twice how long it is ends its connection: a proxy in front may have read it in
the other way, and take for another request what was hidden in its body.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from discovery_engine.errors import ConfigurationError, Origin, Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

_MOST_TOLD = 20  # names; who sends more is no neighbour who got one wrong


class Endpoint(Struct, frozen=True):
    """Where to listen, and for whom."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    allow_remote: bool = False
    """Also serve other machines, without TLS."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that clients may call it by besides those of this machine; without a port."""

    def names(self) -> frozenset[str]:
        """What clients may call it by, in lower case, besides the names that only mean itself."""
        names = [*self.allowed_hosts]
        if self.allow_remote:
            machine = socket.gethostname()
            short = machine.partition(".")[0]
            names += (self.host, machine, short, f"{short}.local")
        return frozenset(map(str.casefold, names))


def require_allowed(endpoint: Endpoint, *, has_token: bool) -> None:
    """Refuse to serve other machines unless the owner said so, and ever without a token.

    Raises:
        ConfigurationError: If it is not for this machine alone, and may not be for others.
    """
    if not has_token and (endpoint.allow_remote or not is_loopback(endpoint.host)):
        message = "without a token whoever reaches it can call every tool"
        hint = "serve other machines with a token, or this one alone without"
        raise ConfigurationError([Problem(Origin("--no-token"), "", message, hint)])
    if endpoint.allow_remote or is_loopback(endpoint.host):
        return
    problem = Problem(
        Origin("--http"),
        "",
        f"{endpoint.host!r} can be reached from other machines, and there is no TLS: whoever"
        " listens on the way reads the token",
        "serve 127.0.0.1, behind a proxy of yours that speaks TLS (and whose name is an"
        " `--allowed-host`); where nobody can listen, `--allow-remote` serves it as it is",
    )
    raise ConfigurationError([problem])


def is_loopback(host: str) -> bool:
    address = _address(host)
    return host.casefold() == "localhost" if address is None else address.is_loopback


class Guard:
    """Turns away what was not sent to this server by a name of its own, or by a foreign page.

    `localhost` and loopback addresses are always names of it, and where other machines are served,
    so is every address.
    """

    def __init__(self, app: ASGIApp, endpoint: Endpoint) -> None:
        self._app = app
        self._names = endpoint.names()
        self._any_address = endpoint.allow_remote
        self._told: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            status, text = refusal
            # What follows on the connection may be part of what was refused.
            close = {"connection": "close"}
            await PlainTextResponse(text, status, close)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        if "transfer-encoding" in headers and "content-length" in headers:
            return 400, "Both Content-Length and Transfer-Encoding"
        hosts = headers.getlist("host")
        host = host_of(f"//{hosts[0]}") if len(hosts) == 1 else None
        if host is None:
            return 421, "Invalid Host header"
        if not self._is_ours(host):
            self._tell(host)
            return 421, "Invalid Host header: not a name of this server"
        for origin in headers.getlist("origin"):
            page = host_of(origin)
            if page is None or not (page == host or is_loopback(page)):
                return 403, "Invalid Origin header"
        return None

    def _is_ours(self, host: str) -> bool:
        if host in self._names or is_loopback(host):
            return True
        return self._any_address and _address(host) is not None

    def _tell(self, host: str) -> None:
        """Say once which name was not taken: an owner who uses it has to know what to do."""
        if host not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(host)
            hint = "`--allowed-host` adds one"
            logger.warning(
                "A request to %.100r was refused: no name of this server; %s", host, hint
            )


def host_of(address: str) -> str | None:
    """The host of an address, in lower case; None if it has none (`null`) or more than a host."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # read for the error it raises if it is no number
    except ValueError:
        return None
    is_more = "@" in parts.netloc or parts.path or parts.query or parts.fragment
    if is_more or parts.scheme not in ("", "http", "https"):
        return None
    return parts.hostname


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
