"""How every server fares, with all that a person needs to mend it.

Folded from what is remembered (`View`) and from how its upstream fares now (`Condition`), if it
was asked for anything by this process. The status is the view's own: one word everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.catalog import DroppedTool, ServerPart
from discovery_engine.runtime.gateways import Observation, concerning, with_observations
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import Condition
from discovery_engine.view.status import ServerStatus, ServerSummary
from discovery_engine.view.view import View

SICK = frozenset(
    {
        ServerStatus.DEGRADED,
        ServerStatus.FAILING,
        ServerStatus.CRASH_LOOPING,
        ServerStatus.NEEDS_CONFIG,
        ServerStatus.NEEDS_AUTH,
        ServerStatus.UNTRUSTED,
    }
)
"""The statuses that somebody has to do something about."""


class ServerHealth(Struct, frozen=True):
    """How one server fares, with all that a person needs to mend it."""

    summary: ServerSummary
    since: float | None = None
    """Unix time in seconds from which on it has had its status; None if nobody saw it begin."""
    code: str = ""
    """The `code` of the error that its tools could not be listed for."""
    dropped: tuple[DroppedTool, ...] = ()
    """Tools that it lists and that cannot be used."""
    now: Condition | None = None
    """How its upstream fares; None if this process asked it for nothing."""
    next_try: float | None = None
    """Unix time in seconds before which it is not tried again unbidden."""
    gateways: tuple[Observation, ...] = ()
    """What the running gateways say of it, the worst first."""

    @property
    def server(self) -> ServerName:
        return self.summary.name

    @property
    def status(self) -> ServerStatus:
        return self.summary.status

    @property
    def is_well(self) -> bool:
        return self.status not in SICK


def health(
    view: View,
    conditions: Mapping[ServerName, Condition] = MappingProxyType({}),
    *,
    now: float,
    observed: Mapping[ServerName, Sequence[Observation]] = MappingProxyType({}),
) -> tuple[ServerHealth, ...]:
    """Every configured server, in the order of names.

    Args:
        view: What is remembered, and seen by this process.
        conditions: How their upstreams fare in this process.
        now: Unix time in seconds.
        observed: What the running gateways say of them; the worst counts.
    """
    view = with_observations(view, observed)
    found = (_of(one, view, conditions.get(one.name), now) for one in view.servers())
    return tuple(
        _observed(one, concerning(view, one.server, observed)) if observed else one for one in found
    )


def _observed(server: ServerHealth, said: Sequence[Observation]) -> ServerHealth:
    if not said:
        return server
    worst = said[0]
    is_its_word = worst.status == server.status
    return replace(
        server,
        gateways=tuple(said),
        since=worst.since if is_its_word and worst.since is not None else server.since,
        next_try=server.next_try or worst.next_try,
    )


def sick(servers: Iterable[ServerHealth]) -> list[ServerHealth]:
    return [server for server in servers if not server.is_well]


def _of(
    summary: ServerSummary, view: View, condition: Condition | None, now: float
) -> ServerHealth:
    part = view.catalog.part(summary.name)
    next_try = condition.next_try if condition else None
    return ServerHealth(
        summary,
        since=_since(summary.status, part, condition, now),
        code=part.failure.code if part.failure else "",
        dropped=part.dropped,
        now=condition,
        next_try=None if next_try is None else now + next_try,
    )


def _since(
    status: ServerStatus, part: ServerPart, condition: Condition | None, now: float
) -> float | None:
    begun = []
    if condition and condition.state.value == status.value:
        begun.append(now - condition.seconds)
    if part.failure and status in SICK and status is not ServerStatus.UNTRUSTED:
        begun.append(part.failure.since)
    if status is ServerStatus.IDLE and not begun:
        return part.listed_at
    return min(begun, default=None)
