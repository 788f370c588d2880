"""Reads the configuration files: at the start if they have changed, else when they are needed.

The stored settings of an unchanged configuration are enough for answers, and need no parser, which
would take half of a start. They lack transports that may hold a secret; the files are then read
before the first server is started or reached.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import ConfigurationError, Origin
from discovery_engine.events import (
    ConfigurationRejected,
    ConfigurationReloaded,
    Event,
    EventBus,
    ServerActivated,
    ServerDeactivated,
    ServerInstalled,
    ServerRegistered,
    ServerUninstalled,
    ServerUnregistered,
    ServerUpdated,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.view.notices import Rejection

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.registered_servers import RegisteredServers
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)


def read_settings(
    config: str | Path | Settings | None,
    environ: Mapping[str, str],
    *,
    frozen: bool,
    content: bytes | None = None,
) -> Settings:
    """Return the settings; see `config.loading.loader.resolve_settings`.

    It is imported here, since it loads pydantic and YAML: 100 ms of CPU.
    """
    from discovery_engine.config.loading.loader import resolve_settings  # noqa: PLC0415 - as above

    return resolve_settings(config, environ, frozen=frozen, content=content)


class SettingsReader(Protocol):
    def __call__(self, *, content: bytes | None = None) -> Settings:
        """Read the settings of the files; with `content`, as if the configuration had it."""


class ConfigurationLoader:
    """Keeps the settings of an engine current with the files and the registry.

    `load` reads the files, and `registered` the registry; `clock` returns Unix time in seconds.
    """

    def __init__(
        self,
        load: SettingsReader,
        registered: RegisteredServers,
        state: CatalogState,
        upstreams: Upstreams,
        events: EventBus,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._load = load
        self._registered = registered
        self._files: Settings | None = None
        self._state = state
        self._upstreams = upstreams
        self._events = events
        self._clock = clock
        self._changing = anyio.Lock()
        self.rejection: Rejection | None = None
        """The problems of the present files; None if they are valid."""

    async def join(self, files: Settings) -> Settings:
        """Return the settings of the files with the servers of the registry."""
        self._files = files
        return await anyio.to_thread.run_sync(self._registered.join, files)

    def preview(self, content: bytes, rules: Mapping[str, str] | None) -> Settings:
        """Return the settings that another content of the file would give; it blocks.

        With `rules`, the registry has these rules by section.

        Raises:
            ConfigurationError: If they are invalid.
        """
        return self._registered.join(self._load(content=content), rules)

    async def reload(self) -> None:
        """Read the configuration again; see `Engine.reload`."""
        async with self._changing:
            await self._replace(self._apply)

    async def apply_decisions(self) -> None:
        """Apply new decisions; see `Engine.apply_decisions`."""
        await self._state.apply_requests()
        async with self._changing:
            is_current = self._registered.is_current
            if not await anyio.to_thread.run_sync(is_current, self._state.view.settings):
                await self._replace(self._apply_registered)
            if not (self._state.is_complete or await self._state.knows_decisions()):
                await self._complete()
            before = self._state.view
            if await self._state.apply_decisions():
                await self._end_changed(before)

    async def complete(self) -> None:
        """Read the files, unless the settings are complete.

        If the files are invalid, no server can be used.
        """
        if not self._state.is_complete:
            async with self._changing:
                await self._complete()

    async def _complete(self) -> None:
        if self._state.is_complete or await self._is_unchanged():
            return
        try:
            await self._apply()
        except ConfigurationError as error:
            logger.warning("The configuration cannot be read any more:\n%s", error)
            await self._state.forget_transports()

    async def _is_unchanged(self) -> bool:
        """Return whether the stored settings are complete and current."""
        is_current = self._registered.is_current
        return (
            await anyio.to_thread.run_sync(is_current, self._state.view.settings)
            and await self._state.complete_unchanged()
        )

    async def _apply(self) -> None:
        """Read the files and apply them.

        Raises:
            ConfigurationError: If they are invalid; the last valid ones stay in force.
        """
        from discovery_engine.config.loading.loader import require_same_file  # noqa: PLC0415 - as above

        try:
            files = await anyio.to_thread.run_sync(self._load)
            require_same_file(self._state.view.settings, files)
            await self._state.apply_settings(await self.join(files))
        except ConfigurationError as error:
            since = self.rejection.since if self.rejection else self._clock()
            self.rejection = Rejection(error.problems, since)
            self._events.publish(ConfigurationRejected(error.problems))
            raise
        self.rejection = None

    async def _apply_registered(self) -> None:
        """Apply the servers, switches and rules of the registry to the last settings of the files.

        So a server can be switched off although the files are invalid.

        Raises:
            ConfigurationError: If the files were not read yet, and are invalid.
        """
        if self._files is None:
            await self._apply()
        else:
            await self._state.apply_settings(await self.join(self._files))

    async def _replace(self, apply: Callable[[], Awaitable[None]]) -> None:
        before = self._state.view
        await apply()
        self._upstreams.settings_changed()
        await self._end_changed(before)

    async def _end_changed(self, before: View) -> None:
        """End the sessions of servers that were removed, or whose transport has changed."""
        view = self._state.view
        await self._upstreams.close_changed(before.connectable, view.connectable)
        for event in server_events(before.settings, view.settings):
            self._events.publish(event)
        self._events.publish(ConfigurationReloaded(len(view.settings.servers)))


# Events of servers that were added, changed and removed.

_NOWHERE = Origin("")


def server_events(before: Settings, after: Settings) -> Iterator[Event]:
    """Yield the events of a change of settings, server by server."""
    servers = before.by_name
    for name, server in servers.items():
        if name not in after.by_name:
            yield from _removed(server)
    for name, server in after.by_name.items():
        if (earlier := servers.get(name)) is None:
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
    """Return the parts of a server that are compared: not its place in the file, nor its switch.

    Stored settings may lack the transport.
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


class QuestionPolicy:
    """Caches the settings of servers' questions until the configuration changes."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        """`settings` returns the current settings."""
        self._current = settings
        self._settings: Settings | None = None
        self._by_server: dict[ServerName, QuestionSettings] = {}

    def of_server(self, server: ServerName) -> QuestionSettings:
        """Return the current settings of a server's questions; see `QuestionsOf`."""
        settings = self._current()
        if settings is not self._settings:
            self._settings, self._by_server = settings, {}
        if (policy := self._by_server.get(server)) is None:
            policy = _question_settings(settings, server)
            self._by_server[server] = policy
        return policy


def _question_settings(settings: Settings, server: ServerName) -> QuestionSettings:
    """Return the settings of a server's questions.

    An empty `server.roots` has the client asked; an empty list of a server is its answer.
    """
    configured = settings.by_name.get(server)
    own = configured.roots if configured else None
    roots = (settings.server.roots or None) if own is None else own
    timeout = settings.server.question_timeout
    if roots is None:
        return QuestionSettings(timeout)
    return QuestionSettings(timeout, _roots(settings, roots))


class OwnerRoots(NamedTuple):
    """The roots that the owner gives to servers, in the form of `roots/list`."""

    shared: tuple[JSONObject, ...] | None
    """The roots for all servers; None to ask the clients."""
    own: Mapping[ServerName, tuple[JSONObject, ...]]
    """The roots of servers that have their own."""


def owner_roots(settings: Settings) -> OwnerRoots:
    shared = settings.server.roots
    own = {
        server.name: _roots(settings, server.roots)
        for server in settings.servers
        if server.roots is not None
    }
    return OwnerRoots(_roots(settings, shared) if shared else None, own)


def _roots(settings: Settings, folders: Sequence[str]) -> tuple[JSONObject, ...]:
    base = Path(settings.path).parent if settings.path else Path.cwd()
    return tuple(_root(text, base) for text in folders)


def _root(text: str, base: Path) -> JSONObject:
    """Return a root in the form of `roots/list`; a relative folder starts at `base`."""
    if text.startswith("file://"):
        uri = text
    else:
        # `os.path`, because that of `pathlib` raises for a user who is gone.
        uri = Path(os.path.normpath(base.absolute() / os.path.expanduser(text))).as_uri()  # noqa: PTH111
    name = urlsplit(uri).path.rstrip("/").rpartition("/")[2]
    return {"uri": uri, "name": name} if name else {"uri": uri}
