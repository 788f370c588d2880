"""The identity of a server that is about to be started: what its approval is bound to.

The command's place on the disk is a part of it, so that a program of the same name that comes
first on the `PATH` is another server.
"""

from __future__ import annotations

from collections.abc import Mapping

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import UnavailableError
from discovery_engine.trust.admission import identity
from discovery_engine.upstream.connection import resolved_transport
from discovery_engine.upstream.stdio.program import child_environment, find_program


def identity_as_configured(server: ServerSettings, environ: Mapping[str, str]) -> str:
    """The identity that a server would have if it were started now; empty if it could not be."""
    try:
        return identity_of(server, resolved_transport(server, environ), environ)
    except UnavailableError:
        return ""


def identity_of(
    server: ServerSettings,
    transport: StdioTransport | RemoteTransport,
    environ: Mapping[str, str],
) -> str:
    """The identity of `server`; `transport` is its own with every reference resolved."""
    return identity(server, transport, program_of(server, transport, environ))


def program_of(
    server: ServerSettings,
    transport: StdioTransport | RemoteTransport,
    environ: Mapping[str, str],
) -> str:
    """The path of the program that would be started; empty if there is none."""
    if not isinstance(transport, StdioTransport):
        return ""
    try:
        return find_program(server.name, transport, child_environment(environ, transport.env))
    except UnavailableError:
        return ""
