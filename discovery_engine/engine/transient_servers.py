"""Servers for one person's trial: they stand in no configuration, and leave nothing behind.

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transient.run)
        plan = await transient.plan({"command": "uvx", "args": ["some-server"]})
        handle = await transient.start(plan)          # nothing was started before
        with transient.used(handle) as engine:        # an engine of its own, with this server alone
            await engine.list_tools(handle)

Each has an engine of its own, without a registry and a log on disk. So no view, search or list of
agents has it, by the way it is made.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.settings import CacheSettings, LogSettings, Settings
from discovery_engine.engine.bootstrap import open_engine
from discovery_engine.engine.owner.candidates import Candidate, candidate_of
from discovery_engine.engine.owner.server_plans import parsed_entry, refuse_commands
from discovery_engine.errors import UntrustedServerError
from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine.engine import Engine
    from discovery_engine.events import Event

logger = logging.getLogger(__name__)

TTL = 15 * 60.0
"""Seconds without a use, after which one ends."""
MOST = 10
_PREFIX = "transient"
_FOLDER = "transient"
_RANDOM = 6  # bytes of a handle


class TransientServer(Struct, eq=False):
    """A server that runs."""

    handle: str
    """Its name in its engine."""
    engine: Engine
    scope: anyio.CancelScope
    """Ends it."""
    used_at: float
    users: int = 0
    """Requests that use it now."""


class TransientServers:
    """The transient servers of one process; they run while `run` does, and end with it."""

    def __init__(
        self,
        engine: Engine,
        data: Path,
        environ: Mapping[str, str],
        *,
        on_event: Callable[[Event], object] = lambda _: None,
        on_change: Callable[[str, bool], object] = lambda *_: None,
        ttl: float = TTL,
    ) -> None:
        """Start none.

        Args:
            engine: The engine whose settings of the gateway they have, its sandbox among them.
            data: The data folder of that, in which the secrets are.
            environ: What programs are started with.
            on_event: Called with what happens in them.
            on_change: Called with the handle of one, and whether it runs from now on.
            ttl: Seconds without a use, after which one ends.
        """
        self._engine = engine
        self._data = data
        self._environ = environ
        self._secrets = StoredSecretResolver(environ, data)
        self._on_event = on_event
        self._on_change = on_change
        self._ttl = ttl
        self._tasks: TaskGroup | None = None
        self._running: dict[str, TransientServer] = {}
        self._starting = 0

    async def run(self) -> None:
        """Let servers run, until cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                await anyio.sleep_forever()
            finally:
                self._tasks = None

    @property
    def has_room(self) -> bool:
        """True if another server may be started."""
        return len(self._running) + self._starting < MOST

    def all(self) -> list[TransientServer]:
        """Return the servers that run, in the order in which they were started."""
        return [*self._running.values()]

    def has(self, handle: str) -> bool:
        return handle in self._running

    def left(self, server: TransientServer) -> float:
        """Seconds after which it ends if it is not used."""
        return max(0.0, server.used_at + self._ttl - anyio.current_time())

    async def plan(self, entry: JSONObject) -> Candidate:
        """Return all that would be started of an entry as in `servers`; start nothing.

        Raises:
            ConfigurationError: If the entry cannot be used, or runs a program for a value.
        """
        refuse_commands(_PREFIX, entry)
        server = replace(parsed_entry(_PREFIX, entry), enabled=True, source=_PREFIX)
        refused = UntrustedServerError(server.name, "untrusted")
        make = partial(
            candidate_of, server, refused, self._settings(), self._secrets, self._environ, at=0.0
        )
        return await anyio.to_thread.run_sync(make)

    async def start(self, plan: Candidate) -> TransientServer:
        """Start what was planned, and list what it offers; it runs also if that fails.

        `has_room` must be true.
        """
        if self._tasks is None:
            raise RuntimeError("transient servers start while `run` runs")
        self._starting += 1
        try:
            server: TransientServer = await self._tasks.start(self._serve, plan)
        finally:
            self._starting -= 1
        with self.used(server.handle):
            await server.engine.refresh()
        return server

    @contextmanager
    def used(self, handle: str) -> Iterator[Engine]:
        """The engine of one, which does not end for want of use meanwhile; it must run."""
        server = self._running[handle]
        server.users += 1
        try:
            yield server.engine
        finally:
            server.users -= 1
            server.used_at = anyio.current_time()

    def end(self, handle: str) -> None:
        """End one; no-op if it has ended."""
        if server := self._running.pop(handle, None):
            server.scope.cancel()

    def _settings(self) -> Settings:
        return Settings(
            server=self._engine.settings.server,
            cache=CacheSettings(enabled=False),
            log=LogSettings(calls="off"),
        )

    async def _serve(self, plan: Candidate, *, task_status: TaskStatus[TransientServer]) -> None:
        """Run one until it ends, and remove what it leaves."""
        handle = f"{_PREFIX}-{secrets.token_hex(_RANDOM)}"
        named = replace(plan.server, name=ServerName(handle))
        settings = replace(self._settings(), servers=(named,))
        folder = self._data / _FOLDER / handle
        try:
            with anyio.CancelScope() as scope:
                opened = open_engine(
                    settings,
                    environ=self._environ,
                    secrets=self._secrets,
                    data_dir=folder,
                    actor="person",
                )
                async with opened as engine:
                    server = TransientServer(handle, engine, scope, anyio.current_time())
                    self._running[handle] = server
                    task_status.started(server)
                    self._on_change(handle, True)
                    await self._follow(server)
        except Exception:
            if handle not in self._running:  # who starts it gets the error
                raise
            logger.exception("The transient server %s has ended", handle)
        finally:
            self._running.pop(handle, None)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, folder)
            self._on_change(handle, False)

    async def _follow(self, server: TransientServer) -> None:
        """Pass on its events until it was not used for too long."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pass_on, server)
            while server.users or self.left(server):  # noqa: ASYNC110 - no event marks the end of time
                await anyio.sleep(self.left(server) or self._ttl)
            tasks.cancel_scope.cancel()

    async def _pass_on(self, server: TransientServer) -> None:
        with server.engine.subscribe() as events:
            async for event in events:
                self._on_event(event)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # others are in it, or it was never made
        folder.parent.rmdir()
