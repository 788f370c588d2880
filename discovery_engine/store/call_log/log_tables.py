"""The tables of the call log, and how they are read and written within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from discovery_engine._util.sqlite_file import OtherVersionError, transaction
from discovery_engine.errors import DiscoveryError
from discovery_engine.store.call_log.log_entry import CALL_KINDS
from discovery_engine.store.call_log.tally import CountedTool, Tally

T = TypeVar("T")

FILE = "calls.db"
DAMAGED = "calls.db.damaged"
PAGE = 16 * 1024  # bytes: rows of 4 KB take two thirds of the time that they take with 4 KB
_VERSION = 1
_CHECKPOINT = 256  # pages of the write-ahead log that are copied into the file: 4 MiB
_SCHEMA = """
CREATE TABLE scopes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope INTEGER NOT NULL,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    outcome TEXT NOT NULL,
    seconds REAL NOT NULL,
    queue_seconds REAL NOT NULL,
    argument_size INTEGER NOT NULL,
    result_size INTEGER NOT NULL,
    client TEXT NOT NULL,
    view TEXT NOT NULL,
    by TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    arguments TEXT,
    result TEXT
);
CREATE TABLE tool_counts (
    scope INTEGER NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    tally TEXT NOT NULL,
    since REAL NOT NULL,
    errors_since REAL NOT NULL,
    PRIMARY KEY (scope, server, tool)
) WITHOUT ROWID;
CREATE TABLE losses (at REAL NOT NULL, entries INTEGER NOT NULL, reason TEXT NOT NULL);
"""

# Files of the first version are without it: it was added later, and older programs ignore it.
_MINUTES = """
CREATE TABLE IF NOT EXISTS minute_counts (
    at INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    server TEXT NOT NULL,
    tally TEXT NOT NULL,
    PRIMARY KEY (at, scope, server)
) WITHOUT ROWID
"""
# One row for each process with calls that have run for some time, as JSON; also added later.
_RUNNING = """
CREATE TABLE IF NOT EXISTS running_calls (
    process TEXT PRIMARY KEY,
    scope INTEGER NOT NULL,
    seen_at REAL NOT NULL,
    calls TEXT NOT NULL
) WITHOUT ROWID
"""
_GONE = 15.0  # seconds after which a process that has written nothing of its calls has ended
_MINUTE = 60  # seconds
_ALL = ""  # instead of the name of a server

COLUMNS = (
    *("at", "kind", "server", "tool", "outcome", "seconds", "queue_seconds", "argument_size"),
    *("result_size", "client", "view", "by", "trace_id", "arguments", "result"),
)
_ROW = f"({', '.join('?' * (len(COLUMNS) + 1))})"
_INSERT = f"INSERT INTO entries (scope, {', '.join(COLUMNS)}) VALUES "  # noqa: S608 - constants
_ROWS_PER_INSERT = 32  # rows of one statement
_MANY = _INSERT + ", ".join([_ROW] * _ROWS_PER_INSERT)
_ONE = _INSERT + _ROW

Row = tuple[Any, ...]
"""The values of `COLUMNS`."""


class CallLogError(DiscoveryError):
    """The call log cannot be read or written."""

    code = "CALL_LOG_ERROR"


class Loss(msgspec.Struct, frozen=True):
    """Entries that were not written."""

    at: float
    """Unix time in seconds."""
    entries: int
    reason: str


def prepare(connection: sqlite3.Connection) -> None:
    """Bring a file that was just opened to the present version; the lock is held."""
    connection.execute("PRAGMA synchronous = NORMAL")  # a crash of the system may cost the last
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}").fetchall()
    version = pragma(connection, "user_version")
    if version == 0:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = wal").fetchall()
        transaction(connection, _create)
    else:
        require_version(version)
    connection.execute(_MINUTES)
    connection.execute(_RUNNING)


def _create(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")


def require_version(version: int) -> None:
    if version != _VERSION:
        raise OtherVersionError(f"it is of another version of this program ({version})")


def scope_id(db: sqlite3.Connection, name: str) -> int:
    db.execute("INSERT OR IGNORE INTO scopes (name) VALUES (?)", (name,))
    [number] = db.execute("SELECT id FROM scopes WHERE name = ?", (name,)).fetchone()
    return int(number)


def insert(db: sqlite3.Connection, scope: int, rows: Sequence[Row]) -> None:
    """Add entries, many in one statement.

    Python's lock is released for each statement. With one for each row, a thread that writes beside
    a busy event loop waits for the lock as often, which doubled the cost of an entry.
    """
    whole = len(rows) - len(rows) % _ROWS_PER_INSERT
    for start in range(0, whole, _ROWS_PER_INSERT):
        chunk = rows[start : start + _ROWS_PER_INSERT]
        db.execute(_MANY, [value for row in chunk for value in (scope, *row)])
    for row in rows[whole:]:
        db.execute(_ONE, (scope, *row))


def add_tally(
    db: sqlite3.Connection, scope: int, server: str, tool: str, tally: Tally, now: float
) -> None:
    key = scope, server, tool
    stored_row = db.execute(
        "SELECT tally, since, errors_since FROM tool_counts"
        " WHERE scope = ? AND server = ? AND tool = ?",
        key,
    ).fetchone()
    first = tally.first_called_at or now
    before, since, errors_since = stored_row or (None, first, first)
    if before is not None:
        sum_of_both = msgspec.json.decode(before, type=Tally)
        sum_of_both.add(tally)
        tally = sum_of_both
    row = *key, encoded_tally(tally), since, errors_since
    db.execute("INSERT OR REPLACE INTO tool_counts VALUES (?, ?, ?, ?, ?, ?)", row)


def add_minutes(
    db: sqlite3.Connection, scope: int, rows: Iterable[Row], known: Collection[str]
) -> None:
    """Add the calls among these rows to the counts of their minutes: of all servers, and of each.

    Servers that are not `known` have none of their own: a caller may have made up their names.
    """
    added: dict[tuple[int, str], Tally] = {}
    for at, kind, server, _, outcome, seconds, queue_seconds, *_ in rows:
        if kind in CALL_KINDS and outcome != "task":  # its end is another entry
            for name in {_ALL, server if server in known else _ALL}:
                key = int(at) // _MINUTE * _MINUTE, name
                added.setdefault(key, Tally()).count(outcome, seconds, queue_seconds, at)
    for (minute, server), tally in added.items():
        place = minute, scope, server
        stored_row = db.execute(
            "SELECT tally FROM minute_counts WHERE at = ? AND scope = ? AND server = ?", place
        ).fetchone()
        if stored_row:
            tally.add(msgspec.json.decode(stored_row[0], type=Tally))
        row = *place, encoded_tally(tally)
        db.execute("INSERT OR REPLACE INTO minute_counts VALUES (?, ?, ?, ?)", row)


def read_minutes(
    db: sqlite3.Connection, scope: str | None, since: float, until: float, server: str | None
) -> Iterator[tuple[int, Tally]]:
    """The counts of minutes that begin within a span of time, of all servers or one."""
    if _has_table(db, "minute_counts"):
        for at, tally in db.execute(
            "SELECT at, tally FROM minute_counts WHERE at >= ? AND at < ?"
            " AND (? IS NULL OR scope = (SELECT id FROM scopes WHERE name = ?))"
            " AND server = ?",
            (since, until, scope, scope, _ALL if server is None else server),
        ):
            yield at, msgspec.json.decode(tally, type=Tally)


def replace_running(
    db: sqlite3.Connection, process: str, scope: int, calls: str, now: float
) -> None:
    """Write the running calls of a process, and delete those of processes that have ended."""
    gone = process, now - _GONE
    db.execute("DELETE FROM running_calls WHERE process = ? OR seen_at < ?", gone)
    if calls:
        db.execute("INSERT INTO running_calls VALUES (?, ?, ?, ?)", (process, scope, now, calls))


def read_running(db: sqlite3.Connection, scope: str | None, now: float) -> Iterator[str]:
    """The running calls of each process, as JSON."""
    if _has_table(db, "running_calls"):
        for (calls,) in db.execute(
            "SELECT calls FROM running_calls WHERE seen_at >= ?"
            " AND (? IS NULL OR scope = (SELECT id FROM scopes WHERE name = ?))",
            (now - _GONE, scope, scope),
        ):
            yield calls


def _has_table(db: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return db.execute(query, (name,)).fetchone() is not None


def encoded_tally(tally: Tally) -> str:
    return msgspec.json.encode(tally).decode()


def read_counts(db: sqlite3.Connection, scope: str, server: str | None = None) -> list[CountedTool]:
    """Return the counts of the tools of a configuration, or of one server of it."""
    rows = db.execute(
        "SELECT server, tool, tally, since, errors_since FROM tool_counts"
        " WHERE scope = (SELECT id FROM scopes WHERE name = ?) AND (? IS NULL OR server = ?)",
        (scope, server, server),
    )
    return [
        CountedTool(of, tool, msgspec.json.decode(tally, type=Tally), since, errors_since)
        for of, tool, tally, since, errors_since in rows.fetchall()
    ]


def pragma(db: sqlite3.Connection, name: str) -> int:
    [value] = db.execute(f"PRAGMA {name}").fetchone()
    return int(value)
