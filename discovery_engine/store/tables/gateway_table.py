"""Queries for what gateways share in PostgreSQL; see `postgres_gateways`."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from discovery_engine._util.version import __version__
from discovery_engine.store.gateway_records import GatewayReport
from discovery_engine.store.stored_text import from_column, key_of, to_column

if TYPE_CHECKING:
    from collections.abc import Collection

    from discovery_engine.store.statements import Connection

CHANNEL = "discovery"
RELAY_CHANNEL = "discovery_relay"
_FORGOTTEN = 600.0  # seconds after the last report of a gateway that was killed
_NOW = "extract(epoch FROM clock_timestamp())::float8"


def salt(connection: Connection) -> bytes:
    row = connection.execute("SELECT salt FROM discovery.sealing_salt").fetchone()
    return bytes(row[0]) if row else b""


def tokens(connection: Connection, scope: str) -> tuple[str, ...]:
    query = "SELECT token FROM discovery.access_tokens WHERE scope_key = %s ORDER BY id"
    return tuple(token for (token,) in connection.execute(query, (key_of(scope),)))


def token_scopes(connection: Connection) -> frozenset[str]:
    """The configurations that have tokens."""
    rows = connection.execute("SELECT DISTINCT scope FROM discovery.access_tokens")
    return frozenset(from_column(scope) for (scope,) in rows)


def tokens_mark(connection: Connection) -> object:
    """Another one after each change: a token is never changed, and a newer one has a higher id."""
    return connection.execute("SELECT count(*), max(id) FROM discovery.access_tokens").fetchone()


def lock_tokens(connection: Connection) -> None:
    """Let nobody else write any until the end of the transaction; they can be read."""
    connection.execute("LOCK TABLE discovery.access_tokens IN SHARE ROW EXCLUSIVE MODE")


def delete_tokens(connection: Connection, scope: str, gone: Collection[str]) -> None:
    query = "DELETE FROM discovery.access_tokens WHERE scope_key = %s AND token = ANY(%s)"
    connection.execute(query, (key_of(scope), list(gone)))


def add_tokens(connection: Connection, scope: str, new: Collection[str]) -> None:
    query = "INSERT INTO discovery.access_tokens (scope_key, scope, token) VALUES (%s, %s, %s)"
    for token in new:
        connection.execute(query, (key_of(scope), to_column(scope), token))


def report(connection: Connection, instance: str, scope: str, decided: int) -> None:
    query = f"""
        INSERT INTO discovery.gateways VALUES (%s, %s, %s, %s, %s, {_NOW})
        ON CONFLICT (instance) DO UPDATE SET decided = excluded.decided, seen_at = excluded.seen_at
        """  # noqa: S608 - a constant
    machine = to_column(f"{platform.node()}, process {os.getpid()}")
    values = (instance, key_of(scope), machine, __version__, decided)
    connection.execute(query, values)
    connection.execute(f"DELETE FROM discovery.gateways WHERE seen_at < {_NOW} - %s", (_FORGOTTEN,))  # noqa: S608 - as above


def withdraw_report(connection: Connection, instance: str) -> None:
    connection.execute("DELETE FROM discovery.gateways WHERE instance = %s", (instance,))


def reports(connection: Connection, scope: str) -> tuple[GatewayReport, ...]:
    query = f"""
        SELECT machine, version, decided, {_NOW} - seen_at FROM discovery.gateways
        WHERE scope_key = %s AND seen_at >= {_NOW} - %s ORDER BY machine
        """  # noqa: S608 - as above
    rows = connection.execute(query, (key_of(scope), _FORGOTTEN))
    return tuple(GatewayReport(from_column(machine), *rest) for machine, *rest in rows)


def result(connection: Connection, key: bytes) -> bytes | None:
    query = f"SELECT result FROM discovery.kept_results WHERE key = %s AND kept_until > {_NOW}"  # noqa: S608 - a constant
    row = connection.execute(query, (key,)).fetchone()
    return bytes(row[0]) if row else None


def add_result(connection: Connection, key: bytes, content: bytes, lifetime: float) -> None:
    query = f"INSERT INTO discovery.kept_results VALUES (%s, {_NOW} + %s, %s)"  # noqa: S608 - as above
    connection.execute(query, (key, lifetime, content))


def delete_results(connection: Connection, keys: Collection[bytes]) -> None:
    """Delete these results, and all whose time is over."""
    query = f"DELETE FROM discovery.kept_results WHERE key = ANY(%s) OR kept_until <= {_NOW}"  # noqa: S608 - as above
    connection.execute(query, (list(keys),))


def notify(connection: Connection) -> None:
    """Let the other gateways look for changes once this transaction is committed.

    Each role of the database may listen, so it says nothing of what has changed.
    """
    connection.execute("SELECT pg_notify(%s, '')", (CHANNEL,))


def notify_relayed(connection: Connection, instance: str) -> None:
    """Let one gateway look for what others left for it; its name is a random one."""
    connection.execute("SELECT pg_notify(%s, %s)", (RELAY_CHANNEL, instance))
