"""Writes what was planned for servers: secrets, decisions and the file, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.config.files.location import decision_scopes
from discovery_engine.config.settings import REGISTRY
from discovery_engine.errors import RegistryError
from discovery_engine.owner.approvals import approve_file, taking_over
from discovery_engine.owner.candidates import approval_of
from discovery_engine.owner.server_plans import ServerPlan, refusal

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.registry.protocols import ServerStore
    from discovery_engine.runtime.trust_store import TrustStore
    from discovery_engine.secret_store.owner_secrets import OwnerSecrets
    from discovery_engine.secrets.resolver import SecretResolver


class PlanWriter:
    """Its methods block; `clock` returns Unix time in seconds."""

    def __init__(
        self,
        store: ServerStore,
        trust: TrustStore,
        *,
        secrets: SecretResolver,
        environ: Mapping[str, str],
        data: Path,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._trust = trust
        self._secrets = secrets
        self._environ = environ
        self._data = data
        self._clock = clock

    def write(self, plans: Sequence[ServerPlan], settings: Settings, secrets: OwnerSecrets) -> None:
        """Carry plans out. What makes a server start comes last: ended before, none is in force.

        Raises:
            ConfigurationError: If the file has changed since, or cannot be written.
            RegistryError, SecretStoreError: If something cannot be kept.
        """
        values = {name: value for plan in plans for name, value in plan.secrets.items()}
        with secrets.storing(values) if values else nullcontext():
            self._write(plans, settings)

    def _write(self, plans: Sequence[ServerPlan], settings: Settings) -> None:
        scope, *others = decision_scopes(settings.path, settings.name)
        self._require_new(plans, scope)
        if dropped := [plan.dropped for plan in plans if plan.dropped]:
            for decision_scope in (scope, *others):
                self._store.delete_servers(decision_scope, dropped)
            self._trust.revoke(settings, [f"{REGISTRY}:{name}" for name in dropped])
        if switches := {key: on for plan in plans for key, on in plan.switches.items()}:
            self._store.set_switches(scope, switches, at=self._clock())
            for decision_scope in others:  # where they were kept before the file had a name
                self._store.set_switches(decision_scope, dict.fromkeys(switches), at=self._clock())
        for plan in plans:
            if plan.edit:
                originals = [plan.original] if plan.original else []
                at = self._clock()
                with taking_over(self._trust, self._store, settings, originals, at=at):
                    plan.edit.apply()
            if plan.edit and (plan.original or plan.verb in ("add", "update")):
                self._approve_in_file(settings, plan.edit.path, plan.name)
        if saved := [plan.saved for plan in plans if plan.saved]:
            self._approve(settings, [plan.server for plan in plans if plan.saved and plan.server])
            self._store.save_servers(scope, saved)

    def _require_new(self, plans: Sequence[ServerPlan], scope: str) -> None:
        """Check that no server of these names was registered since it was planned."""
        new = {plan.saved.name for plan in plans if plan.saved and plan.verb == "add"}
        names = {server.name for server in self._store.registered_servers(scope)} if new else set()
        for name in sorted(new & names):
            message = f"{name!r} was registered in the meantime"
            raise refusal("the registry", message, "plan it again")

    def _approve(self, settings: Settings, servers: Iterable[ServerSettings]) -> None:
        if not _waits_for_overrides(settings):
            approval = partial(approval_of, at=self._clock(), programs={})
            approvals = [
                approval(server, settings, self._secrets, self._environ) for server in servers
            ]
            self._trust.approve(settings, approvals)

    def _approve_in_file(self, settings: Settings, path: Path, name: str) -> None:
        """Approve it also for when the file is discovered, not named."""
        if _waits_for_overrides(settings):
            return
        is_needed = settings.is_untrusted_origin or settings.path is None
        with nullcontext() if is_needed else suppress(RegistryError):
            at = self._clock()
            approve_file(path, only=[name], environ=self._environ, data_dir=self._data, at=at)


def _waits_for_overrides(settings: Settings) -> bool:
    """Return whether others wrote tool overrides; an approval covers them, but none was shown."""
    return settings.is_untrusted_origin and bool(settings.overrides)
