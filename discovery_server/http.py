"""Streamable HTTP for both protocol eras, behind the guard."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from discovery_engine.errors import ConfigurationError, Origin, Problem
from discovery_server.guard import Endpoint, Guard

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp

PATH = "/mcp"
_GOODBYE = 2  # seconds that open requests get when the server is told to stop


def make_app(server: Server[Any], endpoint: Endpoint) -> ASGIApp:
    """The ASGI application that serves MCP at `/mcp`, to those that the endpoint is for."""
    # Our guard is exact about names and stands before every route; the SDK's would come second.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return Guard(app, endpoint)


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


def listen(endpoint: Endpoint) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigurationError: If the address cannot be had.
    """
    host, port = endpoint.host, endpoint.port
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
