"""The refresh queue of a registry in PostgreSQL; `registry.protocols` has its contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.postgres import refresh_queries
from discovery_engine.registry.postgres.postgres_webhook_writer import event_writer
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.fleet.refresh_job import RefreshJob, RefreshTarget
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.tools.model import ServerName


class PostgresQueue(RefreshSteps):
    """The part of `PostgresRegistry` that needs nothing but the database."""

    database: PostgresDatabase

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self.database.read(lambda db: refresh_queries.load(db, scope)))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        wanted: dict[str, RefreshTarget] = {target.server: target for target in targets}
        return self.database.write(lambda db: refresh_queries.plan(db, scope, wanted))

    def claim_refreshes(
        self, scope: str, holder: str, *, limit: int, lease: float
    ) -> tuple[RefreshJob, ...]:
        def claim(db: Connection) -> list[RefreshJob]:
            jobs = refresh_queries.claim(db, scope, holder, limit, lease)
            if lost := [job for job in jobs if job.state == "dead"]:
                event_writer(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self.database.write(claim))

    def refresh_time(self) -> float:
        return self.database.read(refresh_queries.present_time)

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        return self.database.read(lambda db: refresh_queries.tended(db, scope, grace))

    def seconds_until_refresh(self, scope: str) -> float | None:
        return self.database.read(lambda db: refresh_queries.seconds_until_next(db, scope))

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        def take(db: Connection) -> list[RefreshJob]:
            changed = []
            for scope, servers in chosen.items():
                steps = refresh_queries.step(db, scope, servers, step)
                if turned := [pair for pair in steps if schedule.health_change(*pair)]:
                    event_writer(db, scope).note_jobs(turned)
                changed += [job for _, job in steps]
            return changed

        return self.database.write(take)
