"""The refresh queue of a registry in PostgreSQL; `registry.refresh_queue` has its contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.postgres import refresh_queries, snapshot_queries
from discovery_engine.registry.postgres.postgres_webhook_writer import event_writer
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.fleet.refresh_job import NameMark, RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.saved_listings import SavedListings
    from discovery_engine.registry.refresh_queue import ClaimedPart
    from discovery_engine.tools.model import ServerName


class PostgresQueue(RefreshSteps):
    """The part of `PostgresRegistry` that needs nothing but the database."""

    database: PostgresDatabase
    _listings: SavedListings

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self.database.read(lambda db: refresh_queries.load(db, scope)))

    def import_jobs(self, jobs: Iterable[RefreshJob]) -> None:
        kept = tuple(jobs)
        self.database.write(lambda db: refresh_queries.add(db, kept))

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        def claim(db: Connection) -> list[RefreshJob]:
            jobs = refresh_queries.claim(db, scope, holder, limit, lease, excluded)
            if lost := [job for job in jobs if job.state == "dead"]:
                event_writer(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self.database.write(claim))

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        marked = [(one, self._listings.mark_of(one.claim.scope, one.part)) for one in listed]
        known = [(one, mark) for one, mark in marked if mark]
        if not known:
            return frozenset()
        return self.database.write(lambda db: refresh_queries.end_unchanged(db, known))

    def refresh_time(self) -> float:
        return self.database.read(refresh_queries.present_time)

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        return self.database.read(lambda db: refresh_queries.tended(db, scope, grace))

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        return self.database.read(
            lambda db: refresh_queries.seconds_until_next(db, scope, excluded)
        )

    def _plan(self, scope: str, targets: Sequence[RefreshTarget]) -> None:
        self.database.write(lambda db: refresh_queries.plan(db, scope, targets))

    def _name_marks(self, scope: str) -> list[NameMark]:
        return self.database.read(lambda db: refresh_queries.name_marks(db, scope))

    def _mark(self, scope: str, servers: Sequence[ServerName], *, seconds: float) -> None:
        self.database.write(lambda db: refresh_queries.mark(db, scope, servers, seconds))

    def _drop_unnamed(self, scope: str, servers: Sequence[ServerName]) -> list[ServerName]:
        def drop(db: Connection) -> list[ServerName]:
            gone = refresh_queries.drop_unnamed(db, scope, servers)
            event_writer(db, scope).note_servers((), snapshot_queries.drop(db, scope, gone))
            return gone

        return self.database.write(drop)

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        return self.database.write(lambda db: take_step(db, chosen, step))


def take_step(connection: Connection, chosen: Chosen, step: Step) -> list[RefreshJob]:
    """Take a step with jobs as a part of a transaction; returns those that are different by it."""
    changed = []
    for scope, servers in chosen.items():
        steps = refresh_queries.step(connection, scope, servers, step)
        if turned := [pair for pair in steps if schedule.health_change(*pair)]:
            event_writer(connection, scope).note_jobs(turned)
        changed += [job for _, job in steps]
    return changed
