"""Leases; `registry.protocols` has their contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.registry.leases import Lease
from discovery_engine.registry.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from discovery_engine.registry.statements import Connection


def load(connection: Connection, name: str) -> Lease | None:
    statement = "SELECT holder, fence, renewals FROM leases WHERE key = ?"
    row = connection.execute(statement, (key_of(name),)).fetchone()
    return Lease(name, from_column(row[0]), row[1], row[2]) if row else None


def acquire(
    connection: Connection, name: str, holder: str, instead_of: Lease | None
) -> Lease | None:
    # One statement, so that of two that try at once one waits, and then finds it taken.
    predecessor = instead_of or Lease(name, "", -1)
    row = connection.execute(
        """
        INSERT INTO leases (key, name, holder, fence, renewals) VALUES (?, ?, ?, 1, 0)
        ON CONFLICT (key) DO UPDATE
        SET holder = excluded.holder, fence = leases.fence + 1, renewals = 0
        WHERE leases.holder = ''
            OR (leases.holder = ? AND leases.fence = ? AND leases.renewals = ?)
        RETURNING fence
        """,
        (
            key_of(name), to_column(name), to_column(holder),
            to_column(predecessor.holder), predecessor.fence, predecessor.renewals,
        ),
    ).fetchone()  # fmt: skip
    return Lease(name, holder, row[0]) if row else None


def renew(connection: Connection, lease: Lease) -> Lease | None:
    statement = """
        UPDATE leases SET renewals = renewals + 1
        WHERE key = ? AND holder = ? AND fence = ? RETURNING renewals
        """
    row = connection.execute(statement, _held(lease)).fetchone()
    return Lease(lease.name, lease.holder, lease.fence, row[0]) if row else None


def release(connection: Connection, lease: Lease) -> None:
    statement = "UPDATE leases SET holder = '' WHERE key = ? AND holder = ? AND fence = ?"
    connection.execute(statement, _held(lease))


def _held(lease: Lease) -> tuple[object, ...]:
    return key_of(lease.name), to_column(lease.holder), lease.fence
