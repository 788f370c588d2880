"""What keeps the engine of a long-running host fresh: what is due, and what others tell of.

Four sources of news, each followed by a task of its own: time, the servers, the configuration's
files, and the decisions that the owner makes elsewhere. The engine does what they call for. How the
servers fare is written down for `discovery health`, which is another process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
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
from discovery_engine.errors import ConfigurationError
from discovery_engine.events import ConfigurationReloaded, Subscription, ToolCalled, ToolsChanged
from discovery_engine.runtime.gateways import open_status_file
from discovery_engine.view.status import Observation

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.registry.protocols import ChangeFeed
    from discovery_engine.runtime.lister import ServerLister
    from discovery_engine.tools.model import ServerName

logger = logging.getLogger(__name__)

_LONGEST_NAP = 60.0  # seconds between two looks at what is due
_SHORTEST_NAP = 1.0
_LONGEST_ROUND = 5.0  # seconds; one that starts for minutes must not keep others from being asked
_STATUS_PAUSE = 0.5  # seconds in which what happens to servers is written down together
_CHANGE_PAUSE = 0.5  # seconds in which further notices of a change are taken as the same one
_LONGEST_CHANGE = 10.0  # seconds after which a server that does not stop is asked all the same


class MaintainedEngine(Protocol):
    """What this room needs of an engine."""

    @property
    def settings(self) -> Settings: ...

    def subscribe(self) -> AbstractContextManager[Subscription]: ...

    async def refresh(
        self,
        servers: Iterable[str] | None = None,
        *,
        only_due: bool = False,
        patience: float | None = None,
    ) -> object: ...

    async def reload(self) -> None: ...

    async def reconsider(self) -> None: ...

    async def observations(self) -> list[Observation]: ...


async def keep_fresh(
    engine: MaintainedEngine, lister: ServerLister, decisions: ChangeFeed, *, data: Path
) -> NoReturn:
    """Follow all of them; `data` is the folder that other processes look into."""
    async with open_task_group() as tasks:
        tasks.start_soon(_publish_status, engine, data)
        tasks.start_soon(_follow_servers, engine, lister, tasks)
        tasks.start_soon(_follow_files, engine)
        tasks.start_soon(_follow_decisions, engine, decisions)
        while True:
            await engine.refresh(only_due=True, patience=_LONGEST_ROUND)
            await anyio.sleep(min(max(lister.seconds_until_due(), _SHORTEST_NAP), _LONGEST_NAP))


async def _publish_status(engine: MaintainedEngine, data: Path) -> None:
    """Have other processes see how the servers fare, soon after that became another."""
    try:
        with (
            open_status_file(data, scope_of(engine.settings.path)) as file,
            engine.subscribe() as events,
        ):
            said: list[Observation] = []
            async for event in events:
                if isinstance(event, ToolCalled):
                    continue
                await anyio.sleep(_STATUS_PAUSE)
                events.clear()
                if (now := await engine.observations()) != said:
                    said = now
                    await anyio.to_thread.run_sync(file.write, said)
    except OSError as error:
        logger.warning("`discovery health` will not see how the servers fare here: %s", error)


async def _follow_servers(engine: MaintainedEngine, lister: ServerLister, tasks: TaskGroup) -> None:
    debouncers: dict[ServerName, Debouncer] = {}
    with engine.subscribe() as events:
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


async def _follow_files(engine: MaintainedEngine) -> None:
    # Only a host that runs for long has a use for it, and others start quicker without.
    from discovery_engine.runtime.watch import changed_files  # noqa: PLC0415

    async with aclosing(changed_files(lambda: engine.settings.inputs)) as changes:
        async for paths in changes:
            logger.info("Changed: %s", ", ".join(paths))
            await _unless_unusable(engine.reload)


async def _follow_decisions(engine: MaintainedEngine, decisions: ChangeFeed) -> None:
    async with aclosing(decisions.changes()) as changes:
        async for _ in changes:
            await _unless_unusable(engine.reconsider)


async def _unless_unusable(read_anew: Callable[[], Awaitable[None]]) -> None:
    try:
        await read_anew()
    except ConfigurationError as error:
        logger.warning("The configuration stays as it was:\n%s", error)
