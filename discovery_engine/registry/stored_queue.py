"""The refresh queue of a registry; `registry.refresh_queue` has its contract."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from discovery_engine.fleet import schedule
from discovery_engine.registry.refresh_steps import Chosen, RefreshSteps, Step
from discovery_engine.registry.saved_listings import SavedListings
from discovery_engine.registry.stored_records import StoredRecords
from discovery_engine.registry.tables import refresh_table, snapshot_table

if TYPE_CHECKING:
    from discovery_engine.fleet.refresh_job import NameMark, RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.registry.refresh_queue import ClaimedPart
    from discovery_engine.registry.statements import Connection
    from discovery_engine.tools.model import ServerName


class StoredQueue(RefreshSteps, StoredRecords):
    """The part of a registry that hands servers to workers."""

    def __init__(self) -> None:
        self._listings = SavedListings()

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return tuple(self.read(partial(refresh_table.load, scope=scope)))

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
            jobs = refresh_table.claim(db, scope, holder, limit, lease, excluded)
            if lost := [job for job in jobs if job.state == "dead"]:
                self._events(db, scope).note_lost(lost)
            return jobs

        return schedule.claimed_in_order(self.write(claim))

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        marked = [
            (entry, self._listings.mark_of(entry.claim.scope, entry.part)) for entry in listed
        ]
        pairs = [(entry, mark) for entry, mark in marked if mark]
        if not pairs:
            return frozenset()
        return self.write(partial(refresh_table.end_unchanged, listed=pairs))

    def refresh_time(self) -> float:
        return self.read(lambda db: db.now())

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        return self.read(partial(refresh_table.tended, scope=scope, grace=grace))

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        return self.read(partial(refresh_table.seconds_until_next, scope=scope, excluded=excluded))

    def _plan(self, scope: str, targets: Sequence[RefreshTarget]) -> None:
        self.write(partial(refresh_table.plan, scope=scope, targets=targets))

    def _name_marks(self, scope: str) -> list[NameMark]:
        return self.read(partial(refresh_table.name_marks, scope=scope))

    def _mark(self, scope: str, servers: Sequence[ServerName], *, seconds: float) -> None:
        self.write(partial(refresh_table.mark, scope=scope, servers=servers, seconds=seconds))

    def _drop_unnamed(self, scope: str, servers: Sequence[ServerName]) -> list[ServerName]:
        def drop(db: Connection) -> list[ServerName]:
            gone = refresh_table.drop_unnamed(db, scope, servers)
            self._events(db, scope).note_servers((), snapshot_table.drop(db, scope, gone))
            return gone

        return self.write(drop)

    def _take_step(self, chosen: Chosen, step: Step) -> list[RefreshJob]:
        return self.write(partial(self._step_within, chosen=chosen, step=step))

    def _step_within(self, connection: Connection, chosen: Chosen, step: Step) -> list[RefreshJob]:
        """Take a step as part of a transaction; see `_take_step`."""
        changed = []
        for scope, servers in chosen.items():
            steps = refresh_table.step(connection, scope, servers, step)
            if turned := [pair for pair in steps if schedule.health_change(*pair)]:
                self._events(connection, scope).note_jobs(turned)
            changed += [job for _, job in steps]
        return changed
