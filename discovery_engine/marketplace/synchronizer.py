"""Synchronises the sources with the store: reads what has changed since the last time, by page.

An interruption loses nothing: each page is stored with the cursor of the next one, and the next run
continues there. A failing source keeps its copy.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
from msgspec import Struct

from discovery_engine._util.retry_after import backoff
from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.marketplace_settings import (
    HOUR,
    OFFICIAL_REGISTRY,
    MarketplaceSettings,
    MarketplaceSource,
    SourceTrust,
)
from discovery_engine.errors import Diagnostic, RegistryError
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry_store import (
    LeaseLost,
    MarketplaceStore,
    PageResult,
    Release,
    SourceRecord,
    new_holder,
)
from discovery_engine.marketplace.source import (
    PageReader,
    SourceFailure,
    SourcePage,
    SyncedSource,
    SyncPoint,
    copy_key,
    invalid,
)

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")

_TRIES = 3
_FIRST_PAUSE = 0.5  # seconds; doubled after each failure
_RETRY_EVERY = 300.0  # seconds before a search tries a failed source again
_MAX_DELAY = 10.0  # seconds between attempts; a run ends if the source requires more
_WHOLE_EVERY = 7 * 86_400.0  # seconds; a list of changes may omit removed entries
_RESUMABLE = 86_400.0  # seconds; older cursors may have changed their meaning
_OVERLAP = timedelta(minutes=5)  # for a source whose clocks differ
_MOST_MISTAKES = 20  # of a list
_MAX_LISTED_MALFORMED = 10  # malformed entries in a message


class SyncProgress(Struct, frozen=True):
    """The progress of synchronising one source."""

    source: str
    pages: int
    entries: int
    """The entries read in this run."""
    is_whole: bool
    """True if everything is read, not only changes."""


class SourceReport(Struct, frozen=True):
    """The result of synchronising one source."""

    source: str
    pages: int = 0
    added: int = 0
    updated: int = 0
    removed: int = 0
    is_complete: bool = False
    """True if the copy is up to date now."""
    was_due: bool = True
    """False if the source was read recently, or another process is reading it."""
    problems: tuple[Diagnostic, ...] = ()
    """The failure, if any, and problems with single entries, which are left out."""

    @property
    def is_failed(self) -> bool:
        """True if the source could not be copied to its end."""
        return bool(self.problems) and not self.is_complete


Progress = Callable[[SyncProgress], None]


class Synchronizer:
    """Synchronises sources with the store.

    Args:
        store: The store of the copies.
        sync_every: Seconds after which a copy is outdated.
        clock: Returns the Unix time in seconds.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        store: MarketplaceStore,
        *,
        sync_every: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._store = store
        self._sync_every = sync_every
        self._clock = clock
        self._sleep = sleep
        self._holder = new_holder()

    def is_due(
        self, source: SyncedSource, record: SourceRecord | None, *, tries_again: bool = False
    ) -> bool:
        """Return whether a source is outdated, and does not require to wait longer.

        With `tries_again` a source that failed is due at once.
        """
        if source.is_local or record is None:
            return True
        now = self._clock()
        if record.not_before is not None and record.not_before > now:
            return False
        every = self._sync_every
        if source.settings.address == OFFICIAL_REGISTRY:
            every = max(every, HOUR)
        if record.problem is not None:  # a source that fails is not asked with each search
            since = now - (record.attempted_at or 0.0)
            return tries_again or since >= min(every, _RETRY_EVERY)
        if record.completed_at is None or record.point.cursor:
            return True  # its last reading was interrupted
        return now - record.completed_at >= every

    async def synchronize(
        self, source: SyncedSource, *, on_progress: Progress | None = None
    ) -> SourceReport:
        """Read a source, or its changes, into the store; failures are in the report."""
        name = source.settings.name
        try:
            key = copy_key(source.settings)
            record = await _in_thread(self._store.acquire, key, self._holder)
            if record is None:
                return SourceReport(name, was_due=False)
            return await self._run(source, record, on_progress)
        except RegistryError as error:
            problem = Diagnostic("MARKETPLACE_STORE_FAILED", str(error), error.hint, name)
            return SourceReport(name, problems=(problem,))

    async def _run(
        self, source: SyncedSource, record: SourceRecord, on_progress: Progress | None
    ) -> SourceReport:
        run = _Run(source.settings, on_progress)
        ended = Release()
        try:
            async with source.open() as reader:
                await self._read_all(source, reader, record, run)
                ended = Release(notes=run.notes)
        except SourceFailure as failure:
            delay = failure.retry_after
            ended = Release(
                problem=failure.diagnostic(run.source),
                not_before=None if delay is None else self._clock() + delay,
                restarts=not failure.is_passing,
            )
        except LeaseLost:
            return SourceReport(run.source, was_due=False)
        finally:
            # Also on cancellation: the next run need not wait for the lease to expire.
            with anyio.CancelScope(shield=True):
                await _in_thread(self._store.release, run.key, self._holder, ended)
        return run.report(ended.problem)

    async def _read_all(
        self, source: SyncedSource, reader: PageReader, record: SourceRecord, run: _Run
    ) -> None:
        point = _resumed_point(record, self._clock())
        page = await self._resumed_page(reader, point) if point else None
        if point is None or page is None:
            point = await self._new_point(source, record)
            page = await self._page(reader, point)
        run.is_whole = not point.since
        while not page.is_unchanged:
            run.require_bounds(page)
            is_only = not point.cursor and not page.cursor
            stored_page = SourcePage(
                entries=page.entries,
                cursor=page.cursor,
                # The ETag of a first page says nothing about further pages.
                etag=page.etag if is_only else "",
            )
            run.add(
                page, await _in_thread(self._store.add_page, run.key, self._holder, stored_page)
            )
            if not page.cursor:
                break
            point = SyncPoint(page.cursor, point.since)
            page = await self._page(reader, point)
        is_whole = run.is_whole and not page.is_unchanged
        run.removed += await _in_thread(self._store.complete, run.key, self._holder, is_whole)
        run.is_complete = True

    async def _resumed_page(self, reader: PageReader, point: SyncPoint) -> SourcePage | None:
        """Return the page after the interruption; None if the source refuses the cursor."""
        try:
            return await self._page(reader, point)
        except SourceFailure as failure:
            if failure.is_passing:
                raise
            return None

    async def _new_point(self, source: SyncedSource, record: SourceRecord) -> SyncPoint:
        """Return the first page of everything, or of the changes since the last time."""
        since = ""
        whole_at = record.whole_at
        is_recent = whole_at is not None and self._clock() - whole_at < _WHOLE_EVERY
        if source.has_changes and record.is_complete and is_recent:
            since = _earlier(record.newest, self._clock())
        key = copy_key(source.settings)
        return await _in_thread(self._store.begin_pass, key, self._holder, since)

    async def _page(self, reader: PageReader, point: SyncPoint) -> SourcePage:
        for attempt in range(1, _TRIES + 1):
            try:
                return await reader(point)
            except SourceFailure as failure:
                delay = failure.retry_after
                if not failure.is_passing or attempt == _TRIES or (delay or 0.0) > _MAX_DELAY:
                    raise
                pause = backoff(attempt, _FIRST_PAUSE, _MAX_DELAY)
                await self._sleep(pause if delay is None else delay)
        raise AssertionError("the last try returns or raises")  # pragma: no cover


class _Run:
    """The progress of one run, with its problems."""

    def __init__(self, settings: MarketplaceSource, on_progress: Progress | None) -> None:
        self.source = settings.name
        self.key = copy_key(settings)
        self.is_whole = False
        self.is_complete = False
        self.removed = 0
        self._on_progress = on_progress
        self._pages = self._entries = self._size = 0
        self._added = self._updated = 0
        self._malformed: list[str] = []
        self._mistakes: list[Diagnostic] = []
        self._cursors: set[str] = set()

    def require_bounds(self, page: SourcePage) -> None:
        """Raise `SourceFailure` if pages form a cycle, or exceed the limits on size and number."""
        self._size += page.size
        if page.cursor in self._cursors:
            raise invalid("its pages lead in a circle: a cursor came twice")
        if page.cursor:
            self._cursors.add(page.cursor)
        if self._pages >= bounds.PAGES or self._size > bounds.SYNC_BYTES:
            raise invalid(f"it has more than {bounds.PAGES:,} pages, or 1 GiB; no more is read")
        if self._entries > bounds.ENTRIES:
            raise invalid(f"it has more than {bounds.ENTRIES:,} entries; no more is read")

    def add(self, page: SourcePage, result: PageResult) -> None:
        self._pages += 1
        self._entries += len(page.entries)
        self._added += result.added
        self._updated += result.updated
        self.removed += result.removed
        self._malformed += [*page.malformed, *result.left_out]
        self._mistakes += page.mistakes
        if self._on_progress:
            progress = SyncProgress(self.source, self._pages, self._entries, self.is_whole)
            self._on_progress(progress)

    def report(self, problem: Diagnostic | None) -> SourceReport:
        return SourceReport(
            self.source,
            pages=self._pages,
            added=self._added,
            updated=self._updated,
            removed=self.removed,
            is_complete=self.is_complete,
            problems=(*((problem,) if problem else ()), *(self.notes or ())),
        )

    @property
    def notes(self) -> tuple[Diagnostic, ...] | None:
        """The problems with entries; None if no page was read."""
        if not self._pages:
            return None
        left_out = self._left_out()
        return (*self._mistakes[:_MOST_MISTAKES], *((left_out,) if left_out else ()))

    def _left_out(self) -> Diagnostic | None:
        if not self._malformed:
            return None
        count = len(self._malformed)
        more = (
            f"; and {count - _MAX_LISTED_MALFORMED:,} more" if count > _MAX_LISTED_MALFORMED else ""
        )
        some = "; ".join(self._malformed[:_MAX_LISTED_MALFORMED])
        message = (
            f"{count:,} {'entry was' if count == 1 else 'entries were'} left out: {some}{more}"
        )
        hint = "tell the owner of the source; all others are there"
        return Diagnostic("MARKETPLACE_ENTRIES_LEFT_OUT", message, hint, self.source)


def _resumed_point(record: SourceRecord, now: float) -> SyncPoint | None:
    """Return where the last run was interrupted; None if it was not, or is too long ago."""
    if not record.point.cursor or now - (record.begun_at or 0.0) > _RESUMABLE:
        return None
    return SyncPoint(record.point.cursor, record.point.since)


def _earlier(moment: str, now: float) -> str:
    """Return the time of a source's last change less an overlap; empty if it is invalid.

    A future time, which one entry may have by mistake, counts as now: it would hide all changes.
    """
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    latest = min(parsed.astimezone(UTC), datetime.fromtimestamp(now, UTC))
    return (latest - _OVERLAP).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _in_thread(work: Callable[[Unpack[_Arguments]], _T], *arguments: *_Arguments) -> _T:
    return await anyio.to_thread.run_sync(work, *arguments)


# The copies of all sources: their updates during a search, and their state.

# Seconds that a search waits: for a complete copy's update and for a page of a first copy; for such
# a page if no other source has a complete copy; and for all pages of a first copy.
_SOURCE_TIMEOUT = 3.0
_ALONE = 20.0
_ALL_PAGES_TIMEOUT = 300.0


class Patience(Struct, frozen=True):
    """The time limits for a source, in seconds."""

    for_page: float = math.inf
    altogether: float = math.inf


_ENDLESS: Mapping[str, Patience] = MappingProxyType({})


class SourceState(Struct, frozen=True):
    """The state of a source and of its copy."""

    name: str
    type: str
    trust: SourceTrust
    entries: int = 0
    """The number of entries in the copy."""
    synced_at: float | None = None
    """Unix time in seconds at which the copy was last up to date; None if it never was."""
    is_complete: bool = False
    """True once the source was read to its end."""
    is_syncing: bool = False
    is_failing: bool = False
    """True if the last reading failed, apart from problems with single entries."""
    problems: tuple[Diagnostic, ...] = ()


class SourceCopies:
    """The copies of the sources in `synced`, by the sources' names."""

    def __init__(
        self,
        settings: MarketplaceSettings,
        store: MarketplaceStore,
        synced: Mapping[str, SyncedSource],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._store = store
        self._synced = synced
        self._settings = {source.name: source for source in settings.active_sources}
        self._names = {copy_key(source): source.name for source in settings.active_sources}
        self._synchronizer = Synchronizer(
            store, sync_every=settings.sync_every, clock=clock, sleep=sleep
        )

    async def refresh(
        self, sources: Sequence[str], on_progress: Progress | None
    ) -> list[Diagnostic]:
        """Update outdated copies, and start missing ones, within time limits; return problems."""
        records = await self.records()
        remote = [
            name for name in sources if name in self._synced and not self._synced[name].is_local
        ]
        is_alone = not any(is_complete(records.get(name)) for name in remote)
        patience = {
            name: Patience(_SOURCE_TIMEOUT, _SOURCE_TIMEOUT)
            if is_complete(records.get(name))
            else Patience(_ALONE if is_alone else _SOURCE_TIMEOUT, _ALL_PAGES_TIMEOUT)
            for name in sources
        }
        reports = await self.synchronize(sources, on_progress, patience=patience)
        return [problem for report in reports for problem in report.problems]

    async def synchronize(
        self,
        names: Sequence[str],
        on_progress: Progress | None,
        *,
        force: bool = False,
        tries_again: bool = False,
        patience: Mapping[str, Patience] = _ENDLESS,
    ) -> list[SourceReport]:
        """Synchronise sources that are due; return their reports, without those out of time."""
        records = await self.records()
        reports: dict[str, SourceReport] = {}

        async def run(source: SyncedSource) -> None:
            name = source.settings.name
            waits = patience.get(name, Patience())
            end = anyio.current_time() + waits.altogether
            with anyio.CancelScope(deadline=anyio.current_time() + waits.for_page) as scope:

                def on_page(progress: SyncProgress) -> None:
                    scope.deadline = min(end, anyio.current_time() + waits.for_page)
                    if on_progress:
                        on_progress(progress)

                reports[name] = await self._synchronizer.synchronize(source, on_progress=on_page)

        async with open_task_group() as tasks:
            for name in names:
                if (source := self._synced.get(name)) is None:
                    continue
                record = records.get(name)
                if force or self._synchronizer.is_due(source, record, tries_again=tries_again):
                    tasks.start_soon(run, source)
                else:
                    problem = record.problem if record else None
                    problems = (problem,) if problem else ()
                    reports[name] = SourceReport(name, was_due=False, problems=problems)
        return [reports[name] for name in names if name in reports]

    async def states(
        self, names: Sequence[str], problems: Iterable[Diagnostic]
    ) -> tuple[SourceState, ...]:
        records = await self.records()
        present = list(problems)
        return tuple(
            self._state(
                name, records.get(name), [problem for problem in present if problem.subject == name]
            )
            for name in names
        )

    async def records(self) -> dict[str, SourceRecord]:
        """Return the record of each source, by its name."""
        records = await anyio.to_thread.run_sync(self._store.records)
        return {self._names[key]: record for key, record in records.items() if key in self._names}

    def _state(
        self, name: str, record: SourceRecord | None, problems: Sequence[Diagnostic]
    ) -> SourceState:
        settings = self._settings[name]
        record = record or SourceRecord(name)
        record_problems = [*([record.problem] if record.problem else []), *record.notes]
        return SourceState(
            name,
            settings.type,
            settings.trusted_as,
            entries=record.entries,
            synced_at=record.completed_at,
            is_complete=record.is_complete,
            is_syncing=record.is_leased,
            is_failing=record.problem is not None or any(p not in record.notes for p in problems),
            problems=without_doubles([*problems, *record_problems]),
        )


def is_complete(record: SourceRecord | None) -> bool:
    """Return whether a source was once read to its end."""
    return record is not None and record.is_complete


def without_doubles(problems: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return each problem once."""
    return tuple(
        {(problem.code, problem.subject, problem.message): problem for problem in problems}.values()
    )
