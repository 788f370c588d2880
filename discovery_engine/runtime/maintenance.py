"""Background tasks of a long-running engine.

One task each: lists servers that are due, follows list changes of servers, watches the files of the
configuration, polls for decisions of the owner and for logins made by other processes, names its
servers to all processes of the registry, sends events to webhooks, and writes the states of servers
to a file for `discovery health`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from discovery_engine._util.debounce import Debouncer
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import scope_of
from discovery_engine.errors import ConfigurationError, NeedsAuthError
from discovery_engine.events import (
    EVENTS,
    FREQUENT,
    ConfigurationReloaded,
    Event,
    Subscription,
    ToolsChanged,
)
from discovery_engine.runtime.gateway_reports import open_status_file
from discovery_engine.view.status import Observation

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import InputFile, Settings
    from discovery_engine.registry.protocols import ChangeFeed
    from discovery_engine.runtime.lister import ServerLister
    from discovery_engine.runtime.result_store import ResultStore
    from discovery_engine.runtime.webhook_dispatcher import WebhookDispatcher
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View

logger = logging.getLogger(__name__)

_LONGEST_SLEEP = 60.0  # seconds between two checks of what is due
_SHORTEST_SLEEP = 1.0
_LONGEST_ROUND = 5.0  # seconds; a server that starts for minutes must not delay the others
_LOGIN_PAUSE = 0.5  # seconds between two looks at one file's metadata
_STATUS_PAUSE = 0.5  # seconds for which state changes are collected before they are written
_CHANGE_PAUSE = 0.5  # seconds in which further notifications count as the same change
_LONGEST_CHANGE = 10.0  # seconds after which a server that goes on notifying is listed anyway

_NAME_EVERY = 3600.0  # seconds after which the servers are named again

_STATUS_EVENTS = tuple(kind for kind in EVENTS if kind not in FREQUENT)


class MaintainedEngine(Protocol):
    """The parts of an engine that this module uses."""

    @property
    def settings(self) -> Settings: ...

    @property
    def results(self) -> ResultStore: ...

    @property
    def view(self) -> View: ...

    def subscribe(self, *kinds: type[Event]) -> AbstractContextManager[Subscription]: ...

    async def refresh(
        self,
        servers: Iterable[str] | None = None,
        *,
        only_due: bool = False,
        max_wait: float | None = None,
    ) -> object: ...

    async def reload(self) -> None: ...

    async def apply_decisions(self) -> None: ...

    async def observations(self) -> list[Observation]: ...


class LoginFeed(Protocol):
    """The logins of remote servers, as other processes change them, too."""

    def stamp(self) -> object: ...

    async def servers(self) -> frozenset[str]: ...


async def run_maintenance(
    engine: MaintainedEngine,
    lister: ServerLister,
    decisions: ChangeFeed,
    logins: LoginFeed,
    webhooks: WebhookDispatcher,
    name_servers: Callable[[], Awaitable[bool]],
    *,
    data: Path,
) -> NoReturn:
    """Run all tasks; `data` is the folder that other processes read."""
    async with open_task_group() as tasks:
        tasks.start_soon(_publish_status, engine, data)
        tasks.start_soon(_follow_servers, engine, lister, tasks)
        tasks.start_soon(follow_files, lambda: engine.settings.inputs, engine.reload)
        tasks.start_soon(_follow_decisions, engine, decisions)
        tasks.start_soon(_follow_logins, engine, logins)
        tasks.start_soon(webhooks.run)
        tasks.start_soon(_keep_named, name_servers)
        while True:
            engine.results.expire()
            await engine.refresh(only_due=True, max_wait=_LONGEST_ROUND)
            await anyio.sleep(min(max(lister.seconds_until_due(), _SHORTEST_SLEEP), _LONGEST_SLEEP))


async def _publish_status(engine: MaintainedEngine, data: Path) -> None:
    """Write the states of servers for other processes, soon after they change."""
    try:
        with (
            open_status_file(data, scope_of(engine.settings.path)) as file,
            engine.subscribe(*_STATUS_EVENTS) as events,
        ):
            observations: list[Observation] = []
            async for _ in events:
                await anyio.sleep(_STATUS_PAUSE)
                events.clear()
                if (now := await engine.observations()) != observations:
                    observations = now
                    await anyio.to_thread.run_sync(file.write, observations)
    except OSError as error:
        logger.warning("`discovery health` cannot show the servers of this gateway: %s", error)


async def _follow_servers(engine: MaintainedEngine, lister: ServerLister, tasks: TaskGroup) -> None:
    debouncers: dict[ServerName, Debouncer] = {}
    with engine.subscribe(ToolsChanged, ConfigurationReloaded) as events:
        async for event in events:
            match event:
                case ToolsChanged(server):
                    debouncer = debouncers.setdefault(
                        server, Debouncer(pause=_CHANGE_PAUSE, longest=_LONGEST_CHANGE)
                    )
                    if not debouncer.is_pending:
                        tasks.start_soon(_relist_debounced, lister, server, debouncer)
                    debouncer.trigger()
                case ConfigurationReloaded():
                    tasks.start_soon(partial(engine.refresh, only_due=True))


async def _relist_debounced(lister: ServerLister, name: ServerName, debouncer: Debouncer) -> None:
    await debouncer.wait()
    debouncer.reset()
    await lister.relist(name)


async def follow_files(
    inputs: Callable[[], tuple[InputFile, ...]], reload: Callable[[], Awaitable[None]]
) -> None:
    """Read the configuration again whenever one of its files changes."""
    # Only long-running hosts need it; others start faster without.
    from discovery_engine.runtime.config_watch import changed_files  # noqa: PLC0415

    async with aclosing(changed_files(inputs)) as changes:
        async for paths in changes:
            logger.info("Changed: %s", ", ".join(paths))
            await _unless_unusable(reload)


async def _follow_decisions(engine: MaintainedEngine, decisions: ChangeFeed) -> None:
    async with aclosing(decisions.changes()) as changes:
        async for _ in changes:
            await _unless_unusable(engine.apply_decisions)


async def _follow_logins(engine: MaintainedEngine, logins: LoginFeed) -> None:
    """After a login, a logout or a new secret in another process, list the servers concerned."""
    stamp, servers = logins.stamp(), await logins.servers()
    await _refresh_parts(engine, _lacks_secret)  # it may be stored since the engine was opened
    while True:
        await anyio.sleep(_LOGIN_PAUSE)
        if (now := logins.stamp()) == stamp:
            continue
        stamp, before, servers = now, servers, await logins.servers()
        await _refresh_parts(engine, partial(_is_concerned, before ^ servers))


async def _refresh_parts(engine: MaintainedEngine, is_due: Callable[[ServerPart], bool]) -> None:
    view = engine.view
    if chosen := [name for name in view.connectable if is_due(view.catalog.part(name))]:
        await engine.refresh(chosen)


async def _keep_named(name_servers: Callable[[], Awaitable[bool]]) -> NoReturn:
    while True:
        is_done = await name_servers()
        await anyio.sleep(_NAME_EVERY if is_done else _LONGEST_SLEEP)


def _lacks_secret(part: ServerPart) -> bool:
    missing = part.failure.missing if part.failure else ()
    return any(reference.startswith("secret:") for reference in missing)


def _is_concerned(changed: Collection[str], part: ServerPart) -> bool:
    is_refused = part.failure is not None and part.failure.code == NeedsAuthError.code
    return part.server in changed or is_refused or _lacks_secret(part)


async def _unless_unusable(read_anew: Callable[[], Awaitable[None]]) -> None:
    try:
        await read_anew()
    except ConfigurationError as error:
        logger.warning("The configuration stays as it was:\n%s", error)
