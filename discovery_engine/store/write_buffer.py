"""Writes that a gateway makes to the database of the registry without waiting for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from discovery_engine._util.retry_after import backoff
from discovery_engine.errors import RegistryError, RegistryTimeoutError

if TYPE_CHECKING:
    from discovery_engine.store.availability import Availability

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["catalog", "vectors", "uses"]
Write: TypeAlias = Callable[[], object]

_MAX_PENDING_WRITES = 1000  # writes of each kind that wait
_FIRST_PAUSE = 1.0  # seconds until a kind that was too slow is tried again; doubled each time
_LONGEST_PAUSE = 60.0


class _QueuedWrite(Struct, eq=False):
    write: Write
    was_tried: threading.Event = field(default_factory=threading.Event)


class _Queue(Struct, eq=False):
    """The writes of one kind, in the order in which they were added."""

    writes: dict[Hashable, _QueuedWrite] = field(default_factory=dict)
    failures: int = 0
    """The number of writes in a row that took too long."""
    retry_at: float = 0.0
    dropped: int = 0


class WriteBuffer:
    """Writes in one thread; a later one of a key replaces an earlier one.

    A kind of which a write takes too long is set aside and tried again later, and the others go on.
    While the database does not answer, all wait.

    Args:
        availability: Of the database.
        patience: The most seconds that a caller waits for its write, so that what is saved is there
            on return unless the database is slow.
    """

    def __init__(self, availability: Availability, *, patience: float) -> None:
        self._availability = availability
        self.patience = patience
        self._queues: dict[Kind, _Queue] = {
            "catalog": _Queue(),
            "vectors": _Queue(),
            "uses": _Queue(),
        }
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._may_retry = False
        """True to try once more although the database did not answer last time."""
        self._is_closed = False

    def __len__(self) -> int:
        return sum(len(queue.writes) for queue in self._queues.values())

    @property
    def dropped(self) -> int:
        """Writes that did not fit, or were refused."""
        return sum(queue.dropped for queue in self._queues.values())

    @property
    def set_aside(self) -> int:
        return sum(len(queue.writes) for queue in self._queues.values() if queue.failures)

    def add(self, kind: Kind, key: Hashable, write: Write) -> None:
        """Write this soon; `write` is called in another thread."""
        entry = _QueuedWrite(write)
        with self._changed:
            queue = self._queues[kind]
            is_first = not queue.writes
            queue.writes[key] = entry
            if len(queue.writes) > _MAX_PENDING_WRITES:
                del queue.writes[next(iter(queue.writes))]
                queue.dropped += 1
            self._wake()
        if is_first:
            entry.was_tried.wait(self.patience)

    def resume(self) -> None:
        """The database answers again."""
        with self._changed:
            self._changed.notify_all()

    def close(self, patience: float) -> None:
        """Wait so many seconds at most for what can be written now; the rest is not written."""
        with self._changed:
            if len(self):
                self._wake()
            self._changed.wait_for(lambda: not (self._is_writing or any(self._due())), patience)
            self._is_closed = True
            self._changed.notify_all()
        if len(self):
            logger.info("Writes that the registry does not have: %d", len(self))

    def _wake(self) -> None:
        self._may_retry = True
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="registry-writes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while queue := self._next():
            key, entry = next(iter(queue.writes.items()))
            error = self._try(entry.write)
            with self._changed:
                is_over = error is None
                if error is None:
                    queue.failures = 0
                elif self._availability.error is None:
                    self._note_failure(queue, error)
                    is_over = not isinstance(error, RegistryTimeoutError)
                if is_over and queue.writes.get(key) is entry:
                    del queue.writes[key]
                self._is_writing = False
                self._changed.notify_all()
                entry.was_tried.set()

    def _try(self, write: Write) -> Exception | None:
        try:
            write()
        except RegistryError as error:
            return error
        except Exception as error:  # the thread goes on with the others
            logger.exception("A write for the registry failed")
            return error
        return None

    def _next(self) -> _Queue | None:
        """Wait for writes that are due; None once this is closed."""
        with self._changed:
            while not self._is_closed:
                if queue := next(self._due(), None):
                    self._may_retry, self._is_writing = False, True
                    return queue
                now = time.monotonic()
                pauses = [queue.retry_at - now for queue in self._queues.values() if queue.writes]
                self._changed.wait(min((pause for pause in pauses if pause > 0), default=None))
            return None

    def _due(self) -> Iterator[_Queue]:
        if self._availability.error is None or self._may_retry:
            now = time.monotonic()
            for queue in self._queues.values():
                if queue.writes and queue.retry_at <= now:
                    yield queue

    def _note_failure(self, queue: _Queue, error: Exception) -> None:
        """Set a kind aside that is too slow; a write that was refused would be again and again."""
        if not isinstance(error, RegistryTimeoutError):
            logger.warning("What waited for the registry cannot be written: %s", error)
            queue.dropped += 1
            return
        if not any(other.failures for other in self._queues.values()):
            logger.warning("A write for the registry is tried again later: %s", error)
        queue.failures += 1
        pause = backoff(queue.failures, _FIRST_PAUSE, _LONGEST_PAUSE)
        queue.retry_at = time.monotonic() + pause
