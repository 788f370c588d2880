"""Background tasks of a long-running engine.

One task each: lists servers that are due, follows list changes of servers, watches the files of the
configuration, polls for decisions of the owner and for logins made by other processes, reports to a
shared registry which decisions are in force, names its servers to all processes of the registry,
sends events to webhooks, and writes the states of servers to a file for `discovery health`.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from discovery_engine._util.folder_watch import FolderWatch, Identity, nearest_folder
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.inputs import observe
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import InputFile
from discovery_engine.engine.gateway_reports import open_status_file
from discovery_engine.errors import ConfigurationError, NeedsAuthError, RegistryError
from discovery_engine.events import (
    EVENTS,
    FREQUENT,
    ConfigurationReloaded,
    ToolsChanged,
)
from discovery_engine.view.status import Observation

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.engine.lister import ServerLister
    from discovery_engine.store.postgres_gateways import PostgresGateways
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.http.logins import Logins

logger = logging.getLogger(__name__)

_LONGEST_SLEEP = 60.0  # seconds between two checks of what is due
_SHORTEST_SLEEP = 1.0
_LONGEST_ROUND = 5.0  # seconds; a server that starts for minutes must not delay the others
_LOGIN_PAUSE = 0.5  # seconds between two looks at one file's metadata
_STATUS_PAUSE = 0.5  # seconds for which state changes are collected before they are written
_STATUS_SHARE = 30  # times the CPU time of reading all states: 0.3 s with 10,000 servers
_CHANGE_PAUSE = 0.5  # seconds in which further notifications count as the same change
_LONGEST_CHANGE = 10.0  # seconds after which a server that goes on notifying is listed anyway

_REPORT_PAUSE = 0.25  # seconds between two looks at a number in memory
_REPORT_EVERY = 20.0  # seconds

_NAME_EVERY = 3600.0  # seconds after which the servers are named again

_STATUS_EVENTS = tuple(kind for kind in EVENTS if kind not in FREQUENT)


async def run_maintenance(engine: Engine, core: EngineCore) -> NoReturn:
    """Run all tasks."""
    lister = core.lister
    async with open_task_group() as tasks:
        tasks.start_soon(_publish_status, engine, core.environment.data)
        tasks.start_soon(_follow_servers, engine, lister, tasks)
        tasks.start_soon(follow_files, lambda: engine.settings.inputs, engine.reload)
        tasks.start_soon(_follow_decisions, engine, core.store.changes)
        tasks.start_soon(_follow_logins, engine, core.environment.token_logins)
        tasks.start_soon(core.webhooks.run)
        tasks.start_soon(_keep_named, core.state)
        if core.store.gateways:
            tasks.start_soon(_report_decided, core, core.store.gateways)
        while True:
            engine.results.expire()
            await engine.refresh(only_due=True, max_wait=_LONGEST_ROUND)
            pause = min(max(lister.seconds_until_due(), _SHORTEST_SLEEP), _LONGEST_SLEEP)
            with anyio.move_on_after(pause):
                await lister.wait_other_clients()


async def _publish_status(engine: Engine, data: Path) -> None:
    """Write the states of servers for other processes, soon after they change."""
    try:
        with (
            open_status_file(data, scope_of(engine.settings.path)) as file,
            engine.subscribe(*_STATUS_EVENTS) as events,
        ):
            observations: list[Observation] = []
            pause = _STATUS_PAUSE
            async for _ in events:
                await anyio.sleep(pause)
                events.clear()
                start = time.thread_time()
                now = engine.observations()
                pause = max(_STATUS_PAUSE, _STATUS_SHARE * (time.thread_time() - start))
                if now != observations:
                    observations = now
                    await anyio.to_thread.run_sync(file.write, observations)
    except OSError as error:
        logger.warning("`discovery health` cannot show the servers of this gateway: %s", error)


async def _follow_servers(engine: Engine, lister: ServerLister, tasks: TaskGroup) -> None:
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

    async with aclosing(changed_files(inputs)) as changes:
        async for paths in changes:
            logger.info("Changed: %s", ", ".join(paths))
            await _reload_if_valid(reload)


async def _follow_decisions(engine: Engine, changes: Callable[[], AsyncGenerator[None]]) -> None:
    async with aclosing(changes()) as decided:
        async for _ in decided:
            await _reload_if_valid(engine.apply_decisions)


async def _report_decided(core: EngineCore, store: PostgresGateways) -> None:
    """Report to the registry which decisions are in force in this gateway, until it ends."""
    reported: int | None = None
    next_report = 0.0
    try:
        while True:
            number = core.state.trust_store.decided
            if number is not None and (number != reported or anyio.current_time() >= next_report):
                reported, next_report = number, anyio.current_time() + _REPORT_EVERY
                report = partial(store.report, core.decision_scope, number)
                with suppress(RegistryError):  # the next report says as much
                    await anyio.to_thread.run_sync(report)
            await anyio.sleep(_REPORT_PAUSE)
    finally:
        with anyio.CancelScope(shield=True), suppress(RegistryError):
            await anyio.to_thread.run_sync(store.withdraw_report)


async def _follow_logins(engine: Engine, logins: Logins) -> None:
    """After a login, a logout or a new secret in another process, list the servers concerned."""
    stamp, servers = logins.stamp(), await logins.servers()
    await _refresh_parts(engine, _lacks_secret)  # it may be stored since the engine was opened
    while True:
        await anyio.sleep(_LOGIN_PAUSE)
        if (now := logins.stamp()) == stamp:
            continue
        stamp, before, servers = now, servers, await logins.servers()
        await _refresh_parts(engine, partial(_is_concerned, before ^ servers))


async def _refresh_parts(engine: Engine, is_due: Callable[[ServerPart], bool]) -> None:
    view = engine.view
    if chosen := [name for name in view.connectable if is_due(view.catalog.part(name))]:
        await engine.refresh(chosen)


async def _keep_named(state: CatalogState) -> NoReturn:
    while True:
        is_done = await state.name_servers()
        await anyio.sleep(_NAME_EVERY if is_done else _LONGEST_SLEEP)


def _lacks_secret(part: ServerPart) -> bool:
    missing = part.failure.missing if part.failure else ()
    return any(reference.startswith("secret:") for reference in missing)


def _is_concerned(changed: Collection[str], part: ServerPart) -> bool:
    is_refused = part.failure is not None and part.failure.code == NeedsAuthError.code
    return part.server in changed or is_refused or _lacks_secret(part)


async def _reload_if_valid(reload: Callable[[], Awaitable[None]]) -> None:
    try:
        await reload()
    except ConfigurationError as error:
        logger.warning("The configuration stays as it was:\n%s", error)


# A source that goes on triggering is served less and less often: the pause doubles with each burst
# that follows soon after the last one.


class Debouncer:
    """`pause` and `longest` are in seconds; `clock` is monotonic."""

    def __init__(
        self, *, pause: float, longest: float, clock: Callable[[], float] = anyio.current_time
    ) -> None:
        self._shortest = self._pause = pause
        self._longest = longest
        self._clock = clock
        self._first = self._last = 0.0
        self._ended: float | None = None
        self.is_pending = False
        """True if it was triggered and not reset since."""

    @property
    def remaining(self) -> float:
        """Seconds to wait if it is not triggered again."""
        due = min(self._last + self._pause, self._first + self._longest)
        return max(0.0, due - self._clock())

    def trigger(self) -> None:
        self._last = self._clock()
        if self.is_pending:
            return
        self.is_pending = True
        self._first = self._last
        is_soon = self._ended is not None and self._last - self._ended < self._longest
        self._pause = min(2 * self._pause, self._longest) if is_soon else self._shortest

    async def wait(self) -> None:
        """Wait until the burst is over."""
        while rest := self.remaining:  # noqa: ASYNC110 - it waits for time to pass
            await anyio.sleep(rest)

    def reset(self) -> None:
        """End the burst: the next event begins another one."""
        self.is_pending = False
        self._ended = self._clock()


# Folders are watched, not files: an editor puts a new file in the old one's place, and a file that
# is not there yet has nothing to watch. What counts is the content, so that a file which is merely
# touched, or written as it was, is no change. Who decides what to do about it is elsewhere.

_QUIET = 0.1  # seconds without an event after which a file is taken as written
_MOST_LOOKS = 10  # while one file that does not stop changing holds up the others
_POLL_EVERY = 5.0  # seconds between checks, for file systems without events

Stamp: TypeAlias = tuple[int, int, int]


async def changed_files(
    inputs: Callable[[], Iterable[InputFile]], *, poll_every: float = _POLL_EVERY
) -> AsyncGenerator[tuple[str, ...]]:
    """Yield the paths of changed, new and removed files, for ever, some at a time.

    Args:
        inputs: The files to watch and how they were read; called again after each change. A file
            that has changed since it was read is yielded at once.
        poll_every: Seconds after which the files are checked without an event.
    """
    seen = _FileStates()
    watch = FolderWatch()
    try:
        while True:
            files = tuple(inputs())
            watch.watch(await anyio.to_thread.run_sync(_folders, files))
            if changed := await _written(seen, files, watch):
                yield changed
            else:
                await watch.wait(poll_every)
    finally:
        watch.close()


async def _written(
    seen: _FileStates, files: tuple[InputFile, ...], watch: FolderWatch
) -> tuple[str, ...]:
    """Return the changed files once they stay as they are: half a file may be valid YAML, too."""
    changed: dict[str, None] = {}
    for looks in itertools.count():
        news = await anyio.to_thread.run_sync(seen.look, files, changed.keys())
        is_waited_for = looks >= _MOST_LOOKS and changed.keys() - set(news)
        if not news or is_waited_for:
            break
        changed |= dict.fromkeys(news)
        await watch.wait(_QUIET)
    return tuple(changed)


class _FileStates:
    """The files as they were at the last look."""

    def __init__(self) -> None:
        self._read: dict[str, InputFile] = {}
        self._now: dict[str, InputFile] = {}
        self._stamps: dict[str, Stamp | None] = {}

    def look(self, files: Iterable[InputFile], changing: Collection[str]) -> tuple[str, ...]:
        """The paths of the files that have changed since the last look.

        One that is `changing` need only have been written: two looks may find it empty, while it
        is written from its beginning again and again.
        """
        looks = [(file.path, *self._look(file)) for file in files]
        return tuple(
            path
            for path, has_changed, was_written in looks
            if has_changed or (was_written and path in changing)
        )

    def _look(self, read: InputFile) -> tuple[bool, bool]:
        """Return whether a file's content has changed, and whether it was written at all."""
        path = read.path
        if self._read.get(path) != read:  # it was read since the last look
            self._read[path] = self._now[path] = read
        before, stamp = self._now[path], self._stamps.get(path)
        self._stamps[path] = _stamp(path)  # before its content: what comes between is seen later
        self._now[path] = observe(path)
        return self._now[path] != before, self._stamps[path] != stamp


def _stamp(path: str) -> Stamp | None:
    """Return a stamp that every writing of a file changes; None if the file is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _folders(files: Iterable[InputFile]) -> dict[str, Identity]:
    """The folders to watch: those of the files and of what they link to, as far as they exist."""
    places = {place for file in files for place in _places(Path(file.path))}
    return {
        str(folder): identity
        for place in sorted(places)
        if (nearest := nearest_folder(place))
        for folder, identity in [nearest]
    }


def _places(path: Path) -> Iterator[Path]:
    yield path.parent
    with suppress(OSError, RuntimeError):  # links that go round in a circle
        yield path.resolve().parent
