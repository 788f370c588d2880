"""The state of a database, for the people who look after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.config.files.location import is_name
from discovery_engine.store.gateway_records import SHARES_NOTHING, STATE_KEY
from discovery_engine.store.postgres.search_vectors import is_recent
from discovery_engine.store.tables import decision_table

if TYPE_CHECKING:
    from discovery_engine.store.postgres.postgres_database import PostgresDatabase
    from discovery_engine.store.postgres.timed_connection import TimedConnection

_SHORTEST_PASSWORD = 8  # characters


class DatabaseState(Struct, frozen=True):
    server: str
    """The version of PostgreSQL."""
    version: int
    """The step of the migrations that the tables are at."""
    is_read_only: bool
    is_encrypted: bool
    """True if the connection uses TLS."""
    is_local: bool
    """True if the database is on this machine."""
    is_superuser: bool
    pgvector: str
    """The version that is installed in the database; empty if none is."""
    can_have_pgvector: bool
    """True if the server has pgvector, so that `CREATE EXTENSION vector` installs it."""
    configurations: int
    decisions: int
    vectors: int
    size: int
    """The size of the tables, in bytes."""
    paths: tuple[str, ...] = ()
    """The configurations without a name under whose paths decisions are kept."""
    has_secret: bool = True
    """True if gateways can derive a key that they share."""
    has_short_password: bool = False

    @property
    def vector_note(self) -> str:
        """Say where vectors are compared, and what it takes to compare them in the database."""
        if self.pgvector and is_recent(self.pgvector):
            return (
                f"pgvector {self.pgvector}: with `search.where: database`, vectors are compared in "
                "the database"
            )
        if self.pgvector:
            how = f"{self.pgvector} is older than 0.8: `ALTER EXTENSION vector UPDATE`"
        elif self.can_have_pgvector:
            how = (
                "is not installed: `CREATE EXTENSION vector`, as an administrator of the database,"
            )
        else:
            how = "is not installed: its package on the server of the database"
        return (
            f"vectors are kept as bytes and compared in each gateway; pgvector {how} and a restart "
            "of the gateways would let the database compare them"
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """The possible improvements, each with the next step."""
        improvements = []
        if self.is_read_only:
            improvements.append(
                "the database is read-only, so decisions are refused: name all hosts in its "
                "address, with `target_session_attrs=read-write`"
            )
        if not (self.is_encrypted or self.is_local):
            improvements.append(
                "the connection is not encrypted: add `sslmode=verify-full&sslrootcert=system` to "
                "the address"
            )
        if self.paths:
            improvements.append(
                f"what is decided for {', '.join(self.paths)} counts for files there alone: "
                "give the configuration a `name`, the same on all machines, there first"
            )
        if not self.has_secret:
            improvements.append(
                f"{SHARES_NOTHING}: set the same `{STATE_KEY}` for all (`openssl rand -hex 32` "
                "makes one)"
            )
        if self.has_short_password:
            improvements.append(
                f"the password of the role has fewer than {_SHORTEST_PASSWORD} characters: it can "
                "be guessed, and occurs in other text by chance; give the role a random one "
                "(`openssl rand -hex 32` makes one)"
            )
        if self.is_superuser:
            improvements.append(
                "the role is a superuser: one that owns the schema `discovery` is enough"
            )
        return tuple(improvements)


def state_of(database: PostgresDatabase, *, has_secret: bool = False) -> DatabaseState:
    """Reach the database and read its state.

    `has_secret` says that gateways share one besides the password of the database.

    Raises:
        RegistryError: If it cannot be used.
    """

    def read(db: TimedConnection) -> DatabaseState:
        row = db.execute(_STATE).fetchone()
        assert row is not None  # noqa: S101 - a SELECT of scalars has one row
        server, is_standby, default, is_super, installed, available, size = row
        scopes, vectors = db.execute(_COUNTS).fetchone() or (0, 0)
        return DatabaseState(
            str(server),
            database.version,
            bool(is_standby) or default == "on",
            bool(db.pgconn.ssl_in_use),
            database.address.is_local,
            bool(is_super),
            installed or "",
            available is not None,
            scopes,
            decision_table.newest(db),
            vectors,
            int(size or 0),
            tuple(scope for scope in decision_table.scopes(db) if not is_name(scope)),
            has_secret or bool(db.pgconn.password),
            0 < len(db.pgconn.password) < _SHORTEST_PASSWORD,
        )

    return database.read(read)


_STATE = """
    SELECT current_setting('server_version'), pg_is_in_recovery(),
        current_setting('default_transaction_read_only'),
        (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
        (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
        (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
        (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
            WHERE relnamespace = 'discovery'::regnamespace AND relkind = 'r')
    """
_COUNTS = "SELECT (SELECT count(*) FROM discovery.scopes), (SELECT count(*) FROM discovery.vectors)"
