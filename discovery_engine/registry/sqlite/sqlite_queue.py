"""The refresh queue of a registry in SQLite; `registry.refresh_queue` has its contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.codec import is_same_listing, part_to_row
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step, success
from discovery_engine.registry.sqlite import refresh_table, snapshot_tables, webhook_table
from discovery_engine.registry.webhook_rows import NoEvents

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import NameMark, RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.registry.codec import PartRow
    from discovery_engine.registry.refresh_queue import ClaimedPart
    from discovery_engine.registry.sqlite.database import Database
    from discovery_engine.tools.model import ServerName


class SqliteQueue(RefreshSteps):
    """The part of `SqliteRegistry` that needs nothing but the file and the machine's clock."""

    _database: Database
    _clock: Callable[[], float]
    _has_webhooks: bool

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self._database.read(lambda db: refresh_table.load(db, scope)))

    def import_jobs(self, jobs: Iterable[RefreshJob]) -> None:
        kept = tuple(jobs)
        self._database.write(lambda db: refresh_table.add(db, kept, self._clock()))

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        def claim(db: sqlite3.Connection) -> list[RefreshJob]:
            now = self._clock()
            due = refresh_table.due(db, scope, limit, now, excluded)
            jobs = refresh_table.claim(db, due, holder, lease, now)
            if lost := [job for job in jobs if job.state == "dead"]:
                self._events(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self._database.write(claim))

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        rows = [(one, part_to_row(one.part)) for one in listed]

        def end(db: sqlite3.Connection) -> frozenset[RefreshClaim]:
            same = [
                one for one, row in rows if is_saved(db, one.claim.scope, one.claim.server, row)
            ]
            steps = [(one.claim, success(one.claim, one.part, one.due_in)) for one in same]
            return frozenset(claim for claim, step in steps if self._step_within(db, *step))

        return self._database.write(end)

    def refresh_time(self) -> float:
        return self._clock()

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        overdue = self._clock() - grace
        return self._database.read(lambda db: refresh_table.due_after(db, scope, overdue))

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        return self._database.read(
            lambda db: refresh_table.seconds_until_next(db, scope, self._clock(), excluded)
        )

    def _plan(self, scope: str, targets: Sequence[RefreshTarget]) -> None:
        self._database.write(lambda db: refresh_table.plan(db, scope, targets, self._clock()))

    def _name_marks(self, scope: str) -> list[NameMark]:
        return self._database.read(lambda db: refresh_table.name_marks(db, scope, self._clock()))

    def _mark(self, scope: str, servers: Sequence[ServerName], *, seconds: float) -> None:
        self._database.write(
            lambda db: refresh_table.mark(db, scope, servers, self._clock() + seconds)
        )

    def _drop_unnamed(self, scope: str, servers: Sequence[ServerName]) -> list[ServerName]:
        def drop(db: sqlite3.Connection) -> list[ServerName]:
            gone = refresh_table.drop_unnamed(db, scope, servers, self._clock())
            self._events(db, scope).note_servers((), snapshot_tables.drop(db, scope, gone))
            return gone

        return self._database.write(drop)

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        return self._database.write(lambda db: self._step_within(db, chosen, step))

    def _step_within(
        self, connection: sqlite3.Connection, chosen: Chosen, step: Step
    ) -> list[RefreshJob]:
        """As `_take_step`, as a part of a transaction."""
        now = self._clock()
        changed = []
        for scope, servers in chosen.items():
            steps = refresh_table.step(connection, scope, servers, lambda job: step(job, now))
            if turned := [pair for pair in steps if schedule.health_change(*pair)]:
                self._events(connection, scope).note_jobs(turned)
            changed += [job for _, job in steps]
        return changed

    def _events(self, connection: sqlite3.Connection, scope: str) -> NoEvents:
        """What writes events for webhooks, within a transaction."""
        rows = webhook_table.rows(connection, scope) if self._has_webhooks else []
        if not any(row.is_active for row in rows):
            return NoEvents()
        # Most registries have no webhook, and this is on the path of every start.
        from discovery_engine.registry.sqlite.sqlite_webhook_writer import (  # noqa: PLC0415
            SqliteWebhookWriter,
        )

        return SqliteWebhookWriter(connection, scope, rows, self._clock)


def is_saved(connection: sqlite3.Connection, scope: str, server: str, row: PartRow) -> bool:
    """Whether a listing is saved as it is."""
    stored = snapshot_tables.row_of(connection, scope, server)
    return stored is not None and is_same_listing(stored, row)
