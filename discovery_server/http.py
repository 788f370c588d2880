"""Streamable HTTP for both protocol eras, behind a guard that knows who may ask.

A program on a local port is reachable from every web page that the user opens. The guard stands
before all routes: it takes only requests that were sent to this machine's own names, and only
from pages that this machine served.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from discovery_engine.errors import ConfigurationError, Origin, Problem

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
_GOODBYE = 2  # seconds that open requests get when the server is told to stop


def require_loopback(host: str, *, allow_remote: bool) -> None:
    """Refuse to serve other machines unless the owner said so.

    Raises:
        ConfigurationError: If `host` is not this machine alone.
    """
    if allow_remote or is_loopback(host):
        return
    problem = Problem(
        Origin("--http"),
        "",
        f"{host!r} can be reached from other machines, and whoever reaches it can call every tool",
        "serve 127.0.0.1, behind a proxy of yours that asks others for a login; where the network"
        " itself keeps strangers out, `--allow-remote` serves it as it is",
    )
    raise ConfigurationError([problem])


def is_loopback(host: str) -> bool:
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Turns away what did not come to this machine's own name, or comes from a foreign page."""

    def __init__(self, app: ASGIApp, *, allow_remote: bool) -> None:
        self._app = app
        self._allow_remote = allow_remote

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope))):
            status, text = refusal
            await PlainTextResponse(text, status)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        hosts = headers.getlist("host")
        host = _hostname(f"//{hosts[0]}") if len(hosts) == 1 else None
        if host is None or not (self._allow_remote or is_loopback(host)):
            return 421, "Invalid Host header"
        for origin in headers.getlist("origin"):
            page = _hostname(origin)
            if page is None or not (page == host or is_loopback(page)):
                return 403, "Invalid Origin header"
        return None


def _hostname(address: str) -> str | None:
    """The host of an address, in lower case; None if it has none (`null`) or more than a host."""
    try:
        parts = urlsplit(address)
        _ = parts.port  # read for the error it raises if it is no number
    except ValueError:
        return None
    if parts.path or parts.query or parts.username or parts.scheme not in ("", "http", "https"):
        return None
    return parts.hostname


def make_app(server: Server[Any], *, allow_remote: bool) -> ASGIApp:
    """The ASGI application that serves MCP at `/mcp`."""
    # Our guard is exact about names and stands before every route; the SDK's would come second.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return Guard(app, allow_remote=allow_remote)


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves the signals to us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True


def make_http_server(app: ASGIApp) -> HttpServer:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_GOODBYE,
    )
    return HttpServer(config)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        ConfigurationError: If the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as exc:
        message = f"cannot listen on {host}:{port}: {exc.strerror or exc}"
        hint = "choose another port; 0 takes a free one"
        raise ConfigurationError([Problem(Origin("--http"), "", message, hint)]) from exc


def address(listener: socket.socket) -> str:
    """Where clients find the server, for instance `http://127.0.0.1:8000/mcp`."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"
