"""Writes that a gateway makes to the database of the registry without waiting for it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.registry.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

    from discovery_engine.catalog import ServerPart
    from discovery_engine.registry.availability import Availability
    from discovery_engine.registry.outbox import Write
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.tools.model import ServerName, ToolKey
    from discovery_engine.trust.decisions import Acceptance

_MAX_WAITING_WRITES = 1000  # writes of each kind


class WaitingWrites:
    """Bookkeeping in bounded outboxes, and what was accepted at first sight.

    Each kind has an outbox of its own: a thousand uses push out no listing, and a table that
    another program has locked holds up no other kind.

    Args:
        send: As of `Outbox`.
        availability: Of the database.
        patience: The most seconds that a caller waits for its write, so that what is saved is there
            on return unless the database is slow.
    """

    def __init__(
        self, send: Callable[[Write], bool], availability: Availability, *, patience: float
    ) -> None:
        self._availability = availability
        self._patience = patience
        # Each has a thread of its own, which begins with its first write. One thread for all would
        # spend `registry.timeout` on each write of a kind whose table is locked, and the others
        # would wait for a thousand of them; a pool would need as many threads as kinds can hang,
        # and would have to keep the order of each kind besides. `send` bounds the connections.
        self._catalog = Outbox(send, availability, _MAX_WAITING_WRITES)
        self._vectors = Outbox(send, availability, _MAX_WAITING_WRITES)
        self._uses = Outbox(send, availability, _MAX_WAITING_WRITES)
        self._acceptances = Outbox(send, availability, limit=None)
        self._outboxes = (self._acceptances, self._catalog, self._vectors, self._uses)
        self._newest: dict[tuple[str, ServerName], ServerPart] = {}
        """The newest part to save of each server; parts that were queued before are not written."""
        self._turn = threading.Lock()
        """Held while what is to be saved of a server changes, and is queued."""
        self._first_seen: dict[tuple[str, str, str], Acceptance] = {}
        """By scope, server and tool."""

    def __len__(self) -> int:
        return sum(map(len, self._outboxes))

    @property
    def dropped(self) -> int:
        return sum(outbox.dropped for outbox in self._outboxes)

    @property
    def set_aside(self) -> int:
        return sum(outbox.set_aside for outbox in self._outboxes)

    @property
    def first_seen_count(self) -> int:
        """In all scopes."""
        return len(self._first_seen)

    def save_settings(self, scope: str, save: Write) -> None:
        self._catalog.add(_settings(scope), save, patience=self._patience)

    def save_parts(
        self, scope: str, parts: Sequence[ServerPart], save: Write, *, revision: int
    ) -> None:
        """Have parts saved at once with `save`; one by one if that is not possible now."""
        with self._turn:
            self._newest |= {(scope, part.server): part for part in parts}

        def save_later() -> None:
            for part in parts:
                with self._turn:
                    if self._newest.get((scope, part.server)) is part:
                        self._save_later(scope, part, revision)

        if self._availability.error is not None:
            save_later()
            return
        names = frozenset(part.server for part in parts)
        self._catalog.add(
            _Listings(scope, names, object()),
            save,
            patience=self._patience,
            after=_settings(scope),
            otherwise=save_later,
        )

    def replace_waiting(self, scope: str, part: ServerPart) -> None:
        """Save this part of a server instead of what waits."""
        with self._turn:
            self._newest[scope, part.server] = part
            self._save_later(scope, part, revision=0)

    def listed_servers(self, scope: str) -> frozenset[ServerName]:
        """The servers of which something waits to be saved."""
        keys = (key for key in self._catalog.keys if isinstance(key, _Listings))
        return frozenset().union(*(key.servers for key in keys if key.scope == scope))

    def forget(self, scope: str, servers: Collection[ServerName] | None) -> None:
        """Save nothing more of what was listed so far of these servers, of all with None."""
        for of, server in list(self._newest):
            if of == scope and (servers is None or server in servers):
                del self._newest[of, server]

    def write_vectors(self, key: Hashable, write: Write) -> None:
        self._vectors.add(key, write, patience=self._patience)

    def count_use(self, scope: str, key: ToolKey, count: Write) -> None:
        # Each use counts: none replaces another.
        self._uses.add((scope, key, object()), count, patience=self._patience)

    def accept(self, scope: str, found: Iterable[Acceptance], at: float) -> int:
        """How many of them were not accepted here before."""
        return sum(self._accept(scope, acceptance, at) for acceptance in found)

    def first_seen(self, scope: str) -> list[Acceptance]:
        return [
            acceptance for (of, *_), acceptance in list(self._first_seen.items()) if of == scope
        ]

    def resume(self) -> None:
        """The database answers again."""
        for outbox in self._outboxes:
            outbox.resume()

    def close(self, patience: float) -> None:
        """Wait so many seconds at most for what can be written now."""
        end = time.monotonic() + patience
        for outbox in self._outboxes:
            outbox.close(max(end - time.monotonic(), 0.0))

    def _save_later(self, scope: str, part: ServerPart, revision: int) -> None:
        def save(store: Registry) -> None:
            if self._newest.get((scope, part.server)) is part:
                # While this waited, another gateway may have listed the server.
                store.save_parts(scope, [part], revision=revision, keep_newer=True)

        key = _Listings(scope, frozenset([part.server]))
        self._catalog.add(key, save, after=_settings(scope))

    def _accept(self, scope: str, one: Acceptance, at: float) -> bool:
        key = scope, one.server, one.tool
        if key in self._first_seen:
            return False

        def accept(store: Registry) -> None:
            store.accept(scope, [one], at=at, if_new=True)
            del self._first_seen[key]

        self._first_seen[key] = one
        self._acceptances.add(key, accept)
        return True


class _Listings(NamedTuple):
    """The key of what is saved of servers; with a `batch` none replaces another."""

    scope: str
    servers: frozenset[ServerName]
    batch: object = None


def _settings(scope: str) -> Hashable:
    return "settings", scope
