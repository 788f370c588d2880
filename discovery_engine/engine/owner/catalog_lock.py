"""The catalog pinned in `discovery.lock`, and compared with it: `engine.lock`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.files import replace_file
from discovery_engine.config.files.location import lock_path
from discovery_engine.engine.engine import Engine
from discovery_engine.errors import ConfigurationError
from discovery_engine.events import ServerFailed, TrustChanged
from discovery_engine.trust.lockfile import Deviation, deviations, load_lock, lock_of_parts, to_text
from discovery_engine.upstream.state import ServerState

if TYPE_CHECKING:
    from anyio import CancelScope

    from discovery_engine.catalog import Failure, RefreshReport
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.events import Subscription
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.lockfile import Lock
    from discovery_engine.view.view import View

# Seconds for a server that failed the last time, and for all once one has failed.
_FAILED_SERVER_TIMEOUT = 10.0

Unlisted: TypeAlias = "Mapping[ServerName, Failure | None]"
"""The servers that did not list their tools, and why; None for one that is still starting."""

_NOTHING: Unlisted = MappingProxyType({})


class LockReport(Struct, frozen=True):
    path: Path
    is_written: bool = False
    tool_count: int = 0
    """The tools that are pinned, if it was written."""
    waiting_count: int = 0
    """The tools that wait for review; nothing is written while there are any."""
    unlisted: Unlisted = _NOTHING
    """Nothing is written or compared while there are any."""
    deviations: tuple[Deviation, ...] = ()
    """Deviations from what is pinned, if it was compared."""


class CatalogLock:
    """Writes and checks the lock file; available as `engine.lock`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._events = core.events

    async def write(self) -> LockReport:
        """List all servers and pin every tool that is used.

        Raises:
            ConfigurationError: If there is no configuration to write it beside, if it is in force
                now, or if it cannot be written.
        """
        path = self._path()
        unlisted = await self._list_all()
        view = self._engine.view
        waiting = sum(server.withheld_count for server in view.servers())
        if unlisted or waiting:
            return LockReport(path, waiting_count=waiting, unlisted=unlisted)
        await anyio.to_thread.run_sync(_write, path, view)
        self._events.publish(TrustChanged("locked", ()))
        return LockReport(path, is_written=True, tool_count=len(view.catalog))

    async def check(self) -> LockReport:
        """List all servers and compare them with what is pinned.

        Raises:
            ConfigurationError: As `write`; and if there is no lock file, or it is damaged.
        """
        path = self._path()
        if unlisted := await self._list_all():
            return LockReport(path, unlisted=unlisted)
        deviations = await anyio.to_thread.run_sync(_deviations, self._engine.view)
        return LockReport(path, deviations=deviations)

    async def _list_all(self) -> Unlisted:
        """List all servers; returns those that did not answer.

        One that failed the last time too is asked first, as nothing can be pinned without it. It
        is waited for at most ten seconds, and so are all others once one has failed.
        """
        view = self._engine.view
        parts = [view.catalog.part(name) for name in view.connectable]
        if doubtful := [part.server for part in parts if part.failure]:
            report = await self._engine.refresh(doubtful, max_wait=_FAILED_SERVER_TIMEOUT)
            if missing := _unlisted(report):
                return missing
        unlisted: Unlisted = {}
        with self._engine.subscribe() as events:
            async with anyio.create_task_group() as tasks:
                with anyio.CancelScope() as wait:
                    tasks.start_soon(_end_after_failure, events, wait)
                    unlisted = _unlisted(await self._engine.refresh())
                tasks.cancel_scope.cancel()
        return _unlisted_so_far(self._engine.view) if wait.cancelled_caught else unlisted

    def _path(self) -> Path:
        settings = self._engine.view.settings
        if settings.path is None:
            raise _error("", "there is no discovery.yaml to write a lock file beside")
        path = lock_path(settings.path)
        if settings.frozen:
            raise _error(
                path,
                "a lock file that is in force can be neither written nor checked",
                "do it without --frozen",
            )
        return Path(path)


def _error(path: str, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("LOCK_UNUSABLE", path, message, hint)


async def _end_after_failure(events: Subscription, wait: CancelScope) -> None:
    """End `wait` soon after a server has failed."""
    async for event in events:
        if isinstance(event, ServerFailed):
            wait.deadline = anyio.current_time() + _FAILED_SERVER_TIMEOUT
            return


def _unlisted(report: RefreshReport) -> Unlisted:
    failed = {name: failure for name, failure in report.servers if failure}
    return {**failed, **dict.fromkeys(report.starting)}


def _unlisted_so_far(view: View) -> Unlisted:
    parts = [view.catalog.part(name) for name in view.connectable]
    failed = {part.server: part.failure for part in parts if part.failure}
    starting = [server.name for server in view.servers() if server.state is ServerState.STARTING]
    return {**failed, **dict.fromkeys(starting)}


def _write(path: Path, view: View) -> None:
    text = to_text(_lock(view))
    try:
        replace_file(path, text)
    except OSError as error:
        raise _error(str(path), f"it cannot be written: {error.strerror or error}") from error


def _deviations(view: View) -> tuple[Deviation, ...]:
    return deviations(load_lock(view.settings), _lock(view))


def _lock(view: View) -> Lock:
    """The lock of the servers that are used."""
    parts = view.catalog.parts
    used: list[ServerSettings] = [
        s for s in view.settings.servers if s.name in parts and parts[s.name].verdict.enabled
    ]
    return lock_of_parts(used, view.catalog)
