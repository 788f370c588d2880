"""Writes that a gateway makes to the database of the registry without waiting for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from discovery_engine._util.retry_after import backoff
from discovery_engine.errors import RegistryError, RegistryTimeoutError

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.store.availability import Availability
    from discovery_engine.store.protocols import Registry
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["acceptances", "catalog", "vectors", "uses"]
Write: TypeAlias = "Callable[[Registry], object]"

_MOST = 1000  # writes of each kind that wait
_FIRST_PAUSE = 1.0  # seconds until a kind that was too slow is tried again; doubled each time
_LONGEST_PAUSE = 60.0


class _QueuedWrite(Struct, eq=False):
    write: Write
    was_tried: threading.Event = field(default_factory=threading.Event)


class _Queue(Struct, eq=False):
    """The writes of one kind, in the order in which they were added."""

    writes: dict[Hashable, _QueuedWrite] = field(default_factory=dict)
    failures: int = 0
    """How often in a row one took too long."""
    retry_at: float = 0.0
    dropped: int = 0


class WriteBuffer:
    """Writes in one thread; a later one of a key replaces an earlier one.

    A kind of which a write takes too long is set aside and tried again later, and the others go on.
    While the database does not answer, all wait.

    Args:
        send: Makes a write, and returns False if the database is not tried now; raises what the
            write does.
        availability: Of the database.
        patience: The most seconds that a caller waits for its write, so that what is saved is there
            on return unless the database is slow.
    """

    def __init__(
        self, send: Callable[[Write], bool], availability: Availability, *, patience: float
    ) -> None:
        self._send = send
        self._availability = availability
        self._patience = patience
        kinds: tuple[Kind, ...] = ("acceptances", "catalog", "vectors", "uses")
        self._queues = {kind: _Queue() for kind in kinds}
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._is_writing = False
        self._may_retry = False
        """True to try once more although the database did not answer last time."""
        self._is_closed = False
        self._unsaved: dict[tuple[str, ServerName], ServerPart] = {}
        """The newest part to save of each server; parts that were added before are not written."""
        self._first_seen: dict[tuple[str, str, str], Acceptance] = {}
        """By scope, server and tool."""

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
            if len(queue.writes) > _MOST:
                del queue.writes[next(iter(queue.writes))]
                queue.dropped += 1
            self._wake()
        if is_first:
            entry.was_tried.wait(self._patience)

    def save_parts(
        self,
        scope: str,
        parts: Sequence[ServerPart],
        *,
        revision: int,
        decided: int | None,
        keep_newer: bool,
    ) -> None:
        added = time.monotonic()

        def save(store: Registry) -> None:
            with self._changed:
                newest = [p for p in parts if self._unsaved.get((scope, p.server)) is p]
            # While they waited, another gateway may have listed the servers.
            is_late = len(newest) < len(parts) or time.monotonic() > added + self._patience
            store.save_parts(
                scope,
                newest,
                revision=revision,
                decided=None if is_late else decided,
                keep_newer=keep_newer or is_late,
            )
            with self._changed:
                for part in newest:
                    if self._unsaved.get((scope, part.server)) is part:
                        del self._unsaved[scope, part.server]

        with self._changed:
            self._unsaved |= {(scope, part.server): part for part in parts}
        self.add("catalog", (scope, parts[0].server) if len(parts) == 1 else object(), save)

    def unsaved_servers(self, scope: str) -> frozenset[ServerName]:
        with self._changed:
            return frozenset(server for of, server in self._unsaved if of == scope)

    def forget(self, scope: str, servers: Collection[ServerName] | None) -> None:
        """Save nothing more of what was listed so far of these servers, of all with None."""
        with self._changed:
            for of, server in list(self._unsaved):
                if of == scope and (servers is None or server in servers):
                    del self._unsaved[of, server]

    def accept(self, scope: str, found: Iterable[Acceptance], at: float) -> int:
        """Accept for this run, and keep it later; returns how many were not accepted so before."""
        new = {(scope, tool.server, tool.tool): tool for tool in found}
        new = {key: tool for key, tool in new.items() if key not in self._first_seen}

        def accept(store: Registry) -> None:
            store.accept(scope, list(new.values()), at=at, if_new=True)
            for key in new:
                del self._first_seen[key]

        if new:
            self._first_seen |= new
            self.add("acceptances", object(), accept)
        return len(new)

    def first_seen(self, scope: str) -> list[Acceptance]:
        return [
            acceptance for (of, *_), acceptance in list(self._first_seen.items()) if of == scope
        ]

    @property
    def first_seen_count(self) -> int:
        """In all scopes."""
        return len(self._first_seen)

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
            is_sent, error = self._try(entry.write)
            with self._changed:
                if error and self._availability.error is None:
                    self._note_failure(queue, error)
                    is_sent = not isinstance(error, RegistryTimeoutError)
                elif is_sent:
                    queue.failures = 0
                if is_sent and queue.writes.get(key) is entry:
                    del queue.writes[key]
                self._is_writing = False
                self._changed.notify_all()
                entry.was_tried.set()

    def _try(self, write: Write) -> tuple[bool, Exception | None]:
        """Return whether a write was sent, and its error; with neither, it was not tried."""
        try:
            return self._send(write), None
        except RegistryError as error:
            return False, error
        except Exception as error:  # the thread goes on with the others
            logger.exception("A write for the registry failed")
            return False, error

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
