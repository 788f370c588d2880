"""A registry for one process, used where the real one cannot be opened or is switched off.

The one rule: listings may be lost at the end, but a decision of the owner is refused rather than
accepted and lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from discovery_engine.errors import RegistryError
from discovery_engine.fleet.refresh_job import RefreshTarget
from discovery_engine.registry.memory import MemoryRegistry
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.records import EffectiveDecisions
from discovery_engine.registry.server_records import RegisteredServer
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.tools.model import ServerName
from discovery_engine.trust.decisions import Acceptance, Approval


class FallbackRegistry(MemoryRegistry):
    """With `known`, the decisions of a registry that cannot be opened, those are in effect."""

    def __init__(self, reason: str, *, hint: str, known: EffectiveDecisions | None = None) -> None:
        super().__init__(known or EffectiveDecisions())
        self._reason = reason
        self._hint = hint
        self._is_stand_in = known is not None

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        if self._is_stand_in:
            message = f"what is remembered cannot be forgotten: {self._reason}"
            raise RegistryError(message, hint=self._hint)
        return super().forget(scope, servers)

    def save_requests(self, written: Iterable[WrittenRequests]) -> None:  # noqa: ARG002 - the same
        message = f"what is written for tools cannot be kept: {self._reason}"
        raise RegistryError(message, hint=self._hint)

    def save_preset(self, scope: str, preset: Preset) -> None:  # noqa: ARG002 - the same
        message = f"a preset cannot be kept: {self._reason}"
        raise RegistryError(message, hint=self._hint)

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:  # noqa: ARG002 - it never comes to that
        raise self._refusal()

    def revoke(self, scope: str, servers: Iterable[str]) -> int:  # noqa: ARG002 - the same
        raise self._refusal()

    def acknowledge_loss(self, scope: str, *, at: float) -> None:  # noqa: ARG002 - the same
        raise self._refusal()

    def save_servers(self, scope: str, servers: Iterable[RegisteredServer]) -> None:  # noqa: ARG002 - the same
        raise self._refusal()

    def delete_servers(self, scope: str, names: Iterable[str]) -> int:  # noqa: ARG002 - the same
        raise self._refusal()

    def set_switches(self, scope: str, wanted: Mapping[str, bool | None], *, at: float) -> None:  # noqa: ARG002 - the same
        raise self._refusal()

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> int:
        """Remember for this run what is seen for the first time, which its owner has not decided.

        Raises:
            RegistryError: For anything else.
        """
        if not if_new:
            raise self._refusal()
        return super().accept(scope, found, at=at, if_new=True)

    def plan_refreshes(self, scope: str, targets: Iterable[RefreshTarget]) -> int:  # noqa: ARG002 - the same
        message = f"there is no queue that workers could share: {self._reason}"
        raise RegistryError(message, hint=self._hint)

    def _refusal(self) -> RegistryError:
        return RegistryError(f"the decision cannot be kept: {self._reason}", hint=self._hint)
