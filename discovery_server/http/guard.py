"""Checks of `Host` and `Origin` before every route, against web pages that the user opens.

Every web page can send requests to a program on a local port, because it can point its own host
name at any address (DNS rebinding). So `Host` must be a name of this server, and `Origin` a page of
that name or of the user's own machine. IP addresses are safe: no page can point them anywhere else.

A request with both `Content-Length` and `Transfer-Encoding` ends its connection: a proxy in front
may use the other length, and read a second request in the body (request smuggling).
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from discovery_engine.errors import ConfigurationError
from discovery_server.http.asgi import CLOSE, refuse, refuse_websocket
from discovery_server.http.client_addresses import ip_address, is_loopback

if TYPE_CHECKING:
    from discovery_server.http.asgi import ASGIApp, Receive, Scope, Send
    from discovery_server.http.tls_files import Tls
else:  # `help(Endpoint)` needs the name; loading a library of certificates takes 50 ms
    Tls = object

logger = logging.getLogger(__name__)

_CHECKED = (b"host", b"origin", b"content-length", b"transfer-encoding")
_MAX_REMEMBERED = 64  # values of `Host`
_MAX_LOGGED = 20  # names; more would be an attack, not a misconfigured client
_FOREIGN = "ORIGIN_REFUSED"
_OTHER_NAME = "use `localhost`, or start the gateway with `--allowed-host NAME`"
_OTHER_PAGE = "open the page at the address of the gateway; pages of other sites are refused"


class Endpoint(Struct, frozen=True):
    """The address to listen on, and which machines may connect."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 means any free port."""
    allow_remote: bool = False
    """Also serve other machines."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names, without a port, that are valid besides those of this machine."""
    tls: Tls | None = None
    """The TLS of connections; None for clear text."""

    def names(self) -> frozenset[str]:
        """Return the valid host names in lower case, besides loopback names and addresses."""
        # The names of the certificate are safe: a page of another site has no certificate for them.
        names = [*self.allowed_hosts, *(self.tls.certificate.names if self.tls else ())]
        if self.allow_remote:
            machine = socket.gethostname()
            short = machine.partition(".")[0]
            names += (self.host, machine, short, f"{short}.local")
        return frozenset(map(str.casefold, names))


def require_allowed(endpoint: Endpoint, *, has_token: bool) -> None:
    """Refuse to serve other machines without `--allow-remote`, or without a token.

    Raises:
        ConfigurationError: If other machines could connect without that option or a token.
    """
    if not has_token and (endpoint.allow_remote or not is_loopback(endpoint.host)):
        message = "without a token every client that reaches it can call every tool"
        hint = "use a token, or serve loopback only"
        raise ConfigurationError.of_file("SERVE_UNPROTECTED", "--no-token", message, hint)
    if endpoint.allow_remote or is_loopback(endpoint.host):
        return
    message = f"{endpoint.host!r} can be reached from other machines"
    hint = "if they may use it, add `--allow-remote`"
    if endpoint.tls is None:
        message += ", and without TLS the token can be read on the network"
        hint = (
            "use `--tls-cert` and `--tls-key`, or serve 127.0.0.1 behind a proxy with TLS (and add"
            " the name of the proxy with `--allowed-host`); then, or in a network that you trust,"
            " use `--allow-remote`"
        )
    raise ConfigurationError.of_file("SERVE_UNPROTECTED", "--http", message, hint)


class Guard:
    """ASGI middleware that refuses requests with a foreign `Host` or `Origin`.

    `localhost` and loopback addresses are always valid hosts; with `allow_remote` so is every IP
    address.
    """

    def __init__(self, app: ASGIApp, endpoint: Endpoint) -> None:
        self._app = app
        self._names = endpoint.names()
        self._any_address = endpoint.allow_remote
        self._logged: set[str] = set()
        self._valid: set[bytes] = set()
        """A cache of valid `Host` values: checking one takes a tenth of the time of a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if refusal := self._refusal(scope):
            status, text, code, hint = refusal
            if scope["type"] == "websocket":
                await refuse_websocket(send)
                return
            # The rest of the connection may be part of the refused request (request smuggling).
            await refuse(scope, send, status, text, CLOSE, hint=hint, code=code)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, str, str] | None:
        """Return the status, text, code and hint of a refusal; None if the request is valid."""
        named: dict[bytes, list[bytes]] = {name: [] for name in _CHECKED}
        for name, value in scope["headers"]:
            if name in named:
                named[name].append(value)
        if named[b"content-length"] and named[b"transfer-encoding"]:
            hint = "send one of them"
            return 400, "Both Content-Length and Transfer-Encoding", "INVALID_REQUEST", hint
        hosts, origins = named[b"host"], named[b"origin"]
        if len(hosts) == 1 and hosts[0] in self._valid and not origins:
            return None
        host = host_of(f"//{hosts[0].decode('latin-1')}") if len(hosts) == 1 else None
        if host is None:
            return 421, "Invalid Host header", _FOREIGN, "send one `Host`, the name in the address"
        if not self._is_valid_host(host):
            self._log(host)
            text = "Invalid Host header: not a name of this server"
            return 421, text, _FOREIGN, _OTHER_NAME
        for origin in origins:
            page = host_of(origin.decode("latin-1"))
            if page is None or not (page == host or is_loopback(page)):
                return 403, "Invalid Origin header", _FOREIGN, _OTHER_PAGE
        if len(self._valid) < _MAX_REMEMBERED:
            self._valid.add(hosts[0])
        return None

    def _is_valid_host(self, host: str) -> bool:
        if host in self._names or is_loopback(host):
            return True
        return self._any_address and ip_address(host) is not None

    def _log(self, host: str) -> None:
        """Log a refused name once: an owner who uses it needs to know the option for it."""
        if host not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(host)
            hint = "`--allowed-host` adds one"
            logger.warning(
                "A request for host %.100r was refused: not a name of this server; %s", host, hint
            )


def host_of(address: str) -> str | None:
    """Return the host of an address in lower case; None if it has none, or a path or user."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return None
    is_more = "@" in parts.netloc or parts.path or parts.query or parts.fragment
    if is_more or parts.scheme not in ("", "http", "https"):
        return None
    return parts.hostname
