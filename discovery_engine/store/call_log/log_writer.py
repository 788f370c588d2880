"""Writes entries from a thread, a few times a second; a caller that adds one never waits.

The queue is bounded. What comes while it is full is dropped and counted, and the count is written
when there is room. The thread starts with the first entry.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.store.call_log.contents import GUESSING, KNOWN_ONLY, Contents
from discovery_engine.store.call_log.excerpt import Excerpt, size_of
from discovery_engine.store.call_log.log_database import LogDatabase, Retention
from discovery_engine.store.call_log.log_entry import (
    CALL_KINDS,
    DescribeRunning,
    LogEntry,
    RunningCall,
)
from discovery_engine.store.call_log.log_tables import CallLogError, Loss, Row
from discovery_engine.store.call_log.tally import Tally

logger = logging.getLogger(__name__)

_LIMITS: Mapping[str, int] = {"redacted": 2048, "full": 64 * 1024}
"""Characters of the arguments, and of the result, that are kept; none in the other modes."""
_INTERVAL = 0.5  # seconds that entries wait for others, to be written together
_MAX_WAITING_ENTRIES = 10_000  # entries that wait
_MOST_CHARACTERS = 32 * 1024 * 1024  # of arguments and answers that wait
# Entries after which the thread lets others run: a millisecond of work.
_ENTRIES_PER_GIL_RELEASE = 64
_GIL_RELEASE_TIME = 0.0003  # seconds
_RUNNING_AFTER = 1.0  # seconds for which a call has run when others first see it
_RUNNING_EVERY = 1.0  # seconds between two looks at the calls that run
_RUNNING_AGAIN = 5.0  # seconds after which they are written again, though nothing has changed
_MOST_RUNNING = 100  # calls of one process that others see
_RUNNING_LENGTH = 1_000  # characters of one of them
_PRUNING = 60.0  # seconds between two looks for entries that are too old
_STEP = 500  # entries that are deleted at once: about 5 ms
_STEP_PAUSE = 0.02  # seconds between two steps of pruning, in which other processes may write
_RETRY = 5.0  # seconds after a failure in which nothing is tried
_NAME = 200  # characters of a name that a caller gave
_WARNING_SPAN = 600.0  # seconds in which a failure is logged once
_UNKNOWN = ("", "")
_MOST_TOOLS = 2_000  # that are counted apart; the calls of further ones count together
_FURTHER = ("", "(other)")


class PendingEntry(Struct):
    """An entry that waits to be redacted and written."""

    entry: LogEntry
    contents: Contents = GUESSING
    """Redacts it."""
    arguments: JSONValue = None
    """An excerpt, as is the result."""
    result: JSONValue = None
    argument_size: int = 0
    result_size: int = 0
    texts: list[str] = []
    """All texts in both."""
    is_known: bool = True
    """True if its server and tool exist; others are counted together."""
    is_stored: bool = True
    """Otherwise it is counted by this process only."""
    weight: int = 0
    """The characters that it holds."""


class LogWriter:
    """`add` may be called from any thread; everything else happens in the writer's own.

    Args:
        database: What is written to.
        retention: Looked up before entries are deleted.
        mode: Looked up for each entry: as in `log.calls`.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        database: LogDatabase,
        retention: Callable[[], Retention],
        mode: Callable[[], str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._retention = retention
        self._mode = mode
        self._clock = clock
        self._queue: deque[PendingEntry | threading.Event] = deque()
        # Each is changed by one thread only.
        self._added = 0  # characters
        self._taken = 0  # characters
        self.dropped = 0
        """Entries that were not written, since this process began."""
        self._reported = 0
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._process = os.urandom(8).hex()
        self._running: dict[DescribeRunning, float] = {}
        """The calls that run, with the Unix time at which each began, the oldest first."""
        self._written_running = ""
        self._wrote_running_at = 0.0
        self._awake = threading.Event()
        self._hurry = threading.Event()
        self._is_closing = False
        self._failed_at: float | None = None
        self._warned_at: float | None = None
        self._reason = ""
        self._pruned_at: float | None = None
        self._unpruned = 0  # entries written since

    def record(
        self,
        entry: LogEntry,
        arguments: JSONValue,
        result: JSONValue,
        *,
        is_known: bool,
    ) -> tuple[int, int]:
        """Record an entry as `CallLog.record` does."""
        mode = self._mode()
        pending = PendingEntry(entry, is_known=is_known, is_stored=mode != "off")
        if limit := _LIMITS.get(mode):
            pending.contents = GUESSING if mode == "redacted" else KNOWN_ONLY
            excerpt = Excerpt(limit, masks=mode == "redacted")
            if arguments is not None:
                pending.arguments, pending.argument_size = excerpt.copy(arguments)
            if result is not None:
                pending.result, pending.result_size = excerpt.copy(result)
            pending.texts, pending.weight = excerpt.texts, excerpt.weight
        else:
            pending.argument_size = 0 if arguments is None else size_of(arguments)
            pending.result_size = 0 if result is None else size_of(result)
        self.add(pending)
        return pending.argument_size, pending.result_size

    def add(self, entry: PendingEntry) -> None:
        """Queue an entry, or drop it if too much waits already."""
        if len(self._queue) >= _MAX_WAITING_ENTRIES or self._added - self._taken > _MOST_CHARACTERS:
            self.dropped += 1
            return
        self._added += entry.weight
        self._queue.append(entry)
        self._wake()

    def begin(self, describe: DescribeRunning) -> None:
        """Note a running call; one that ends within a second is never described."""
        self._running[describe] = self._clock()
        self._wake()

    def end(self, describe: DescribeRunning) -> None:
        self._running.pop(describe, None)

    def tallies(self) -> dict[tuple[str, str], Tally]:
        """Return the counts of this process, by server and tool."""
        return dict(self._tallies)

    def flush(self, timeout: float) -> bool:
        """Wait until everything added so far is written, or dropped; returns whether it is."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._queue.append(done)
        self.hurry()
        return done.wait(timeout)

    def hurry(self) -> None:
        """Write what waits without waiting for others."""
        self._hurry.set()
        self._awake.set()

    def close(self, timeout: float) -> None:
        """Write what waits, for at most so many seconds, and end the thread."""
        self._is_closing = True
        self.hurry()
        if self._thread is not None:
            self._thread.join(timeout)

    def _wake(self) -> None:
        if self._thread is None:
            self._start()
        if not self._awake.is_set():
            self._awake.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                # A disk that hangs must not keep the process from exiting.
                self._thread = threading.Thread(target=self._run, name="call log", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._is_closing or self._queue:
            self._awake.wait(_RUNNING_EVERY if self._running else None)
            self._hurry.wait(_INTERVAL)
            self._awake.clear()
            self._hurry.clear()
            try:
                while self._queue:
                    self._write_batch()
                self._write_running()
                if not self._is_closing:
                    self._prune()
            except Exception:  # a defect of ours must cost the log only
                logger.exception("The call log was not written")
        self._write_running()
        self._database.close()

    def _write_batch(self) -> None:
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        pending = [item for item in batch if isinstance(item, PendingEntry)]
        try:
            self._write([entry for entry in pending if entry.is_stored], is_stored=True)
            self._write([entry for entry in pending if not entry.is_stored], is_stored=False)
        finally:
            self._taken += sum(entry.weight for entry in pending)
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()

    def _write(self, pending: list[PendingEntry], *, is_stored: bool) -> None:
        counted: dict[tuple[str, str], Tally] = {}
        rows: list[Row] = []
        for number, entry in enumerate(pending, 1):
            try:
                self._count(entry, counted)
                if is_stored:
                    rows.append(_row(entry))
            except Exception:  # a defect of ours, which must cost no other entry
                self.dropped += 1
                logger.exception("An entry of the call log was not written")
            if number % _ENTRIES_PER_GIL_RELEASE == 0:
                time.sleep(_GIL_RELEASE_TIME)
        self._add(counted)
        if rows:
            self._store(rows, counted)

    def _count(self, one: PendingEntry, counted: dict[tuple[str, str], Tally]) -> None:
        entry = one.entry
        if entry.kind not in CALL_KINDS or entry.outcome == "task":  # its end is another entry
            return
        key = _UNKNOWN
        if one.is_known:
            key = _storable(entry.server), _storable(entry.tool)
        if key not in self._tallies and len(self._tallies) >= _MOST_TOOLS:
            key = _FURTHER
        if (tally := counted.get(key)) is None:
            tally = counted[key] = Tally()
        tally.count(entry.outcome, entry.seconds, entry.queue_seconds, entry.at)

    def _add(self, counted: Mapping[tuple[str, str], Tally]) -> None:
        for key, tally in counted.items():
            if (total := self._tallies.get(key)) is None:
                total = self._tallies[key] = Tally()
            total.add(tally)

    def _store(self, rows: list[Row], counted: Mapping[tuple[str, str], Tally]) -> None:
        database, now = self._database, time.monotonic()
        if self._has_just_failed(now):
            self.dropped += len(rows)
            return
        lost = self.dropped
        try:
            database.write(rows, counted, self._losses(lost), now=self._clock())
        except CallLogError as error:
            self.dropped += len(rows)
            self._fail(error, now)
            return
        self._reported, self._failed_at, self._reason = lost, None, ""
        self._unpruned += len(rows)
        if database.file.was_damaged:
            database.file.was_damaged = False
            logger.warning("The call log was damaged; it was set aside, and a new one begun")

    def _write_running(self) -> None:
        """Write the calls that run if others do not know of them, or would take them for ended."""
        now = time.monotonic()
        calls = "" if self._is_closing else self._running_calls()
        is_old = calls and now - self._wrote_running_at >= _RUNNING_AGAIN
        if (calls == self._written_running and not is_old) or self._has_just_failed(now):
            return
        try:
            self._database.write_running(self._process, calls, now=self._clock())
        except CallLogError as error:
            self._fail(error, now)
        else:
            self._written_running, self._wrote_running_at = calls, now

    def _running_calls(self) -> str:
        """The calls that have run for a second or more, as JSON; empty if there are none."""
        mode, latest = self._mode(), self._clock() - _RUNNING_AFTER
        texts: list[str] = []
        for describe, began in self._running.copy().items() if mode != "off" else ():
            if began > latest or len(texts) == _MOST_RUNNING:
                break
            texts += _running(describe(began), mode)
        return f"[{','.join(texts)}]" if texts else ""

    def _has_just_failed(self, now: float) -> bool:
        return self._failed_at is not None and now - self._failed_at < _RETRY

    def _losses(self, dropped: int) -> list[Loss]:
        lost = dropped - self._reported
        reason = self._reason or "more was called than could be written"
        return [Loss(self._clock(), lost, reason)] if lost else []

    def _fail(self, error: CallLogError, now: float) -> None:
        if self._warned_at is None or now - self._warned_at >= _WARNING_SPAN:
            self._warned_at = now
            logger.warning("%s", error.message)
        self._failed_at, self._reason = now, error.message

    def _prune(self) -> None:
        """Delete what is too old or too much, in steps, as long as nothing else is to be done."""
        database, now = self._database, time.monotonic()
        if self._failed_at is not None or not self._unpruned:
            return
        is_due = self._pruned_at is None or now - self._pruned_at >= _PRUNING
        if not is_due and self._unpruned < _STEP:
            return
        step = max(_STEP, 2 * self._unpruned)  # more than is added meanwhile
        try:
            if self._pruned_at is None:
                database.forget_tools(now=self._clock())
            while database.prune(self._retention(), at_most=step, now=self._clock()):
                if self._hurry.wait(_STEP_PAUSE) or self._queue:
                    return  # it goes on after the next entries
            while database.shrink() and not self._hurry.wait(_STEP_PAUSE):
                pass
        except CallLogError as error:
            self._fail(error, now)
        self._pruned_at, self._unpruned = now, 0


def _running(call: RunningCall, mode: str) -> list[str]:
    form = {name: getattr(call, name) for name in call.__struct_fields__}
    if mode == "metadata":
        form |= {"arguments": None, "question": call.question and ""}
    excerpt = Excerpt(_RUNNING_LENGTH, masks=mode == "redacted")
    copy, _ = excerpt.copy(form)
    contents = GUESSING if mode == "redacted" else KNOWN_ONLY
    return [text for text in contents.encoded([copy], excerpt.texts) if text]


def _row(one: PendingEntry) -> Row:
    entry, contents = one.entry, one.contents
    server, tool = entry.server, entry.tool
    is_sized = entry.kind in CALL_KINDS
    if not one.is_known:  # they are what the caller wrote
        server, tool = contents.redact(server[:_NAME]), contents.redact(tool[:_NAME])
    return (
        entry.at,
        entry.kind,
        _storable(server),
        _storable(tool),
        entry.outcome,
        entry.seconds,
        entry.queue_seconds,
        one.argument_size if is_sized else 0,
        one.result_size if is_sized else 0,
        _storable(entry.client),
        _storable(entry.view),
        entry.by,
        entry.trace_id,
        *contents.encoded((one.arguments, one.result), one.texts),
    )


def _storable(name: str) -> str:
    """A name as SQLite takes it: without half a surrogate pair."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
