"""Database roles that see a part of a registry, and what is published for them.

The owner of the tables grants; a role has to exist already, since making one needs more rights than
the program has. What is kept apart and how stands in the step `row_policies` of the migrations.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from discovery_engine.errors import RegistryError
from discovery_engine.registry.codec import settings_from_text
from discovery_engine.registry.postgres import (
    publication_queries,
    role_rights,
    snapshot_queries,
)
from discovery_engine.registry.postgres.database_feed import notify
from discovery_engine.registry.postgres.publication_queries import RoleGrant

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.published_slices import PublishedSlices

logger = logging.getLogger(__name__)

READABLE = {
    "schema_version": ("version", "usable_from"),
    "role_principals": ("role", "scope_key", "scope", "principal"),
    "published_parts": (
        "scope_key",
        "name",
        "part",
        "names",
        "upstream_names",
        "verdicts",
        "judged",
        "sources",
        "offerings",
        "mark",
    ),
}
"""By table, the columns that a restricted role may read; of all else it has no right. Numbers that
count up, and for whom else something is visible, are not among them."""

_AT_ONCE = 500  # servers that are published in one transaction


class _Slicer(NamedTuple):
    digest: int
    slices: PublishedSlices | None


class RestrictedRoles:
    """The roles of one database, as the owner of its tables sees them."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._slicers: dict[str, _Slicer] = {}

    def publish(self, connection: Connection, scope: str) -> bool:
        """Publish servers of a scope that is locked; returns whether some are left."""
        slices = self._slices(connection, scope)
        if slices is None:
            return False
        return publication_queries.publish(connection, scope, slices.of, _AT_ONCE) == _AT_ONCE

    def publish_rest(self, scope: str) -> None:
        """Publish all servers of a scope that are not."""

        def publish(db: Connection) -> bool:
            snapshot_queries.locked_save(db, scope)
            has_roles = publication_queries.has_grant(db, scope=scope)
            return has_roles and self.publish(db, scope)

        while self._database.write(publish):
            pass

    def grants(self) -> list[RoleGrant]:
        return self._database.read(publication_queries.grants)

    def unrestricted(self) -> dict[str, str]:
        """The roles with a grant that read everything nevertheless, with the reason."""
        return self._database.read(role_rights.unrestricted)

    def grant(self, role: str, scope: str, principals: tuple[str, ...]) -> None:
        """Let a role read what these principals may see of a scope, and nothing else of it.

        Raises:
            RegistryError: If there is no such role, nothing can be kept from it, or the tables
                are another role's.
        """

        def grant(db: Connection) -> None:
            _require_owner(db)
            _require_restrictable(db, role)
            publication_queries.set_withdrawing(db, is_on=True)
            _set_rights(db, role, readable=True)
            publication_queries.note_grant(db, RoleGrant(role, scope, principals))
            notify(db)

        self._database.write(grant)
        self.publish_rest(scope)

    def revoke(self, role: str, scope: str) -> bool:
        """Let a role see nothing of a scope any more; returns whether it saw anything.

        Raises:
            RegistryError: If the tables are another role's.
        """

        def revoke(db: Connection) -> bool:
            _require_owner(db)
            snapshot_queries.locked_save(db, scope)
            was_granted = publication_queries.forget_grant(db, role, scope)
            if not publication_queries.has_grant(db, scope=scope):
                publication_queries.withdraw(db, scope)
            is_last = was_granted and not publication_queries.has_grant(db, role=role)
            if is_last and _exists(db, role):
                _set_rights(db, role, readable=False)
            notify(db)
            return was_granted

        was_granted = self._database.write(revoke)
        self._database.write(publication_queries.stop_withdrawing)
        return was_granted

    def _slices(self, connection: Connection, scope: str) -> PublishedSlices | None:
        """What cuts servers by the stored settings; None if these cannot be read."""
        # Patterns are compiled only where a role is restricted.
        from discovery_engine.registry.published_slices import PublishedSlices  # noqa: PLC0415

        known = self._slicers.get(scope)
        digest, text = publication_queries.settings_if_other(
            connection, scope, known and known.digest
        )
        if known is None or known.digest != digest:
            try:
                slices = PublishedSlices(settings_from_text(text))
            except (LookupError, TypeError, ValueError) as error:
                logger.warning(
                    "Nothing of %s is published for restricted roles: its settings are of another "
                    "version of the program (%s)",
                    scope,
                    error,
                )
                slices = None
            known = self._slicers[scope] = _Slicer(digest, slices)
        return known.slices


def _require_owner(connection: Connection) -> None:
    row = connection.execute(
        """
        SELECT current_user, pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner)
        FROM pg_class WHERE relnamespace = 'discovery'::regnamespace AND relname = 'scopes'
        """
    ).fetchone()
    if row and not row[1]:
        raise RegistryError(
            f"the role {row[0]!r} does not own the tables of the registry",
            hint=f"grant and revoke as the role {row[2]!r}, which does",
        )


def _require_restrictable(connection: Connection, role: str) -> None:
    if not _exists(connection, role):
        name = sql.Identifier(role).as_string(connection)
        raise RegistryError(
            f"the database has no role {role!r}",
            hint=f"as its administrator: `CREATE ROLE {name} LOGIN PASSWORD '...'`",
        )
    if reason := role_rights.unrestrictable(connection, [role]).get(role):
        raise RegistryError(
            f"nothing can be kept from the role {role!r}: {reason}",
            hint="name one that has neither BYPASSRLS, CREATEROLE nor REPLICATION, and is a member "
            "of no other role that has, that owns the tables, or that is predefined (`pg_...`)",
        )


def _exists(connection: Connection, role: str) -> bool:
    """Whether it was not dropped, and its rights with it."""
    query = "SELECT FROM pg_roles WHERE rolname = %s"
    return connection.execute(query, (role,)).fetchone() is not None


def _set_rights(connection: Connection, role: str, *, readable: bool) -> None:
    """Give a role the rights of `READABLE`, or none, whatever it had."""
    name = sql.Identifier(role)
    connection.execute(
        sql.SQL(
            "REVOKE ALL ON SCHEMA discovery FROM {0}; "
            "REVOKE ALL ON ALL TABLES IN SCHEMA discovery FROM {0}; "
            "REVOKE ALL ON ALL SEQUENCES IN SCHEMA discovery FROM {0}; "
            "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA discovery FROM {0}"
        ).format(name)
    )
    if not readable:
        return
    connection.execute(sql.SQL("GRANT USAGE ON SCHEMA discovery TO {}").format(name))
    for table, columns in READABLE.items():
        connection.execute(
            sql.SQL("GRANT SELECT ({}) ON discovery.{} TO {}").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)), sql.Identifier(table), name
            )
        )
