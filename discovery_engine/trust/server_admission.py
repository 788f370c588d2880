"""The one gate: whether a server may be started or reached, whatever it came from.

A server that its owner named passes. One that was found passes only as the owner saw it: the
approval is bound to what would run, not to the name that it goes by. With a lock file in force
any server must be pinned as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.errors import UntrustedServerError
from discovery_engine.trust.server_identity import (
    Identity,
    change_since,
    known_as,
    written_identity,
)

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.rules.rule import Refusal
    from discovery_engine.trust.decisions import Decisions
    from discovery_engine.trust.lockfile import Lock


class Denial(NamedTuple):
    """The reason why a server is not started."""

    reason: Refusal
    detail: str = ""
    """More of it, for the owner alone."""


def admit(
    server: ServerSettings,
    identify: Callable[[], Identity],
    decisions: Decisions,
    *,
    path: str | None = None,
    lock: Lock | None = None,
) -> None:
    """Admit a server, or raise with the reason.

    Args:
        server: As it is configured.
        identify: Its identity; only asked of a server that was found.
        decisions: What the owner approved.
        path: The configuration in use.
        lock: What is pinned, if nothing else may be used.

    Raises:
        UntrustedServerError: If it may not be started.
    """
    if refused := refusal(server, identify, decisions, path=path, lock=lock):
        raise UntrustedServerError(server.name, *refused)


def refusal(
    server: ServerSettings,
    identify: Callable[[], Identity],
    decisions: Decisions,
    *,
    path: str | None = None,
    lock: Lock | None = None,
) -> Denial | None:
    """Return why `admit` would not let a server pass; None if it would."""
    place = f"see {server.origin}" if server.origin.file else ""
    if lock is not None and not lock.pins_server(server.name, written_identity(server)):
        return Denial("unpinned", place)
    if not server.is_untrusted_origin:
        return None
    approvals = decisions.approvals.get(known_as(server, path), frozenset())
    if not approvals:
        return Denial("untrusted", place)
    now, earlier = identify()
    change = change_since(approvals, now, earlier=earlier)
    return None if change is None else Denial("altered", "; ".join(filter(None, (change, place))))
