"""The call log of an engine, `engine.call_log`: it records calls, and reads the entries.

Recording makes a bounded copy of the arguments and the result, and never waits. A thread does
everything else, a few times a second.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.store.call_log.log_entry import EVERYTHING, PAGE, LogEntry, LogFilter

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.config.settings import Settings
    from discovery_engine.store.call_log.log_database import LogDatabase, Retention
    from discovery_engine.store.call_log.log_entry import DescribeRunning, ExportForm, RunningCall
    from discovery_engine.store.call_log.log_reader import LogReader
    from discovery_engine.store.call_log.log_writer import LogWriter
    from discovery_engine.store.call_log.tally import ServerMetrics, Tally
    from discovery_engine.store.call_log.timeline import Timeline

_LAST_WAIT = 2.0  # seconds to write the last entries when the engine closes
_FLUSH_WAIT = 5.0  # seconds
_POLL_INTERVAL = 0.25  # seconds between two queries for new entries


class CallLog:
    """The call log of one configuration; the engine makes it.

    Args:
        folder: The data folder.
        scope: The scope of the configuration.
        settings: Returns the settings in force.
        clock: Returns Unix time in seconds.
    """

    def __init__(
        self,
        folder: Path,
        scope: str,
        settings: Callable[[], Settings],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._place = folder, scope

    # The reader and the writer take 10 ms to import, and many engines are opened without a call.

    @cached_property
    def reader(self) -> LogReader:
        """The reader of the same entries, which blocks instead of using an event loop."""
        from discovery_engine.store.call_log.log_reader import LogReader  # noqa: PLC0415

        return LogReader(*self._place)

    def _database(self) -> LogDatabase:
        from discovery_engine.store.call_log.log_database import LogDatabase  # noqa: PLC0415

        return LogDatabase(*self._place)

    @cached_property
    def _writer(self) -> LogWriter:
        from discovery_engine.store.call_log.log_writer import LogWriter  # noqa: PLC0415

        return LogWriter(self._database(), self._retention, lambda: self._mode, clock=self._clock)

    def record(
        self,
        entry: LogEntry,
        arguments: JSONValue = None,
        result: JSONValue = None,
        *,
        is_known: bool = True,
    ) -> tuple[int, int]:
        """Queue an entry to be written; it is dropped if the queue is full.

        Returns the characters in the arguments and in the result.

        Args:
            entry: The entry without arguments and result, and without their sizes.
            arguments: The arguments as sent; the settings decide how much of them is stored.
            result: The result; the settings decide how much of it is stored.
            is_known: Whether the server and the tool exist.
        """
        return self._writer.record(entry, arguments, result, is_known=is_known)

    def begin(self, describe: DescribeRunning) -> None:
        """Note that a call runs, until `end` gets the same callable; other processes see it."""
        self._writer.begin(describe)

    def end(self, describe: DescribeRunning) -> None:
        self._writer.end(describe)

    @property
    def is_kept(self) -> bool:
        """True if entries are written; otherwise calls are only counted."""
        return self._mode != "off"

    @property
    def _mode(self) -> str:
        settings = self._settings()
        return settings.log.calls if settings.cache.enabled else "off"

    def now(self) -> float:
        """Return Unix time in seconds."""
        return self._clock()

    async def entries(
        self, chosen: LogFilter = EVERYTHING, *, limit: int = PAGE, before: int | None = None
    ) -> tuple[LogEntry, ...]:
        """Return the newest entries that match, in the order in which they were written.

        Args:
            chosen: The filter.
            limit: The most entries.
            before: The id of an entry; only those written before it are returned. None for the
                newest page.

        Raises:
            CallLogError: If the log cannot be read.
        """
        await self.flush()
        read = partial(self.reader.entries, chosen, limit=limit, before=before)
        return await anyio.to_thread.run_sync(read)

    async def count(self, chosen: LogFilter = EVERYTHING) -> int:
        """Return the number of entries that match, on all pages.

        Raises:
            CallLogError: If the log cannot be read.
        """
        await self.flush()
        return await anyio.to_thread.run_sync(self.reader.count, chosen)

    async def running(self) -> tuple[RunningCall, ...]:
        """Return the calls of all processes that have run for a second or more, the oldest first.

        Raises:
            CallLogError: If the log cannot be read.
        """
        return await anyio.to_thread.run_sync(self.reader.running, self.now())

    async def follow(
        self, chosen: LogFilter = EVERYTHING, *, after: int | None = None
    ) -> AsyncIterator[LogEntry]:
        """Yield matching entries of all processes as they are written, without end.

        Args:
            chosen: The filter.
            after: The id of an entry; those written after it come first. None for new entries only.

        Raises:
            CallLogError: If the log cannot be read.
        """
        last = await anyio.to_thread.run_sync(self.reader.last_id) if after is None else after
        while True:
            page = await anyio.to_thread.run_sync(self.reader.after, last, chosen)
            for entry in page:
                last = entry.id
                yield entry
            if not page:
                await anyio.sleep(_POLL_INTERVAL)

    async def export(self, chosen: LogFilter = EVERYTHING, *, form: ExportForm) -> str:
        """Export all matching entries as one text, in JSON Lines or CSV.

        Raises:
            CallLogError: If the log cannot be read.
        """
        # Only programs and `discovery logs --export` need it.
        from discovery_engine.store.call_log.export import exported  # noqa: PLC0415

        await self.flush()
        return await anyio.to_thread.run_sync(
            lambda: "".join(exported(self.reader.all(chosen), form))
        )

    async def clear(self) -> int:
        """Delete all entries of this configuration; return their number.

        Raises:
            CallLogError: If they cannot be deleted.
        """
        await self.flush()
        return await anyio.to_thread.run_sync(self._database().clear)

    async def metrics(self, server: str | None = None) -> tuple[ServerMetrics, ...]:
        """Return the metrics of each server, or of one, over all processes.

        Raises:
            CallLogError: If the log cannot be read.
        """
        await self.flush()
        return await anyio.to_thread.run_sync(self.reader.metrics, server)

    async def timeline(
        self, *, since: float, until: float, step: float = 60.0, server: str | None = None
    ) -> Timeline:
        """Return the counts of calls in all processes by spans of time.

        Calls are counted by the minute, and counts are kept for eight days; with `log.calls: off`
        there are none. A minute belongs to the span in which it begins.

        Args:
            since: The begin, in Unix time in seconds.
            until: The end, in Unix time in seconds.
            step: The length of a span in seconds.
            server: The only server whose calls count; None for all.

        Raises:
            CallLogError: If the log cannot be read.
            ValueError: If there would be no span, or more than 1,440.
        """
        await self.flush()
        read = partial(self.reader.timeline, since, until, step, server)
        return await anyio.to_thread.run_sync(read)

    async def recent_timeline(
        self, seconds: float = 3600.0, *, step: float = 60.0, server: str | None = None
    ) -> Timeline:
        """Return `timeline` for the last `seconds`, in spans that begin at multiples of `step`.

        Raises:
            CallLogError: If the log cannot be read.
            ValueError: If `step` is not positive, or there would be no span, or more than 1,440.
        """
        await self.flush()
        read = partial(self.reader.recent_timeline, self.now(), seconds, step, server)
        return await anyio.to_thread.run_sync(read)

    async def reset_errors(self, server: str | None = None) -> None:
        """Reset the error counts of a server, of all if None, to zero.

        Raises:
            CallLogError: If the log cannot be written.
        """
        await self.flush()
        reset = partial(self._database().reset_errors, server, now=self._clock())
        await anyio.to_thread.run_sync(reset)

    async def flush(self) -> None:
        """Wait until all entries of this process are written, for at most five seconds."""
        await anyio.to_thread.run_sync(self._writer.flush, _FLUSH_WAIT)

    def hurry(self) -> None:
        """Have queued entries written as soon as possible; return at once."""
        if "_writer" in vars(self):
            self._writer.hurry()

    def close(self) -> None:
        """Write the queued entries; block for at most two seconds."""
        if "_writer" in vars(self):
            self._writer.close(_LAST_WAIT)

    @property
    def dropped(self) -> int:
        """The number of entries of this process that were dropped."""
        return self._writer.dropped

    def tallies(self) -> dict[tuple[str, str], Tally]:
        """Return the counts of this process by server and tool; `("", "")` for unknown tools."""
        return self._writer.tallies()

    def _retention(self) -> Retention:
        from discovery_engine.store.call_log.log_database import Retention  # noqa: PLC0415 - as above

        settings = self._settings().log
        return Retention(settings.keep_days, settings.max_mib)
