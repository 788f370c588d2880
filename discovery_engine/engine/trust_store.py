"""The stored decisions of the owner: read, applied to servers and tools, and extended.

The only decisions made here are those of the policy for tools seen for the first time. Methods
block while they use the registry, so they must not run in the thread of the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from discovery_engine.config.files.location import decision_scope
from discovery_engine.engine.registered_servers import settle_scope
from discovery_engine.errors import RegistryError
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.trust.decisions import (
    UNREAD,
    UNREADABLE,
    Acceptance,
    AcceptedByServer,
    Approval,
    Decisions,
    with_accepted,
)
from discovery_engine.trust.effective_trust import Trust
from discovery_engine.trust.server_admission import admit
from discovery_engine.trust.server_identity import completed_approval, known_as

if TYPE_CHECKING:
    from discovery_engine.config.settings import (
        RemoteTransport,
        ServerSettings,
        Settings,
        StdioTransport,
    )
    from discovery_engine.store.registry import Registry
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import AcceptedTools
    from discovery_engine.trust.effective_trust import ListedServer
    from discovery_engine.trust.server_identity import Identity
    from discovery_engine.upstream.identity import Programs

logger = logging.getLogger(__name__)


class FirstSightWriter(Protocol):
    def __call__(self, scope: str, acceptances: Iterable[Acceptance], *, at: float) -> int:
        """Accept tools seen for the first time, as `Registry.accept` does; return how many."""


class TrustStore:
    """Reads and stores the owner's decisions; `clock` is Unix time in seconds."""

    def __init__(
        self,
        store: Registry,
        *,
        secrets: SecretResolver,
        environ: Mapping[str, str],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._secrets = secrets
        self._environ = environ
        self._clock = clock
        self.trust = Trust()
        self._unkept: list[Acceptance] = []
        """Tools accepted at first sight that could not be stored; they are accepted in this run."""
        self._settled: tuple[str, str | None] | None = None
        """The name and path under which earlier decisions count; None if that is not settled."""
        self._read = "", 0
        """The scope of the acceptances in memory, and the newest decision when they were read."""
        self._touched: tuple[int, frozenset[str]] | None = None
        """Servers with an acceptance that is newer than this decision; None if that is unknown."""

    def touched_since(self, number: int | None) -> frozenset[str] | None:
        """Return the servers, by their keys, with newer acceptances; None if it may be any."""
        if self._touched is None or number is None or number < self._touched[0]:
            return None
        return self._touched[1]

    def load(self, settings: Settings) -> Trust:
        """Return the trust under `settings`; reads the registry and the lock file.

        Raises:
            ConfigurationError: If `frozen` is set, and the lock file cannot be used.
        """
        if self._settled != (settings.name, settings.path):
            self._settle(settings)
        self._touched = self._read[1], frozenset()
        lock = None
        if settings.frozen:
            from discovery_engine.trust.lockfile import load_lock  # noqa: PLC0415 - few have one

            lock = load_lock(settings)
        identities: dict[ServerName, Identity] = {}
        programs: Programs = {}

        def identify(server: ServerSettings) -> Identity:
            # Not at a start: `hashlib` and `shutil` alone take 3 ms.
            from discovery_engine.upstream.identity import identity_as_configured  # noqa: PLC0415

            identity = identity_as_configured(server, self._secrets, self._environ, programs)
            identities[server.name] = identity
            return identity

        trust = Trust.under(settings, self._recalled(settings), lock=lock, identify=identify)
        if self._complete(settings, trust, identities):
            return replace(trust, decisions=self._recalled(settings))
        return trust

    def _settle(self, settings: Settings) -> None:
        try:
            settle_scope(self._store, settings, at=self._clock())
        except RegistryError as error:
            logger.warning("Decisions under the path of the file cannot be read: %s", error)
            self._settled = None
        else:
            self._settled = settings.name, settings.path

    def is_current(self) -> bool:
        """Return whether the newest decision was read; True if the registry cannot be read."""
        try:
            return self._store.newest_decision() == self.trust.decisions.number
        except RegistryError as error:
            logger.warning("Approvals and acceptances cannot be read: %s", error)
            return True

    def _complete(
        self, settings: Settings, trust: Trust, identities: Mapping[ServerName, Identity]
    ) -> bool:
        """Store approvals of what earlier ones left open; return whether there were any."""
        now, approvals = self._clock(), []
        for server in settings.servers:
            if server.name in identities and server.name not in trust.refused:
                key = known_as(server, settings.path)
                subject, earlier = identities[server.name]
                old_approvals = trust.decisions.approvals[key]
                if text := completed_approval(old_approvals, subject, earlier=earlier, at=now):
                    approvals.append(Approval(key, text))
        try:
            if approvals:
                self.approve(settings, approvals)
        except RegistryError as error:
            logger.info("Approvals cannot be completed: %s", error)
            return False
        return bool(approvals)

    @property
    def decided(self) -> int | None:
        """The number of the newest decision in force; None if some decisions could not be read."""
        decisions = self.trust.decisions
        accepted = decisions.accepted
        is_whole = not isinstance(accepted, AcceptedByServer) or accepted.is_readable
        return decisions.number if is_whole else None

    def _recalled(self, settings: Settings) -> Decisions:
        """Return the current decisions, of which only the necessary ones are read.

        If the registry fails, those in memory are returned.
        """
        scope = decision_scope(settings)
        try:
            # Read first, so that a decision made meanwhile has a higher number.
            number = self._store.newest_decision()
            has_found = any(server.is_untrusted_origin for server in settings.servers)
            lost_at = self._lost_at(settings)
            decisions = Decisions(
                self._store.approvals(scope) if has_found else {},
                self._accepted_of(settings, self._unchanged(scope, number, lost_at)),
                lost_at,
                number if self._settled else -1,  # so that it is tried again
            )
        except RegistryError as error:
            logger.warning("Approvals and acceptances cannot be read: %s", error)
            self._touched = None
            return self.trust.decisions
        self._read = scope, number
        return decisions

    def _unchanged(
        self, scope: str, number: int, lost_at: float | None
    ) -> Mapping[str, AcceptedTools]:
        """Return the acceptances in memory that have not changed in the registry, by server.

        Reading 10,000 servers again after every decision would take seconds.
        """
        decisions, (read_scope, read_number) = self.trust.decisions, self._read
        accepted = decisions.accepted
        is_older = number < read_number or lost_at != decisions.lost_at or scope != read_scope
        if is_older or not isinstance(accepted, AcceptedByServer):
            self._touched = None
            return {}
        changed = self._store.accepted_since(scope, read_number).union(accepted.unreadable())
        if self._touched:
            self._touched = self._touched[0], self._touched[1] | changed
        return accepted.without(changed)

    def _accepted_of(
        self, settings: Settings, accepted: Mapping[str, AcceptedTools]
    ) -> AcceptedByServer:
        scope = decision_scope(settings)

        def read(server: str) -> AcceptedTools:
            try:
                return self._store.accepted(scope, server)
            except RegistryError as error:
                logger.warning("Accepted tools of %s cannot be read: %s", server, error)
                return UNREADABLE

        return AcceptedByServer(read, accepted)

    def decisions(self, settings: Settings) -> Decisions:
        """Return all current decisions; those in memory if the registry fails."""
        try:
            return self._store.decisions(decision_scope(settings))
        except RegistryError as error:
            logger.warning("Approvals and acceptances cannot be read: %s", error)
            return self.trust.decisions

    def accept_listed(
        self,
        settings: Settings,
        listed: Iterable[ListedServer],
        write: FirstSightWriter | None = None,
    ) -> Trust:
        """Accept the new tools of these servers under the trust policy; return the new trust.

        If another process has decided about a tool meanwhile, its decision counts. If the registry
        fails, the tools are accepted in this run only.

        Args:
            settings: The settings in force.
            listed: The servers with their listed tools.
            write: Stores the acceptances instead of this class, for a worker.

        Raises:
            RegistryError: With `write` only, if the registry fails.
        """
        trust = self._retried(settings)
        base = trust.decisions
        by_tool = {(unkept.server, unkept.tool): unkept for unkept in self._unkept}
        for listed_server in listed:
            for acceptance in trust.first_seen(*listed_server):
                # The definition of a tool that was seen first counts.
                by_tool.setdefault((acceptance.server, acceptance.tool), acceptance)
        acceptances = [*by_tool.values()]
        if not acceptances:
            return trust
        try:
            if write:
                count = write(decision_scope(settings), acceptances, at=self._clock())
            else:
                count = self.accept(settings, acceptances, if_new=True)
            lost_at = self._lost_at(settings)
        except RegistryError as error:
            if write:
                raise
            self._unkept = acceptances
            logger.warning("Tools accepted at first sight cannot be stored: %s", error)
            accepted = self._accepted_of(settings, with_accepted(base, acceptances).accepted)
            return replace(trust, decisions=replace(base, accepted=accepted))
        self._unkept = []
        # Only these servers are read again. Decisions about others take effect in
        # `apply_decisions`.
        changed = {acceptance.server for acceptance in acceptances}
        accepted, number = self._read_again(settings, base, changed), base.number + count
        decisions = replace(base, accepted=accepted, lost_at=lost_at, number=number)
        return replace(trust, decisions=decisions)

    def _lost_at(self, settings: Settings) -> float | None:
        return self._store.lost_at(decision_scope(settings)) if self._settled else UNREAD

    def _retried(self, settings: Settings) -> Trust:
        """Return the trust, which reads again the acceptances that could not be read."""
        decisions = self.trust.decisions
        if not isinstance(decisions.accepted, AcceptedByServer) or decisions.accepted.is_readable:
            return self.trust
        accepted = self._read_again(settings, decisions, decisions.accepted.unreadable())
        return replace(self.trust, decisions=replace(decisions, accepted=accepted))

    def _read_again(
        self, settings: Settings, decisions: Decisions, servers: Collection[str]
    ) -> AcceptedByServer:
        """Return the acceptances; those of `servers` are read again on their next use."""
        accepted = decisions.accepted
        same = accepted.without(servers) if isinstance(accepted, AcceptedByServer) else {}
        return self._accepted_of(settings, same)

    def admit(self, server: ServerSettings, transport: StdioTransport | RemoteTransport) -> None:
        """Check that a server may be started or reached; may read the project's files.

        Raises:
            UntrustedServerError: If it may not.
        """
        from discovery_engine.upstream.identity import identity_of  # noqa: PLC0415 - as above

        identify = partial(identity_of, server, transport, self._secrets, self._environ)
        trust = self.trust
        admit(server, identify, trust.decisions, path=trust.path, lock=trust.lock)

    def approve(self, settings: Settings, approvals: Iterable[Approval]) -> None:
        """Store approvals of servers.

        Raises:
            RegistryError: If they cannot be stored.
        """
        self._store.approve(decision_scope(settings), approvals, at=self._clock())

    def revoke(self, settings: Settings, servers: Iterable[str]) -> int:
        """Delete the approvals of servers; return how many there were."""
        return self._store.revoke(decision_scope(settings), servers)

    def accept(
        self, settings: Settings, found: Iterable[Acceptance], *, if_new: bool = False
    ) -> int:
        """Store acceptances of tools, only of new ones with `if_new`; return how many.

        Raises:
            RegistryError: If they cannot be stored.
        """
        return self._store.accept(decision_scope(settings), found, at=self._clock(), if_new=if_new)

    def accept_as(self, settings: Settings, before: str, after: str) -> None:
        """Copy the acceptances of one server to another, by their keys in decisions.

        Raises:
            RegistryError: If they cannot be read or stored.
        """
        acceptances = self.history(settings, before) if before != after else ()
        if acceptances:
            self.accept(settings, [replace(acceptance, server=after) for acceptance in acceptances])

    def acknowledge_loss(self, settings: Settings) -> None:
        """Record that the owner allows acceptance at first sight again after a loss.

        Raises:
            RegistryError: If that cannot be stored.
        """
        self._store.acknowledge_loss(decision_scope(settings), at=self._clock())

    def history(self, settings: Settings, server: str) -> tuple[Acceptance, ...]:
        """Return all acceptances of a server's tools; `server` is its key in decisions."""
        return self._store.history(decision_scope(settings), server)
