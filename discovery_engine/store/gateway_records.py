"""State that gateways share in a database, as plain values: so a client may use any of them.

Not only gateways may read the database, so nothing in it is of use without a secret that it does
not have: the password of the database, a token, the handle of a result.

A gateway leaves requests for another one:

    asked                              the other one
      │  RelayedRequest ─────────────────► takes it, once, within `TAKING` seconds
      │  `waiting` ──────────────────────► goes on for as long as its sender waits
      ◄────────────────────────────────── its answer

Each of the two renews its interest with every `RelayTurn`; who did not for `LEASE` seconds is gone.
All times are of the database's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from msgspec import Struct, field

STATE_KEY = "DISCOVERY_STATE_KEY"
"""The variable with a secret of all gateways of a database that is used without a password."""
SHARES_NOTHING = (
    "the database is used without a password, so gateways share no secret: an unfinished call is "
    "continued where it began"
)
"""The text shown where no key can be derived."""


TokenDocuments: TypeAlias = tuple[str, ...]
"""The record of each access token, as JSON, in the order in which they were made."""


_SILENT = 60.0  # seconds in which a gateway reports three times


class GatewayReport(Struct, frozen=True):
    machine: str
    version: str
    """That of the program."""
    decided: int
    """The number of the newest decision in force there."""
    age: float
    """Seconds since it was reported."""

    @property
    def is_silent(self) -> bool:
        """Return whether it missed reports: it was killed, or does not reach the database."""
        return self.age > _SILENT


TAKING = 5.0
"""Seconds in which a request is taken, or never."""
LEASE = 15.0
"""Seconds for which the last turn of a gateway counts."""


class RelayedRequest(Struct, frozen=True):
    id: bytes
    """Random."""
    sender: str
    """The process that waits for the answer, by `PostgresGateways.instance`."""
    receiver: str
    """The process that is to answer."""
    content: bytes
    """Encrypted; the database cannot read it."""


class RelayTurn(Struct, frozen=True):
    """A gateway's report on relayed requests, at least every few seconds while it has any."""

    asked: Collection[RelayedRequest] = ()
    """Requests of this gateway that are left for others now."""
    waiting: Collection[bytes] = ()
    """Requests of this gateway for whose answers it waits."""
    over: Collection[bytes] = ()
    """Requests of this gateway for which it waits no longer: they are deleted."""
    serving: Collection[bytes] = ()
    """The requests of others that it has taken and not answered."""
    answers: Mapping[bytes, bytes] = field(default_factory=dict)
    """Answers to others, by request; encrypted."""
    room: int = 0
    """The number of requests that it takes now beside these."""


class RelayNews(Struct, frozen=True):
    """The news that a gateway finds in its turn."""

    taken: tuple[RelayedRequest, ...] = ()
    """Requests for this gateway, and for nobody else ever."""
    withdrawn: frozenset[bytes] = frozenset()
    """The requests of `RelayTurn.serving` for whose answers nobody waits any more."""
    answers: Mapping[bytes, bytes] = field(default_factory=dict)
    untaken: frozenset[bytes] = frozenset()
    """The requests of `RelayTurn.waiting` that were not taken, and never will be."""
    lost: frozenset[bytes] = frozenset()
    """The requests of `RelayTurn.waiting` that were taken by a process that is gone."""
