"""Writes that wait until a database answers again: bounded bookkeeping, which may be lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from discovery_engine.errors import RegistryError, RegistryUnavailableError

if TYPE_CHECKING:
    from discovery_engine.registry.protocols import Registry

logger = logging.getLogger(__name__)

_MOST = 1000  # writes; then the oldest are dropped


class Outbox:
    """In the order in which they were first written; a later write of one key replaces it."""

    def __init__(self, limit: int = _MOST) -> None:
        self._limit = limit
        self._writes: dict[Hashable, Callable[[Registry], object]] = {}
        self._turn = threading.Lock()
        self.dropped = 0
        """Writes that did not fit."""

    def __len__(self) -> int:
        return len(self._writes)

    def add(self, key: Hashable, write: Callable[[Registry], object]) -> None:
        with self._turn:
            self._writes[key] = write
            while len(self._writes) > self._limit:
                del self._writes[next(iter(self._writes))]
                self.dropped += 1

    def deliver(self, registry: Registry) -> None:
        """Write what waits; what was not written when this raises waits on.

        Raises:
            RegistryUnavailableError: If the registry does not answer.
        """
        while True:
            with self._turn:
                if not self._writes:
                    return
                key, write = next(iter(self._writes.items()))
            try:
                write(registry)
            except RegistryUnavailableError:
                raise
            except RegistryError as error:
                # It would be refused again and again, and hold up everything behind it.
                logger.warning("What waited for the registry cannot be written: %s", error)
                self.dropped += 1
            with self._turn:
                if self._writes.get(key) is write:
                    del self._writes[key]
