"""The refresh queue of a registry in SQLite; `registry.protocols` has its contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step
from discovery_engine.registry.sqlite import refresh_table

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import RefreshJob, RefreshTarget
    from discovery_engine.registry.sqlite.database import Database
    from discovery_engine.tools.model import ServerName


class SqliteQueue(RefreshSteps):
    """The part of `SqliteRegistry` that needs nothing but the file and the machine's clock."""

    _database: Database
    _clock: Callable[[], float]

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self._database.read(lambda db: refresh_table.load(db, scope)))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        wanted: dict[str, RefreshTarget] = {target.server: target for target in targets}
        return self._database.write(lambda db: refresh_table.plan(db, scope, wanted, self._clock()))

    def claim_refreshes(
        self, scope: str, holder: str, *, limit: int, lease: float
    ) -> tuple[RefreshJob, ...]:
        def claim(db: sqlite3.Connection) -> list[RefreshJob]:
            return refresh_table.claim(db, scope, holder, limit, lease, self._clock())

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
            return [
                job
                for scope, servers in chosen.items()
                for job in refresh_table.step(db, scope, servers, lambda job: step(job, now))
            ]

        return self._database.write(take)
