"""A value for each server, computed again only for servers whose live state changed.

With 1,500 servers, computing what an answer needs of all of them took 100 ms each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import StateInfo

T = TypeVar("T")


class PerServer(Struct, Generic[T], frozen=True):
    names: tuple[ServerName, ...]
    """The configured servers, in the order of names."""
    live: Mapping[ServerName, StateInfo] | None = None
    """The live states that the values were computed from; None before that."""
    values: Mapping[ServerName, T] = {}
    all: tuple[T, ...] = ()
    """The values in the order of names; the same tuple as long as no live state changes."""

    def updated(
        self, live: Mapping[ServerName, StateInfo], compute: Callable[[ServerName], T]
    ) -> PerServer[T]:
        """The values as of `live`, which has the servers used so far; only they can change."""
        now = dict(live)
        if now == self.live:
            return self
        changed = self.names if self.live is None else _changed(self.live, now, self.values)
        values = {**self.values, **{name: compute(name) for name in changed}}
        return PerServer(self.names, now, values, tuple(values.values()))


def _changed(
    before: Mapping[ServerName, StateInfo],
    now: Mapping[ServerName, StateInfo],
    configured: Mapping[ServerName, object],
) -> list[ServerName]:
    used = {**before, **now}
    return [n for n in used if n in configured and before.get(n) != now.get(n)]
