"""Writes for a database in a background thread, so that callers do not wait for a slow one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from discovery_engine.errors import RegistryError, RegistryTimeoutError

if TYPE_CHECKING:
    from discovery_engine.registry.availability import Availability
    from discovery_engine.registry.protocols import Registry

logger = logging.getLogger(__name__)

Write: TypeAlias = "Callable[[Registry], object]"

_FIRST_PAUSE = 1.0  # seconds until a write that failed is tried again; twice as many each time
_LONGEST_PAUSE = 60.0


class _QueuedWrite(Struct, eq=False):
    key: Hashable
    write: Write
    after: Hashable
    otherwise: Callable[[], None] | None
    failures: int = 0
    retry_at: float = 0.0
    was_tried: threading.Event = field(default_factory=threading.Event)


class Outbox:
    """In the order in which they were first added; a later write of one key replaces it.

    A write that takes too long is set aside and tried again later, and the others go on. While the
    database does not answer, all wait.

    Args:
        send: Makes a write, and returns False if the database is not tried now; raises what the
            write does.
        availability: Of the database.
        limit: The most writes; then the oldest are dropped. Without a limit none is dropped: one
            that is refused is set aside, too.
    """

    def __init__(
        self, send: Callable[[Write], bool], availability: Availability, limit: int | None
    ) -> None:
        self._send = send
        self._availability = availability
        self._limit = limit
        self._entries: dict[Hashable, _QueuedWrite] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._current: _QueuedWrite | None = None
        self._may_retry = False
        """True to try once more although the database did not answer last time."""
        self._is_closed = False
        self.dropped = 0
        """Writes that did not fit, or were refused."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def keys(self) -> list[Hashable]:
        with self._changed:
            return [*self._entries]

    @property
    def set_aside(self) -> int:
        with self._changed:
            return sum(entry.failures > 0 for entry in self._entries.values())

    def add(
        self,
        key: Hashable,
        write: Write,
        *,
        patience: float = 0.0,
        after: Hashable = None,
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Write this soon.

        Args:
            key: Of what is written.
            write: Called in another thread.
            patience: The most seconds to wait until it was tried, if nothing was before it.
            after: The key of a write that has to be made before.
            otherwise: What to do instead, if it is not begun within `patience`, or fails.
        """
        entry = _QueuedWrite(key, write, after, otherwise)
        with self._changed:
            is_first = not self._entries
            self._entries[key] = entry
            while self._limit is not None and len(self._entries) > self._limit:
                del self._entries[next(iter(self._entries))]
                self.dropped += 1
            self._wake()
        if (is_first or otherwise) and not entry.was_tried.wait(patience):
            self._withdraw(entry)

    def resume(self) -> None:
        """The database answers again."""
        with self._changed:
            self._changed.notify_all()

    def close(self, patience: float) -> None:
        """Wait so many seconds at most for what can be written now; the rest is not written."""
        with self._changed:
            if self._entries:
                self._wake()
            self._changed.wait_for(lambda: not (self._current or self._due()), patience)
            self._is_closed = True
            self._changed.notify_all()
        if self._entries:
            logger.info("Writes that the registry does not have: %d", len(self._entries))

    def _wake(self) -> None:
        self._may_retry = True
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="registry-outbox", daemon=True)
            self._thread.start()

    def _withdraw(self, entry: _QueuedWrite) -> None:
        """Do something else instead of what was not begun."""
        with self._changed:
            is_begun = entry is self._current or self._entries.get(entry.key) is not entry
            if entry.otherwise is None or is_begun:
                return
            self._remove(entry)
        entry.otherwise()

    def _run(self) -> None:
        while entry := self._next():
            is_sent, error = self._try(entry)
            if not is_sent and entry.otherwise:
                entry.otherwise()
            with self._changed:
                if is_sent or entry.otherwise:
                    self._remove(entry)
                elif error and self._availability.error is None:
                    self._note_failure(entry, error)
                self._current = None
                self._changed.notify_all()
                entry.was_tried.set()

    def _try(self, entry: _QueuedWrite) -> tuple[bool, Exception | None]:
        """Return whether a write was sent, and its error; with neither, it was not tried."""
        try:
            return self._send(entry.write), None
        except RegistryError as error:
            return False, error
        except Exception as error:  # the thread goes on with the others
            logger.exception("A write for the registry failed")
            return False, error

    def _next(self) -> _QueuedWrite | None:
        """Wait for the next that is due; None once this is closed."""
        with self._changed:
            while not self._is_closed:
                if entry := self._due():
                    self._may_retry, self._current = False, entry
                    return entry
                now = time.monotonic()
                later = (write.retry_at - now for write in self._entries.values())
                self._changed.wait(min((pause for pause in later if pause > 0), default=None))
            return None

    def _due(self) -> _QueuedWrite | None:
        if self._availability.error is not None and not self._may_retry:
            return None
        now = time.monotonic()
        return next(
            (
                entry
                for entry in self._entries.values()
                if entry.retry_at <= now and entry.after not in self._entries
            ),
            None,
        )

    def _note_failure(self, entry: _QueuedWrite, error: Exception) -> None:
        """Set a write aside that was too slow; one that was refused would be again and again."""
        if self._limit is not None and not isinstance(error, RegistryTimeoutError):
            logger.warning("What waited for the registry cannot be written: %s", error)
            self._remove(entry)
            self.dropped += 1
            return
        if not any(write.failures for write in self._entries.values()):
            logger.warning("A write for the registry is tried again later: %s", error)
        entry.retry_at = time.monotonic() + min(_FIRST_PAUSE * 2**entry.failures, _LONGEST_PAUSE)
        entry.failures += 1

    def _remove(self, entry: _QueuedWrite) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
