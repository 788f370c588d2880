"""Leases in SQLite; `registry.protocols` has their contract."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from discovery_engine.registry.leases import Lease
from discovery_engine.registry.sqlite.encoding import as_text, from_column


def load(connection: sqlite3.Connection, name: str) -> Lease | None:
    query = "SELECT holder, fence, renewals FROM leases WHERE name = ?"
    row = connection.execute(query, (as_text(name),)).fetchone()
    if row is None:
        return None
    holder, fence, renewals = row
    return Lease(name, from_column(holder), fence, renewals)


def acquire(
    connection: sqlite3.Connection, name: str, holder: str, instead_of: Lease | None
) -> Lease | None:
    known = load(connection, name)
    if known is not None and not known.is_free and known != instead_of:
        return None
    acquired = Lease(name, holder, known.fence + 1 if known else 1)
    _save(connection, acquired)
    return acquired


def renew(connection: sqlite3.Connection, lease: Lease) -> Lease | None:
    if not _is_held(connection, lease):
        return None
    renewed = replace(lease, renewals=lease.renewals + 1)
    _save(connection, renewed)
    return renewed


def release(connection: sqlite3.Connection, lease: Lease) -> None:
    if _is_held(connection, lease):
        _save(connection, replace(lease, holder=""))


def _is_held(connection: sqlite3.Connection, lease: Lease) -> bool:
    known = load(connection, lease.name)
    return known is not None and (known.holder, known.fence) == (lease.holder, lease.fence)


def _save(connection: sqlite3.Connection, lease: Lease) -> None:
    row = as_text(lease.name), as_text(lease.holder), lease.fence, lease.renewals
    connection.execute(
        "INSERT OR REPLACE INTO leases (name, holder, fence, renewals) VALUES (?, ?, ?, ?)", row
    )
