"""What a gateway could not write yet: it waits until the database of the registry answers again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from discovery_engine.registry.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from discovery_engine.catalog import ServerPart
    from discovery_engine.registry.protocols import Registry
    from discovery_engine.tools.model import ToolKey
    from discovery_engine.trust.decisions import Acceptance


class WaitingWrites:
    """Bookkeeping in bounded outboxes, and what was accepted at first sight meanwhile."""

    def __init__(self) -> None:
        self._bookkeeping = Outbox()
        self._uses = Outbox()  # of its own, so that a thousand calls push out no listing
        self._first_seen: dict[tuple[str, str, str], tuple[Acceptance, float]] = {}
        """By scope, server and tool, with the time; these are never dropped."""
        self._turn = threading.Lock()

    def __len__(self) -> int:
        return len(self._bookkeeping) + len(self._uses) + len(self._first_seen)

    @property
    def dropped(self) -> int:
        return self._bookkeeping.dropped + self._uses.dropped

    @property
    def has_bookkeeping(self) -> bool:
        return len(self._bookkeeping) > 0

    @property
    def first_seen_count(self) -> int:
        """In all scopes."""
        return len(self._first_seen)

    def add(self, key: Hashable, write: Callable[[Registry], object]) -> None:
        """Bookkeeping; a later write of the same key replaces this one."""
        self._bookkeeping.add(key, write)

    def add_part(self, scope: str, part: ServerPart, revision: int) -> None:
        def save(store: Registry) -> None:
            # While this waited, another gateway may have listed the server.
            store.save_parts(scope, [part], revision=revision, keep_newer=True)

        self.add(("part", scope, part.server), save)

    def add_use(self, scope: str, key: ToolKey, count: Callable[[Registry], object]) -> None:
        self._uses.add((scope, key, object()), count)  # each use counts: none replaces another

    def accept(self, scope: str, found: Iterable[Acceptance], at: float) -> int:
        """How many of them were not accepted here before."""
        count = len(self._first_seen)
        for one in found:
            self._first_seen.setdefault((scope, one.server, one.tool), (one, at))
        return len(self._first_seen) - count

    def first_seen(self, scope: str) -> list[Acceptance]:
        return [one for (of, *_), (one, _) in list(self._first_seen.items()) if of == scope]

    def deliver(self, registry: Registry) -> None:
        """Write what waits; what was not written when this raises waits on.

        Raises:
            RegistryError: If the registry does not answer.
        """
        with self._turn:
            for key, (one, at) in list(self._first_seen.items()):
                registry.accept(key[0], [one], at=at, if_new=True)
                del self._first_seen[key]
            self._bookkeeping.deliver(registry)
            self._uses.deliver(registry)
