"""A refresh job: one server of one scope, which workers list again and again.

    pending      never listed yet
    processing   claimed by a worker, until its lease ends
    enabled      listed; due again later
    error        the last attempt failed; tried again later
    dead         failed for too long: nothing is tried until its owner says so
    disabled     switched off, or not to be started

Times are Unix times in seconds by the clock of the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart

SaveOutcome: TypeAlias = Literal["saved", "unchanged", "lost"]
JobState: TypeAlias = Literal["pending", "processing", "enabled", "error", "dead", "disabled"]
WAITING: frozenset[JobState] = frozenset({"pending", "enabled", "error"})
"""The states in which a job is claimed once it is due."""


class RefreshTarget(Struct, frozen=True):
    """A server that a configuration names, and whether it is to be listed."""

    server: ServerName
    connection: str = ""
    """The fingerprint of how it is reached; with another one it is listed at once."""
    reason: str = ""
    """The reason why it must not be listed; empty if it may be."""
    code: str = ""
    """The code of that reason."""


class NameMark(Struct, frozen=True):
    """The mark of a job that is dropped unless a process that has its server names it again."""

    server: ServerName
    seconds_left: float | None
    """Seconds until it is dropped; None if only programs too old to name servers saw the job."""


class RefreshClaim(Struct, frozen=True):
    """A worker's right to write about one server, valid until another claim of it is made."""

    scope: str
    server: ServerName
    holder: str
    """The worker, by a name that no other ever has."""
    fence: int


class ClaimLostError(Exception):
    """Another worker has claimed the server since, so nothing was written."""


class RefreshJob(Struct, frozen=True):
    scope: str
    server: ServerName
    created_at: float
    due_at: float
    """The time at which it is to be listed, or was to be while it is processed."""
    state: JobState = "pending"
    priority: int = 0
    """The rank among due jobs; the highest comes first."""
    attempts: int = 0
    """Claims since the last success."""
    holder: str = ""
    """The worker that holds it; empty unless it is processed."""
    fence: int = 0
    """The number of its last claim, which no other claim of this server ever has."""
    claimed_at: float | None = None
    lease_until: float | None = None
    """The time from which another worker may claim it; None unless it is processed."""
    listed_at: float | None = None
    """The time of the last successful listing, whether or not anything had changed."""
    tool_count: int | None = None
    """Its tools at that time."""
    error_code: str = ""
    error_message: str = ""
    """The reason why the last attempt failed, or why it is disabled."""
    connection: str = ""
    failing_since: float | None = None
    """The time of the first failure since the last success; None without a failure."""
    losses: int = 0
    """Workers in a row that were lost with it."""

    @property
    def claim(self) -> RefreshClaim:
        return RefreshClaim(self.scope, self.server, self.holder, self.fence)

    @property
    def claimable_at(self) -> float | None:
        """The time from which a worker may claim it; None if no worker may."""
        if self.state == "processing":
            return self.lease_until
        return self.due_at if self.state in WAITING else None

    def is_held_by(self, claim: RefreshClaim) -> bool:
        """Return whether a claim is valid; after its lease it is, until another worker claims."""
        held = self.state, self.holder, self.fence
        return held == ("processing", claim.holder, claim.fence)


class ClaimedPart(Struct, frozen=True):
    """A part that a worker listed under a claim; several are written at once."""

    claim: RefreshClaim
    part: ServerPart
    due_in: float
    """Seconds until the server is due again."""
