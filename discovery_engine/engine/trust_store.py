"""Keeps what the owner decided: reads it, holds servers and tools to it, and extends it.

The only decisions made here are those of the policy for tools seen for the first time. What
blocks runs in the thread of the caller, which must not be the event loop's.
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
from discovery_engine.upstream.identity import identity_as_configured, identity_of

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

logger = logging.getLogger(__name__)


class FirstSightWriter(Protocol):
    def __call__(self, scope: str, acceptances: Iterable[Acceptance], *, at: float) -> int:
        """Accept what is seen for the first time; see `Registry.accept` with `if_new`."""


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
        """What was accepted at first sight for this run, because the registry did not answer."""
        self._settled: tuple[str, str | None] | None = None
        """The name and the path whose decisions were taken over; None if they could not be."""
        self._read = "", 0
        """The scope of what is held of acceptances, and the newest decision when it was read."""

    def load(self, settings: Settings) -> Trust:
        """The trust under `settings`; reads the registry and the lock file.

        Raises:
            ConfigurationError: If only what is pinned may be used, and the lock file is no good.
        """
        if self._settled != (settings.name, settings.path):
            self._settle(settings)
        lock = None
        if settings.frozen:
            from discovery_engine.trust.lockfile import load_lock  # noqa: PLC0415 - few have one

            lock = load_lock(settings)
        identities: dict[ServerName, Identity] = {}
        identity = partial(identity_as_configured, programs={})

        def identify(server: ServerSettings) -> Identity:
            identities[server.name] = identity(server, self._secrets, self._environ)
            return identities[server.name]

        trust = Trust.under(settings, self._recalled(settings), lock=lock, identify=identify)
        if self._complete(settings, trust, identities):
            return replace(trust, decisions=self._recalled(settings))
        return trust

    def _settle(self, settings: Settings) -> None:
        try:
            settle_scope(self._store, settings, at=self._clock())
        except RegistryError as error:
            logger.warning("What was decided under the path of the file cannot be read: %s", error)
            self._settled = None
        else:
            self._settled = settings.name, settings.path

    def is_current(self) -> bool:
        """Return whether this process has read all decisions of every configuration."""
        try:
            return self._store.newest_decision() == self.trust.decisions.number
        except RegistryError as error:
            logger.warning("What was approved and accepted cannot be recalled: %s", error)
            return True

    def _complete(
        self, settings: Settings, trust: Trust, identities: Mapping[ServerName, Identity]
    ) -> bool:
        """Remember what approvals left open, as it is by now; returns whether there was any."""
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
            logger.info("What was approved stays as open as it was: %s", error)
            return False
        return bool(approvals)

    @property
    def decided(self) -> int | None:
        """The number of the newest decision that is taken into account; None if one cannot be."""
        decisions = self.trust.decisions
        accepted = decisions.accepted
        is_whole = not isinstance(accepted, AcceptedByServer) or accepted.is_readable
        return decisions.number if is_whole else None

    def _recalled(self, settings: Settings) -> Decisions:
        """Return what was decided by now; only what is needed is read.

        If the registry fails, that is what was known before.
        """
        scope = decision_scope(settings)
        try:
            # First, so that a decision that is made meanwhile has a higher number.
            number = self._store.newest_decision()
            has_found = any(server.is_untrusted_origin for server in settings.servers)
            lost_at = self._lost_at(settings)
            decisions = Decisions(
                self._store.approvals(scope) if has_found else {},
                self._accepted_of(settings, self._unchanged(scope, number, lost_at)),
                lost_at,
                number if self._settled else -1,  # to be tried again
            )
        except RegistryError as error:
            logger.warning("What was approved and accepted cannot be recalled: %s", error)
            return self.trust.decisions
        self._read = scope, number
        return decisions

    def _unchanged(
        self, scope: str, number: int, lost_at: float | None
    ) -> Mapping[str, AcceptedTools]:
        """Return what was read of servers of which nothing was accepted since, nor lost.

        To read 10,000 servers again after each decision of anybody costs seconds.
        """
        decisions, (read_scope, read_number) = self.trust.decisions, self._read
        accepted = decisions.accepted
        is_older = number < read_number or lost_at != decisions.lost_at or scope != read_scope
        if is_older or not isinstance(accepted, AcceptedByServer):
            return {}
        changed = self._store.accepted_since(scope, read_number)
        return accepted.without(changed.union(accepted.unreadable()))

    def _accepted_of(
        self, settings: Settings, accepted: Mapping[str, AcceptedTools]
    ) -> AcceptedByServer:
        scope = decision_scope(settings)

        def read(server: str) -> AcceptedTools:
            try:
                return self._store.accepted(scope, server)
            except RegistryError as error:
                logger.warning("What was accepted of %s cannot be recalled: %s", server, error)
                return UNREADABLE

        return AcceptedByServer(read, accepted)

    def decisions(self, settings: Settings) -> Decisions:
        """Return what was approved and accepted by now; what was known if the registry fails."""
        try:
            return self._store.decisions(decision_scope(settings))
        except RegistryError as error:
            logger.warning("What was approved and accepted cannot be recalled: %s", error)
            return self.trust.decisions

    def accept_listed(
        self,
        settings: Settings,
        listed: Iterable[ListedServer],
        write: FirstSightWriter | None = None,
    ) -> Trust:
        """Accept the new tools of these servers under the trust policy; returns the new trust.

        If another process has decided about them meanwhile, its decision counts. A worker gives
        its own `write`, which raises what this then raises.
        """
        trust = self._retried(settings)
        base = trust.decisions
        by_tool = {(unkept.server, unkept.tool): unkept for unkept in self._unkept}
        for listed_server in listed:
            for acceptance in trust.first_seen(*listed_server):
                # Of a tool the definition that was seen first counts.
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
            logger.warning("What was seen for the first time cannot be remembered: %s", error)
            accepted = self._accepted_of(settings, with_accepted(base, acceptances).accepted)
            return replace(trust, decisions=replace(base, accepted=accepted))
        self._unkept = []
        # These are read again. What was decided about other servers is for `apply_decisions`, which
        # has it take effect.
        changed = {acceptance.server for acceptance in acceptances}
        accepted, number = self._read_again(settings, base, changed), base.number + count
        decisions = replace(base, accepted=accepted, lost_at=lost_at, number=number)
        return replace(trust, decisions=decisions)

    def _lost_at(self, settings: Settings) -> float | None:
        return self._store.lost_at(decision_scope(settings)) if self._settled else UNREAD

    def _retried(self, settings: Settings) -> Trust:
        """The trust, with what could not be read to be read again."""
        decisions = self.trust.decisions
        if not isinstance(decisions.accepted, AcceptedByServer) or decisions.accepted.is_readable:
            return self.trust
        accepted = self._read_again(settings, decisions, decisions.accepted.unreadable())
        return replace(self.trust, decisions=replace(decisions, accepted=accepted))

    def _read_again(
        self, settings: Settings, decisions: Decisions, servers: Collection[str]
    ) -> AcceptedByServer:
        """Return what was accepted; for these servers it is read again when it is needed."""
        accepted = decisions.accepted
        same = accepted.without(servers) if isinstance(accepted, AcceptedByServer) else {}
        return self._accepted_of(settings, same)

    def admit(self, server: ServerSettings, transport: StdioTransport | RemoteTransport) -> None:
        """The gate of everything that is started or reached; it may read the project's files.

        Raises:
            UntrustedServerError: If this must not be.
        """
        identify = partial(identity_of, server, transport, self._secrets, self._environ)
        trust = self.trust
        admit(server, identify, trust.decisions, path=trust.path, lock=trust.lock)

    def approve(self, settings: Settings, approvals: Iterable[Approval]) -> None:
        """Remember the owner's word.

        Raises:
            RegistryError: If it cannot be.
        """
        self._store.approve(decision_scope(settings), approvals, at=self._clock())

    def revoke(self, settings: Settings, servers: Iterable[str]) -> int:
        """Take the owner's word back; returns how many approvals there were."""
        return self._store.revoke(decision_scope(settings), servers)

    def accept(
        self, settings: Settings, found: Iterable[Acceptance], *, if_new: bool = False
    ) -> int:
        """Remember that tools were accepted; returns how many.

        Raises:
            RegistryError: If it cannot be.
        """
        return self._store.accept(decision_scope(settings), found, at=self._clock(), if_new=if_new)

    def accept_as(self, settings: Settings, before: str, after: str) -> None:
        """Have what was accepted of a server count for another one, by their keys in decisions.

        Raises:
            RegistryError: If it cannot be remembered.
        """
        acceptances = self.history(settings, before) if before != after else ()
        if acceptances:
            self.accept(settings, [replace(acceptance, server=after) for acceptance in acceptances])

    def acknowledge_loss(self, settings: Settings) -> None:
        """Take it as the owner's word that tools may be accepted by being seen again.

        Raises:
            RegistryError: If that cannot be remembered.
        """
        self._store.acknowledge_loss(decision_scope(settings), at=self._clock())

    def history(self, settings: Settings, server: str) -> tuple[Acceptance, ...]:
        """Return what was accepted of a server; `server` is its key in decisions."""
        return self._store.history(decision_scope(settings), server)
