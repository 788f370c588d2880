"""Reads the call log: pages of entries, new ones as they come, counts and losses.

It needs no engine and no event loop, and never writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from discovery_engine._util.json import JSONValue
from discovery_engine.store.call_log.log_entry import (
    EVERYTHING,
    NO_ERRORS,
    PAGE,
    SUCCESSES,
    LogEntry,
    LogFilter,
    RunningCall,
)
from discovery_engine.store.call_log.log_tables import (
    COLUMNS,
    DAMAGED,
    FILE,
    CallLogError,
    Loss,
    pragma,
    read_counts,
    read_minutes,
    read_running,
    require_version,
)
from discovery_engine.store.call_log.tally import ServerMetrics, metrics_of
from discovery_engine.store.call_log.timeline import Timeline, spans_until, timeline

_LOG_BUSY_TIMEOUT = 5.0  # seconds to wait for another process
_EXPORTED = 1_000  # entries that are read at once
_SELECT = f"SELECT entries.id, {', '.join(COLUMNS)} FROM entries WHERE "  # noqa: S608 - constants
_OF_SCOPE = "(? IS NULL OR scope = (SELECT id FROM scopes WHERE name = ?))"
_JSON = msgspec.json.Decoder()
_RUNNING = msgspec.json.Decoder(list[RunningCall])


class LogReader:
    """The log in a data folder, as one configuration sees it, or with `scope` None all of it.

    Raises:
        CallLogError: From all methods, if the file cannot be read.
    """

    def __init__(self, folder: Path, scope: str | None) -> None:
        self.path = folder / FILE
        self.damaged = folder / DAMAGED
        """The path of the damaged file, if there is one."""
        self._scope = scope

    def entries(
        self,
        chosen: LogFilter = EVERYTHING,
        *,
        limit: int = PAGE,
        before: int | None = None,
    ) -> tuple[LogEntry, ...]:
        """The newest entries, in the order in which they were written.

        Args:
            chosen: Which.
            limit: The most.
            before: Only those written before the entry with this id.
        """
        conditions, values = _conditions(chosen)
        if before is not None:
            conditions.append("entries.id < ?")
            values.append(before)
        entries = self._select(conditions, values, f"ORDER BY entries.id DESC LIMIT {limit:d}")
        return tuple(reversed(entries))

    def count(self, chosen: LogFilter = EVERYTHING) -> int:
        """Return the number of entries."""
        conditions, values = _conditions(chosen)
        where = " AND ".join([_OF_SCOPE, *conditions])
        with _opened(self.path) as db:
            if db is None:
                return 0
            query = f"SELECT count(*) FROM entries WHERE {where}"  # noqa: S608 - constants
            [count] = db.execute(query, (self._scope, self._scope, *values)).fetchone()
            return int(count)

    def after(
        self, last: int, chosen: LogFilter = EVERYTHING, *, limit: int = _EXPORTED
    ) -> list[LogEntry]:
        """The oldest entries that were written after the one with this id."""
        conditions, values = _conditions(chosen)
        return self._select(
            [*conditions, "entries.id > ?"],
            [*values, last],
            f"ORDER BY entries.id LIMIT {limit:d}",
        )

    def all(self, chosen: LogFilter = EVERYTHING) -> Iterator[LogEntry]:
        """Yield all entries, the oldest first; they are read in pages."""
        last = 0
        while page := self.after(last, chosen):
            yield from page
            last = page[-1].id

    def last_id(self) -> int:
        """The id of the newest entry of any configuration; 0 if there is none."""
        with _opened(self.path) as db:
            if db is None:
                return 0
            [last] = db.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
            return int(last)

    def metrics(
        self, server: str | None = None, shown: Collection[tuple[str, str]] | None = None
    ) -> tuple[ServerMetrics, ...]:
        """The calls of each server, or of one.

        With `shown`, only those of these tools, each with its server.
        """
        if self._scope is None:
            return ()
        with _opened(self.path) as db:
            counts = read_counts(db, self._scope, server) if db else ()
            return metrics_of(c for c in counts if shown is None or (c.server, c.tool) in shown)

    def timeline(
        self, since: float, until: float, step: float, server: str | None = None
    ) -> Timeline:
        """The calls that were counted by the minute, by spans of `step` seconds.

        Raises:
            ValueError: If there would be no span, or too many.
        """
        with _opened(self.path) as db:
            counts = read_minutes(db, self._scope, since, until, server) if db else ()
            return timeline(counts, since=since, until=until, step=step)

    def recent_timeline(
        self, now: float, seconds: float, step: float, server: str | None = None
    ) -> Timeline:
        """Return the timeline of the spans that cover the last `seconds`; see `timeline`.

        Raises:
            ValueError: As `timeline`, and if `step` is not positive.
        """
        since, until = spans_until(now, seconds=seconds, step=step)
        return self.timeline(since, until, step, server)

    def running(self, now: float) -> tuple[RunningCall, ...]:
        """The calls of all processes that run, the oldest first; `now` in Unix time in seconds."""
        with _opened(self.path) as db:
            texts = read_running(db, self._scope, now) if db else ()
            calls = [call for text in texts for call in _RUNNING.decode(text)]
            return tuple(sorted(calls, key=lambda call: call.began_at))

    def losses(self) -> list[Loss]:
        """Entries that could not be written, the newest loss last."""
        with _opened(self.path) as db:
            if db is None:
                return []
            rows = db.execute("SELECT at, entries, reason FROM losses ORDER BY rowid")
            return [Loss(at, entries, reason) for at, entries, reason in rows.fetchall()]

    def check(self) -> None:
        """Read the file, so that an error is raised if it cannot be read."""
        with _opened(self.path) as db:
            if db is not None:
                [verdict] = db.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok":
                    raise sqlite3.DatabaseError(verdict)

    def _select(
        self, conditions: Sequence[str], values: Sequence[object], order: str
    ) -> list[LogEntry]:
        query = _SELECT + " AND ".join([_OF_SCOPE, *conditions])
        with _opened(self.path) as db:
            if db is None:
                return []
            rows = db.execute(f"{query} {order}", (self._scope, self._scope, *values))
            return list(map(_entry, rows.fetchall()))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The file, to be read only; None if there is none.

    Raises:
        CallLogError: If it is damaged, or of another version.
    """
    if not path.exists():
        yield None
        return
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(
            sqlite3.connect(address, uri=True, timeout=_LOG_BUSY_TIMEOUT, isolation_level=None)
        ) as connection:
            version = pragma(connection, "user_version")
            if version == 0:  # it is just being made
                yield None
                return
            require_version(version)
            yield connection
    except (OSError, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        hint = "the next call sets a damaged file aside, and begins a new one"
        raise CallLogError(f"the call log {path} cannot be read: {error}", hint=hint) from error


def _conditions(chosen: LogFilter) -> tuple[list[str], list[object]]:
    """Return SQL conditions and the values of their parameters; no filter text is in the SQL."""
    conditions: list[str] = []
    values: list[object] = []

    def one_of(column: str, wanted: Sequence[str]) -> str:
        values.extend(wanted)
        return f"{column} IN ({', '.join('?' * len(wanted))})"

    if chosen.servers:
        conditions.append(one_of("server", chosen.servers))
    if chosen.tools:
        conditions.append(f"({one_of('tool', chosen.tools)} OR {one_of(_ADDRESS, chosen.tools)})")
    if chosen.views:
        conditions.append(one_of("view", chosen.views))
    if chosen.kinds:
        conditions.append(one_of("kind", chosen.kinds))
    if chosen.statuses:
        alternatives = [_status(status, one_of) for status in chosen.statuses]
        conditions.append(f"({' OR '.join(alternatives)})")
    for operator, time in ((">=", chosen.since), ("<=", chosen.until)):
        if time is not None:
            conditions.append(f"at {operator} ?")
            values.append(time)
    if chosen.text:
        conditions.append(f"instr({_TEXT}, lower(?)) > 0")
        values.append(msgspec.json.encode(chosen.text).decode()[1:-1])
    return conditions, values


_ADDRESS = "server || ':' || tool"
_TEXT = (
    "lower(client || ' ' || tool || ' ' || coalesce(arguments, '') || ' ' || coalesce(result, ''))"
)


def _status(status: str, one_of: Callable[[str, Sequence[str]], str]) -> str:
    match status:
        case "ok":
            return one_of("outcome", SUCCESSES)
        case "error":
            return f"NOT {one_of('outcome', NO_ERRORS)}"
    return one_of("outcome", (status,))


def _entry(row: tuple[object, ...]) -> LogEntry:
    number, *values, arguments, result = row
    fields = dict(zip(COLUMNS, values, strict=False))
    return msgspec.convert(
        fields | {"id": number, "arguments": _decoded(arguments), "result": _decoded(result)},
        LogEntry,
    )


def _decoded(text: object) -> JSONValue:
    return _JSON.decode(text) if isinstance(text, str) else None
