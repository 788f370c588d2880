"""What became of the servers of a configuration, as events."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.diagnostics import Origin
from discovery_engine.events import (
    Event,
    ServerActivated,
    ServerDeactivated,
    ServerInstalled,
    ServerRegistered,
    ServerUninstalled,
    ServerUnregistered,
    ServerUpdated,
)

_NOWHERE = Origin("")


def server_events(before: Settings, after: Settings) -> Iterator[Event]:
    """The events of a change from one configuration to the next, server by server."""
    known = before.by_name
    for name, server in known.items():
        if name not in after.by_name:
            yield from _removed(server)
    for name, server in after.by_name.items():
        if (earlier := known.get(name)) is None:
            yield from _added(server)
        elif earlier != server:
            yield from _changed(earlier, server)


def _removed(server: ServerSettings) -> Iterator[Event]:
    if server.enabled:
        yield ServerDeactivated(server.name)
    if server.package:
        yield ServerUninstalled(server.name, server.package)
    yield ServerUnregistered(server.name, server.source)


def _added(server: ServerSettings) -> Iterator[Event]:
    yield ServerRegistered(server.name, server.source)
    if server.package:
        yield ServerInstalled(server.name, server.package)
    if server.enabled:
        yield ServerActivated(server.name)


def _changed(before: ServerSettings, after: ServerSettings) -> Iterator[Event]:
    is_known = before.transport is not None and after.transport is not None
    if _entry(before, is_known=is_known) != _entry(after, is_known=is_known):
        yield ServerUpdated(after.name)
    if before.enabled != after.enabled:
        yield ServerActivated(after.name) if after.enabled else ServerDeactivated(after.name)


def _entry(server: ServerSettings, *, is_known: bool) -> ServerSettings:
    """A server as far as it can be compared; remembered settings have no transport.

    Where it stands in its file, and how it is switched, is no part of it.
    """
    transport = server.transport if is_known else None
    problem = replace(server.problem, origin=_NOWHERE, excerpt="") if server.problem else None
    return replace(
        server,
        transport=transport,
        problem=problem,
        remembered_sandbox=None,
        enabled=True,
        switch="",
        origin=_NOWHERE,
        bound_to="",
    )
