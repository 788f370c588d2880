"""Sources in SQLite: how far each was copied, and which process copies it now."""

from __future__ import annotations

import os
import platform
import sqlite3
import uuid
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from discovery_engine.diagnostics import Diagnostic
from discovery_engine.marketplace.source import SyncPoint

SCHEMA = """
CREATE TABLE sources (
    name TEXT PRIMARY KEY, entries INTEGER NOT NULL DEFAULT 0,
    cursor TEXT NOT NULL DEFAULT '', since TEXT NOT NULL DEFAULT '', etag TEXT NOT NULL DEFAULT '',
    newest TEXT NOT NULL DEFAULT '', generation INTEGER NOT NULL DEFAULT 0,
    is_complete INTEGER NOT NULL DEFAULT 0, completed_at REAL, whole_at REAL, begun_at REAL,
    attempted_at REAL, not_before REAL, problem BLOB, notes BLOB, lease TEXT, leased_until REAL
);
"""

_LEASE = 90.0  # seconds; renewed with each page, of which one takes 30 s at most


class LeaseLost(Exception):  # noqa: N818 - a signal within this package
    """Another process synchronises the source."""


class SourceRecord(Struct, frozen=True):
    """What is known of the copy of one source."""

    name: str
    point: SyncPoint = SyncPoint()
    newest: str = ""
    """The latest change that the source has dated."""
    is_complete: bool = False
    """Whether it was read to its end once."""
    completed_at: float | None = None
    """Unix time in seconds, when the copy was last known to be that of the source."""
    whole_at: float | None = None
    """When everything was read last, not only changes."""
    begun_at: float | None = None
    """When the first page of the present or last reading was read."""
    attempted_at: float | None = None
    not_before: float | None = None
    """The source asked not to be asked before."""
    problem: Diagnostic | None = None
    """What the last run failed with."""
    notes: tuple[Diagnostic, ...] = ()
    """What is wrong with entries of the copy."""
    entries: int = 0
    is_leased: bool = False


class Release(Struct, frozen=True):
    """How a synchronisation ended."""

    problem: Diagnostic | None = None
    """What it failed with."""
    notes: tuple[Diagnostic, ...] | None = None
    """What is wrong with entries; None if that is as before."""
    not_before: float | None = None
    restarts: bool = False
    """Whether the next one begins anew, for it would fail at the same place."""


def read_records(db: sqlite3.Connection, now: float) -> dict[str, SourceRecord]:
    """What is known of each source that was ever asked."""
    rows = db.execute(
        "SELECT name, entries, cursor, since, etag, newest, is_complete, completed_at, whole_at,"
        " begun_at, attempted_at, not_before, problem, notes, leased_until FROM sources"
    )
    return {row[0]: _record(row, now) for row in rows}


def acquire(db: sqlite3.Connection, source: str, holder: str, now: float) -> bool:
    """Take the lease of a source; returns whether no other process has it."""
    db.execute("INSERT OR IGNORE INTO sources (name) VALUES (?)", (source,))
    row = db.execute("SELECT lease, leased_until FROM sources WHERE name = ?", (source,)).fetchone()
    if row[0] not in (None, holder) and (row[1] or 0.0) > now and not _has_ended(row[0]):
        return False
    db.execute(
        "UPDATE sources SET lease = ?, leased_until = ?, attempted_at = ? WHERE name = ?",
        (holder, now + _LEASE, now, source),
    )
    return True


def renew(db: sqlite3.Connection, source: str, holder: str, now: float) -> None:
    """Keep the lease.

    Raises:
        LeaseLost: If another process has it.
    """
    renewed = db.execute(
        "UPDATE sources SET leased_until = ? WHERE name = ? AND lease = ?",
        (now + _LEASE, source, holder),
    )
    if not renewed.rowcount:
        raise LeaseLost(source)


def begin_pass(db: sqlite3.Connection, source: str, since: str, now: float) -> SyncPoint:
    """Begin at the first page: of everything, or of what changed since a moment."""
    db.execute(
        "UPDATE sources SET cursor = '', etag = CASE WHEN since = ? THEN etag ELSE '' END,"
        " since = ?, generation = generation + ?, begun_at = ? WHERE name = ?",
        (since, since, not since, now, source),
    )
    [etag] = db.execute("SELECT etag FROM sources WHERE name = ?", (source,)).fetchone()
    return SyncPoint("", since, etag)


def end_pass(db: sqlite3.Connection, source: str, *, is_whole: bool, now: float) -> None:
    """The last page was read."""
    db.execute(
        "UPDATE sources SET cursor = '', is_complete = 1, completed_at = ?, not_before = NULL,"
        " whole_at = CASE WHEN ? THEN ? ELSE whole_at END, problem = NULL WHERE name = ?",
        (now, is_whole, now, source),
    )


def release(db: sqlite3.Connection, source: str, holder: str, ended: Release) -> None:
    """Give the lease back; no-op if another process has it."""
    problem = msgspec.json.encode(ended.problem) if ended.problem else None
    notes = None if ended.notes is None else msgspec.json.encode(ended.notes)
    db.execute(
        "UPDATE sources SET lease = NULL, leased_until = NULL,"
        " problem = coalesce(?, problem), notes = coalesce(?, notes),"
        " not_before = coalesce(?, not_before),"
        " cursor = CASE WHEN ? THEN '' ELSE cursor END WHERE name = ? AND lease = ?",
        (problem, notes, ended.not_before, ended.restarts, source, holder),
    )


def new_holder() -> str:
    """Who holds a lease: this machine, this process, and one synchronizer of it."""
    return f"{platform.node()} {os.getpid()} {uuid.uuid4().hex}"


def _has_ended(holder: str) -> bool:
    """Whether a holder is known to be gone, so that its lease need not expire first."""
    machine, _, rest = holder.rpartition(" ")[0].rpartition(" ")
    if os.name != "posix" or machine != platform.node() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _record(row: Sequence[object], now: float) -> SourceRecord:
    (
        name,
        entries,
        cursor,
        since,
        etag,
        newest,
        is_complete,
        *times,
        problem,
        notes,
        leased_until,
    ) = row
    completed_at, whole_at, begun_at, attempted_at, not_before = times
    return msgspec.convert(
        {
            "name": name,
            "point": {"cursor": cursor, "since": since, "etag": etag},
            "newest": newest,
            "is_complete": bool(is_complete),
            "completed_at": completed_at,
            "whole_at": whole_at,
            "begun_at": begun_at,
            "attempted_at": attempted_at,
            "not_before": not_before,
            "problem": msgspec.json.decode(problem) if isinstance(problem, bytes) else None,
            "notes": msgspec.json.decode(notes) if isinstance(notes, bytes) else [],
            "entries": entries,
            "is_leased": isinstance(leased_until, float) and leased_until > now,
        },
        SourceRecord,
    )
