"""Leases in PostgreSQL; `registry.protocols` has their contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.registry.leases import Lease
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from psycopg import Connection


def load(connection: Connection, name: str) -> Lease | None:
    query = "SELECT holder, fence, renewals FROM discovery.leases WHERE key = %s"
    row = connection.execute(query, (key_of(name),)).fetchone()
    return Lease(name, from_column(row[0]), row[1], row[2]) if row else None


def acquire(
    connection: Connection, name: str, holder: str, instead_of: Lease | None
) -> Lease | None:
    # One statement, so that of two that try at once one waits, and then finds it taken.
    known = instead_of or Lease(name, "", -1)
    row = connection.execute(
        """
        INSERT INTO discovery.leases (key, name, holder, fence, renewals)
        VALUES (%(key)s, %(name)s, %(holder)s, 1, 0)
        ON CONFLICT (key) DO UPDATE
        SET holder = excluded.holder, fence = leases.fence + 1, renewals = 0
        WHERE leases.holder = ''
            OR (leases.holder, leases.fence, leases.renewals) = (%(other)s, %(fence)s, %(renewals)s)
        RETURNING fence
        """,
        {
            "key": key_of(name),
            "name": to_column(name),
            "holder": to_column(holder),
            "other": to_column(known.holder),
            "fence": known.fence,
            "renewals": known.renewals,
        },
    ).fetchone()
    return Lease(name, holder, row[0]) if row else None


def renew(connection: Connection, lease: Lease) -> Lease | None:
    query = """
        UPDATE discovery.leases SET renewals = renewals + 1
        WHERE key = %s AND holder = %s AND fence = %s RETURNING renewals
        """
    row = connection.execute(query, _held(lease)).fetchone()
    return Lease(lease.name, lease.holder, lease.fence, row[0]) if row else None


def release(connection: Connection, lease: Lease) -> None:
    query = "UPDATE discovery.leases SET holder = '' WHERE key = %s AND holder = %s AND fence = %s"
    connection.execute(query, _held(lease))


def _held(lease: Lease) -> tuple[object, ...]:
    return key_of(lease.name), to_column(lease.holder), lease.fence
