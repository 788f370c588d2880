"""The copies of all sources: their updates while a request waits, and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import anyio
from msgspec import Struct

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.marketplace_settings import MarketplaceSettings, SourceTrust
from discovery_engine.diagnostics import Diagnostic
from discovery_engine.marketplace.entry_store import MarketplaceStore, SourceRecord
from discovery_engine.marketplace.source import SyncedSource, copy_key
from discovery_engine.marketplace.synchronizer import (
    Progress,
    SourceReport,
    Synchronizer,
    SyncProgress,
)

# Seconds that a search waits: for what has changed; for the next page of a source without a whole
# copy, if others have one or not; and for all pages of such a source.
_SOURCE_TIMEOUT = 3.0
_ALONE = 20.0
_ALL_PAGES_TIMEOUT = 300.0


class Patience(Struct, frozen=True):
    """How many seconds a source is waited for."""

    for_page: float = math.inf
    altogether: float = math.inf


_ENDLESS: Mapping[str, Patience] = MappingProxyType({})


class SourceState(Struct, frozen=True):
    """The state of a source and of its copy."""

    name: str
    type: str
    trust: SourceTrust
    entries: int = 0
    """In the copy."""
    synced_at: float | None = None
    """Unix time in seconds of what the copy is of; None if it is of nothing, or incomplete."""
    is_complete: bool = False
    """True if the source was read to its end once."""
    is_syncing: bool = False
    is_failing: bool = False
    """True if it could not be read the last time; problems with single entries do not count."""
    problems: tuple[Diagnostic, ...] = ()


class SourceCopies:
    """The copies of `synced` sources, which are by their names."""

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
        self, wanted: Sequence[str], on_progress: Progress | None
    ) -> list[Diagnostic]:
        """Bring old copies up to date, and copy what was never copied, as long as it goes on."""
        records = await self.records()
        remote = [
            name for name in wanted if name in self._synced and not self._synced[name].is_local
        ]
        is_alone = not any(is_complete(records.get(name)) for name in remote)
        patience = {
            name: Patience(_SOURCE_TIMEOUT, _SOURCE_TIMEOUT)
            if is_complete(records.get(name))
            else Patience(_ALONE if is_alone else _SOURCE_TIMEOUT, _ALL_PAGES_TIMEOUT)
            for name in wanted
        }
        reports = await self.synchronize(wanted, on_progress, patience=patience)
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
        """The reports on those that were asked; one that took too long has none."""
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
        if record is None:
            return SourceState(
                name,
                settings.type,
                settings.trusted_as,
                is_failing=bool(problems),
                problems=tuple(problems),
            )
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
    """Return whether a source was read to its end once."""
    return record is not None and record.is_complete


def without_doubles(problems: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Each problem once."""
    return tuple(
        {(problem.code, problem.subject, problem.message): problem for problem in problems}.values()
    )
