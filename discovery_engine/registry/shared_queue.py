"""The queue of a shared registry: in the database alone, never in a copy or an outbox.

What a worker may write depends on its claim at that moment, so nothing of it can wait.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshJob, RefreshTarget
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.registry.refresh_queue import ClaimedPart, SaveOutcome
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance

T = TypeVar("T")


class SharedQueue:
    """The part of `SharedRegistry` that passes every call on; the error says why one cannot be."""

    @abstractmethod
    def _asked(self, ask: Callable[[Registry], T]) -> T:
        """What the database answers."""

    def refresh_time(self) -> float:
        return self._asked(lambda store: store.refresh_time())

    def refresh_jobs(self, scope: str) -> tuple[RefreshJob, ...]:
        return self._asked(lambda store: store.refresh_jobs(scope))

    def name_servers(self, scope: str, servers: Iterable[str]) -> tuple[ServerName, ...]:
        own = tuple(servers)
        return self._asked(lambda store: store.name_servers(scope, own))

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:
        wanted = tuple(targets)
        return self._asked(lambda store: store.plan_refreshes(scope, wanted))

    def claim_refreshes(
        self,
        scope: str,
        holder: str,
        *,
        limit: int,
        lease: float,
        excluded: Collection[str] = (),
    ) -> tuple[RefreshJob, ...]:
        return self._asked(
            lambda store: store.claim_refreshes(
                scope, holder, limit=limit, lease=lease, excluded=excluded
            )
        )

    def extend_claims(
        self, claims: Iterable[RefreshClaim], *, lease: float
    ) -> frozenset[RefreshClaim]:
        held = tuple(claims)
        return self._asked(lambda store: store.extend_claims(held, lease=lease))

    def fail_refresh(
        self, claim: RefreshClaim, code: str, message: str, *, retry_in: float | None
    ) -> bool:
        return self._asked(
            lambda store: store.fail_refresh(claim, code, message, retry_in=retry_in)
        )

    def return_claims(self, claims: Iterable[RefreshClaim]) -> int:
        held = tuple(claims)
        return self._asked(lambda store: store.return_claims(held))

    def save_claimed(
        self,
        claim: RefreshClaim,
        part: ServerPart,
        *,
        due_in: float,
        revision: int,
        decided: int | None = None,
    ) -> SaveOutcome:
        return self._asked(
            lambda store: store.save_claimed(
                claim, part, due_in=due_in, revision=revision, decided=decided
            )
        )

    def end_unchanged(self, listed: Sequence[ClaimedPart]) -> frozenset[RefreshClaim]:
        return self._asked(lambda store: store.end_unchanged(listed))

    def accept_claimed(
        self, claim: RefreshClaim, scope: str, found: Iterable[Acceptance], *, at: float
    ) -> int | None:
        new = tuple(found)
        return self._asked(lambda store: store.accept_claimed(claim, scope, new, at=at))

    def retry_refreshes(
        self, scope: str, servers: Collection[str] | None = None
    ) -> tuple[ServerName, ...]:
        return self._asked(lambda store: store.retry_refreshes(scope, servers))

    def hasten_refreshes(
        self, scope: str, servers: Collection[str] | None = None, *, priority: int = 0
    ) -> tuple[ServerName, ...]:
        return self._asked(lambda store: store.hasten_refreshes(scope, servers, priority=priority))

    def tended_servers(self, scope: str, *, grace: float) -> frozenset[ServerName]:
        return self._asked(lambda store: store.tended_servers(scope, grace=grace))

    def seconds_until_refresh(self, scope: str, *, excluded: Collection[str] = ()) -> float | None:
        return self._asked(lambda store: store.seconds_until_refresh(scope, excluded=excluded))
