"""Roles of a database from which its row-level policies keep nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psycopg import Connection


def unrestrictable(connection: Connection, roles: Collection[str]) -> dict[str, str]:
    """Those of these roles that can read everything, or give themselves the right to; with why."""
    rows = connection.execute(_UNRESTRICTABLE, (list(roles),))
    return dict(rows.fetchall())


def unrestricted(connection: Connection) -> dict[str, str]:
    """As `unrestrictable`, of the roles to which a part of the registry is granted."""
    granted = connection.execute("SELECT DISTINCT role FROM discovery.role_principals")
    return unrestrictable(connection, [role for (role,) in granted])


# A member counts however it came to be one, whether or not it inherits: it may `SET ROLE`. Which
# predefined roles (`pg_...`) lead to everything, by files, programs or the statements of others, is
# another question in each version of PostgreSQL, and a restricted role needs none.
_UNRESTRICTABLE = """
    SELECT DISTINCT ON (granted.rolname) granted.rolname, CASE
        WHEN reached.oid <> granted.oid THEN 'it is a member of ' || quote_ident(reached.rolname)
        WHEN reached.rolsuper THEN 'it is a superuser'
        WHEN reached.rolbypassrls THEN 'it has BYPASSRLS'
        WHEN reached.rolcreaterole THEN 'it has CREATEROLE'
        WHEN reached.rolreplication THEN 'it has REPLICATION'
        ELSE 'it owns the tables'
    END
    FROM pg_roles AS granted
    JOIN pg_roles AS reached ON pg_has_role(granted.oid, reached.oid, 'MEMBER')
    WHERE granted.rolname = ANY(%s) AND (
        reached.rolsuper OR reached.rolbypassrls OR reached.rolcreaterole OR reached.rolreplication
        OR starts_with(reached.rolname::text, 'pg_')
        OR reached.oid IN (
            SELECT relowner FROM pg_class WHERE relnamespace = 'discovery'::regnamespace
            UNION SELECT nspowner FROM pg_namespace WHERE nspname = 'discovery'
        )
    )
    ORDER BY granted.rolname, reached.oid <> granted.oid, reached.rolname
    """
