"""What restricted roles may read, in PostgreSQL: a copy of each server for each audience.

It is written in the transaction that changes a listing or the settings. Triggers have deleted what
it was before, so whatever is not written again is shown to the owner alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine.registry.codec import PartRow, part_to_row
from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.registry.stored_snapshot import stored_parts

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.catalog import ServerPart
    from discovery_engine.registry.published_slices import Slice

Slicer: TypeAlias = "Callable[[ServerPart], Iterable[Slice]]"

_AT_ONCE = 100  # servers that are read together


class RoleGrant(Struct, frozen=True):
    """For whom a database role stands in one configuration."""

    role: str
    scope: str
    principals: tuple[str, ...]


def is_restricted(connection: Connection) -> bool:
    """Whether the role of this connection has not the rights of the owner of the tables."""
    query = """
        SELECT NOT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class
        WHERE relnamespace = 'discovery'::regnamespace AND relname = 'scopes'
        """
    row = connection.execute(query).fetchone()
    return bool(row and row[0])


def settings_if_other(connection: Connection, scope: str, known: int | None) -> tuple[int, str]:
    """The digest of a scope's settings, and their text unless the digest is the `known` one."""
    query = """
        SELECT digest, CASE WHEN digest IS DISTINCT FROM %s THEN settings ELSE '' END
        FROM (SELECT settings, hashtextextended(settings, 0) AS digest
              FROM discovery.scopes WHERE key = %s) AS stored
        """
    return connection.execute(query, (known, key_of(scope))).fetchone() or (0, "")


def publish(connection: Connection, scope: str, slicer: Slicer, limit: int) -> int:
    """Publish up to `limit` servers that are not; returns how many there were."""
    count = 0
    while count < limit:
        rows = connection.execute(_DUE, (key_of(scope), min(_AT_ONCE, limit - count))).fetchall()
        with connection.cursor() as cursor:
            cursor.executemany(_PUBLISH, [(server,) for server, *_ in rows])
            cursor.executemany(
                _SAVE,
                [
                    (server, key_of(scope), *_slice_row(one))
                    for server, *row in rows
                    for part in stored_parts(scope, [PartRow(*row)])
                    for one in slicer(part)
                ],
            )
        count += len(rows)
        if len(rows) < _AT_ONCE:
            break
    return count


def withdraw(connection: Connection, scope: str) -> None:
    """Let no restricted role see anything of a scope until it is published again."""
    connection.execute(
        """
        DELETE FROM discovery.publications USING discovery.servers, discovery.scopes
        WHERE servers.id = publications.server AND scopes.id = servers.scope AND scopes.key = %s
        """,
        (key_of(scope),),
    )


def marks(connection: Connection, scope: str) -> dict[bytes, str]:
    """The servers that this role sees, by the marks of their rows."""
    query = "SELECT mark, name FROM discovery.published_parts WHERE scope_key = %s"
    rows = connection.execute(query, (key_of(scope),))
    return {mark: from_column(name) for mark, name in rows}


def all_marks(connection: Connection) -> frozenset[bytes]:
    """Of all scopes."""
    rows = connection.execute("SELECT mark FROM discovery.published_parts")
    return frozenset(mark for (mark,) in rows)


def published(connection: Connection, scope: str, servers: Collection[str]) -> list[PartRow]:
    """What this role sees of some servers; of one there may be several rows."""
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, NULL, offerings
        FROM discovery.published_parts WHERE scope_key = %s AND name = ANY(%s)
        """
    names = [to_column(name) for name in servers]
    rows = connection.execute(query, (key_of(scope), names))
    return [PartRow(*row) for row in rows]


def own_grant(connection: Connection) -> tuple[str, ...]:
    """For whom the role of this connection stands, in any scope."""
    found = connection.execute("SELECT principal FROM discovery.role_principals").fetchall()
    return tuple(sorted({from_column(one) for (one,) in found} - {""}))


def grants(connection: Connection) -> list[RoleGrant]:
    query = """
        SELECT role, scope, array_agg(principal ORDER BY principal)
        FROM discovery.role_principals GROUP BY role, scope ORDER BY role, scope
        """
    return [
        RoleGrant(role, from_column(scope), tuple(from_column(one) for one in named if one))
        for role, scope, named in connection.execute(query)
    ]


def note_grant(connection: Connection, one: RoleGrant) -> None:
    """Let a role stand for these principals in a scope, and for no others."""
    forget_grant(connection, one.role, one.scope)
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO discovery.role_principals VALUES (%s, %s, %s, %s)",
            [
                (one.role, key_of(one.scope), to_column(one.scope), to_column(principal))
                for principal in ("", *one.principals)
            ],
        )


def forget_grant(connection: Connection, role: str, scope: str) -> bool:
    """Returns whether the role was granted the scope."""
    query = "DELETE FROM discovery.role_principals WHERE role = %s AND scope_key = %s"
    return connection.execute(query, (role, key_of(scope))).rowcount > 0


def set_withdrawing(connection: Connection, *, is_on: bool) -> None:
    """Whether triggers withdraw what is written anew; writes of others are waited for."""
    word = "ENABLE" if is_on else "DISABLE"
    # In the order in which a save uses them, so that neither waits for the other.
    for table, trigger in (("scopes", "withdraw_servers"), ("listings", "withdraw_server")):
        connection.execute(f"ALTER TABLE discovery.{table} {word} TRIGGER {trigger}")


def stop_withdrawing(connection: Connection) -> None:
    """Let writes cost as before if no role is granted anything; in a transaction of its own."""
    # First, so that what is looked at is still so when it is committed: a grant waits for it.
    tables = "discovery.scopes, discovery.listings"
    connection.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")
    query = "SELECT 1 FROM discovery.role_principals LIMIT 1"
    if connection.execute(query).fetchone() is None:
        set_withdrawing(connection, is_on=False)


def has_grant(connection: Connection, *, role: str | None = None, scope: str | None = None) -> bool:
    """Whether any role is granted a scope, or a role any scope."""
    column, value = ("role", role) if role is not None else ("scope_key", key_of(scope or ""))
    query = f"SELECT FROM discovery.role_principals WHERE {column} = %s LIMIT 1"
    return connection.execute(query, (value,)).fetchone() is not None


def _slice_row(one: Slice) -> tuple[object, ...]:
    row = part_to_row(one.part)
    columns = (
        to_column(one.part.server),
        row.part,
        row.names,
        row.upstream_names,
        row.verdicts,
        row.judged,
        row.sources,
        row.offerings,
    )
    # Of what its readers see alone: not of the audience, which names others.
    hashed = blake2b(digest_size=16)
    for value in columns:
        content = value if isinstance(value, bytes) else (value or "").encode()
        hashed.update(len(content).to_bytes(8, "big") + content)
    return json.dumps(one.audience), *columns, hashed.digest()


_DUE = """
    SELECT servers.id, part, names, upstream_names, verdicts, judged, sources, digest, offerings
    FROM discovery.servers JOIN discovery.listings ON listings.server = servers.id
    JOIN discovery.scopes ON scopes.id = servers.scope
    WHERE scopes.key = %s
        AND NOT EXISTS (SELECT FROM discovery.publications AS known WHERE known.server = servers.id)
    ORDER BY servers.id LIMIT %s
    """
_PUBLISH = "INSERT INTO discovery.publications (server) VALUES (%s)"
_SAVE = """
    INSERT INTO discovery.published_parts (server, scope_key, visible_to, name, part, names,
        upstream_names, verdicts, judged, sources, offerings, mark)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    """
