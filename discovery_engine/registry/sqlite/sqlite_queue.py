"""The refresh queue of a registry in SQLite; `registry.protocols` has its contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step
from discovery_engine.registry.sqlite import refresh_table, webhook_table
from discovery_engine.registry.webhook_rows import NoEvents

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshJob, RefreshTarget
    from discovery_engine.registry.sqlite.database import Database
    from discovery_engine.tools.model import ServerName


class SqliteQueue(RefreshSteps):
    """The part of `SqliteRegistry` that needs nothing but the file and the machine's clock."""

    _database: Database
    _clock: Callable[[], float]
    _has_webhooks: bool

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self._database.read(lambda db: refresh_table.load(db, scope)))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        wanted: dict[str, RefreshTarget] = {target.server: target for target in targets}
        return self._database.write(lambda db: refresh_table.plan(db, scope, wanted, self._clock()))

    def claim_refreshes(
        self, scope: str, holder: str, *, limit: int, lease: float
    ) -> tuple[RefreshJob, ...]:
        def claim(db: sqlite3.Connection) -> list[RefreshJob]:
            jobs = refresh_table.claim(db, scope, holder, limit, lease, self._clock())
            if lost := [job for job in jobs if job.state == "dead"]:
                self._events(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self._database.write(claim))

    def refresh_time(self) -> float:
        return self._clock()

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        overdue = self._clock() - grace
        return self._database.read(lambda db: refresh_table.due_after(db, scope, overdue))

    def seconds_until_refresh(self, scope: str) -> float | None:
        return self._database.read(
            lambda db: refresh_table.seconds_until_next(db, scope, self._clock())
        )

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        def take(db: sqlite3.Connection) -> list[RefreshJob]:
            now = self._clock()
            changed = []
            for scope, servers in chosen.items():
                steps = refresh_table.step(db, scope, servers, lambda job: step(job, now))
                if turned := [pair for pair in steps if schedule.health_change(*pair)]:
                    self._events(db, scope).note_jobs(turned)
                changed += [job for _, job in steps]
            return changed

        return self._database.write(take)

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
