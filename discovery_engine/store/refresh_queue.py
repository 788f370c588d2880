"""The servers of a scope as jobs of workers, in every back-end of the registry.

`store.fleet.refresh_job` and `store.fleet.schedule` say what a job is, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.store.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance

SaveOutcome: TypeAlias = Literal["saved", "unchanged", "lost"]


class ClaimedPart(Struct, frozen=True):
    """A part that a worker listed under a claim; several are written at once."""

    claim: RefreshClaim
    part: ServerPart
    due_in: float
    """Seconds until the server is due again."""


class RefreshQueue(Protocol):
    """All times are those of the store's own clock: those of workers may differ.

    A worker that was paused until another one claimed its server can write nothing about it any
    more: every verb with a `claim` reads and writes in one transaction.
    """

    def refresh_time(self) -> float:
        """The present time of the clock that all jobs have their times from."""

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        """All jobs of a scope, in the order of their servers."""

    def name_servers(self, scope: str, servers: Iterable[str]) -> tuple[ServerName, ...]:
        """Note that a process has these servers in its configuration; to be repeated each hour.

        Jobs that no process has named for `schedule.NAMED_FOR` are dropped, with what is saved of
        their servers, except those that a worker holds. One that no process ever named, because
        an older version of the program made it, counts as named for `schedule.ADOPTED_FOR` since
        the first call that found it. Returns the servers that were dropped. It writes nothing
        where all of these were named within the last half an hour.
        """

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        """Make a job for each of these servers; other jobs, which others have made, stay.

        A new one is due at once, and so is one that is reached in another way than before; one
        with a reason is disabled until it has none. Returns how many jobs are different by it.
        Many are made in several transactions.
        """

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        """Claim up to `limit` jobs for `lease` seconds, of which no other worker gets any.

        None of servers that are `excluded`. A lease lasts for an hour at most.

        Those that are due and those whose lease has ended; the highest priority first, then the
        one that has waited longest. Each claim raises the fence of its job. One that
        workers were lost with again and again is dead instead, and not returned.
        """

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        """The heartbeat: claims last for `lease` seconds from now; returns those still valid."""

    def fail_refresh(
        self, claim: RefreshClaim, code: str, message: str, *, retry_in: float | None
    ) -> bool:
        """Note a failure, tried again in `retry_in` seconds, or dead with None.

        False, and nothing is written, if the claim is not valid any more.
        """

    def return_claims(self, claims: Iterable[RefreshClaim]) -> int:
        """Let others claim these jobs, as if they had not been; returns how many were held."""

    def save_claimed(
        self,
        claim: RefreshClaim,
        part: ServerPart,
        *,
        due_in: float,
        revision: int,
        decided: int | None = None,
    ) -> SaveOutcome:
        """Save the server like `save_parts`, and end the claim: due again in `due_in` seconds.

        `lost`, and nothing is written, if the claim is not valid any more. The listing is kept even
        if the saved settings, which may be those of an older configuration, do not name the server.

        A listing that is as it is saved already, but for its time, is `unchanged`: nothing of it is
        written, and no gateway has anything to fetch.
        """

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        """End the claims of servers whose listings are saved already; return the ended claims.

        The same as `save_claimed` for several servers, in one transaction; each claim is ended if
        it is valid itself. Nothing is written of the others: what is saved may be different, the
        claim lost, or another process may be writing its job just now. `save_claimed` finds out.
        """

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        """Do the same as `accept` with `if_new`; return None if the claim is not valid any more.

        `scope` is the scope of the decisions, which may differ in name from the scope of the jobs.
        """

    def retry_refreshes(
        self, scope: str, servers: Collection[str] | None = None
    ) -> tuple[ServerName, ...]:
        """Have servers tried again now that failed, with all attempts before them; all with None.

        Returns those it concerns. Many are changed in several transactions, here and below.
        """

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        """Have servers listed now, however lately they were; returns those it concerns.

        A job that is processed is due again when it ends; one that is dead or disabled stays so.
        """

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        """The servers that workers list in time: none of them is due since more than `grace` s."""

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        """Seconds until a job can be claimed, 0 if one can be now; None if none ever can."""
