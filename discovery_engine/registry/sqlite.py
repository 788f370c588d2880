"""The registry in one SQLite file; `store.Store` says what it promises."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.registry import decisions, embeddings, listings, usage
from discovery_engine.registry.codec import settings_from_text, settings_to_text
from discovery_engine.registry.database import Database
from discovery_engine.registry.decision_log import DecisionLog
from discovery_engine.registry.encoding import as_text, from_column
from discovery_engine.registry.locking import Turns, turns_at
from discovery_engine.registry.store import World
from discovery_engine.search.usage import Use
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions

logger = logging.getLogger(__name__)

_SCOPES_KEPT = 50  # configurations; the ones least lately saved go first
_ERAS_KEPT = 1000  # connections; the ones first met go first


def open_store(
    path: str | Path,
    *,
    is_thorough: bool = True,
    patience: float | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    turns: Turns | None = None,
) -> SqliteStore:
    """The registry at `path`, made with its folder if it is not there.

    Close it, or use it in a `with` statement.

    Args:
        path: Where it is.
        is_thorough: Compare both copies of the decisions whole; otherwise only what they say of
            the newest one.
        patience: The most seconds to wait for other processes before it can be read.
        sqlite_version: Of the SQLite in use.
        turns: Taken at it; those of the process if None.

    Raises:
        RegistryError: If it cannot be opened, or a newer version of the program made it.
    """
    place = Path(path).absolute()
    turns = turns or turns_at(place)
    return SqliteStore(
        Database(
            place,
            sqlite_version=sqlite_version,
            turns=turns,
            log=DecisionLog(place, turns, patience=patience),
            is_thorough=is_thorough,
            patience=patience,
        )
    )


class SqliteStore(AbstractContextManager["SqliteStore"]):
    """Made by `open_store`; closed at the end of a `with` statement."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def recovered(self) -> str | None:
        """Where a damaged registry was put that stood in this one's place; None if none did."""
        return self._database.recovered

    def load(self, scope: str) -> World | None:
        rows = self._database.read(lambda connection: _world_rows(connection, scope))
        if rows is None:
            return None
        try:
            return rows.world()
        except (LookupError, TypeError, ValueError) as exc:
            logger.warning("What was remembered of %s cannot be read: %s", scope, exc)
            return None

    def save_settings(self, scope: str, settings: Settings) -> None:
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]
        self._database.write(lambda connection: _save_settings(connection, scope, text, names))

    def save_parts(self, scope: str, parts: Iterable[ServerPart], *, revision: int) -> None:
        kept = {part.server: listings.row_of(part) for part in parts}
        self._database.write(lambda connection: _save_parts(connection, scope, kept, revision))

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        names = None if servers is None else frozenset(servers)
        return self._database.write(lambda connection: _forget(connection, scope, names))

    def load_index(self, scope: str) -> bytes | None:
        query = """
            SELECT data FROM indexes JOIN scopes ON scopes.id = indexes.scope WHERE name = ?
            """
        row = self._database.read(lambda db: db.execute(query, (as_text(scope),)).fetchone())
        return row[0] if row and isinstance(row[0], bytes) else None

    def save_index(self, scope: str, data: bytes) -> None:
        query = """
            INSERT INTO indexes (scope, data) SELECT id, ? FROM scopes WHERE name = ?
            ON CONFLICT (scope) DO UPDATE SET data = excluded.data
            """
        self._database.write(lambda db: db.execute(query, (data, as_text(scope))))

    def recall_era(self, connection: str) -> JSONObject | None:
        query = "SELECT era FROM eras WHERE connection = ?"
        row = self._database.read(lambda db: db.execute(query, (connection,)).fetchone())
        return _era(row[0]) if row else None

    def remember_era(self, connection: str, era: JSONObject | None) -> None:
        text = None if era is None else json.dumps(era)
        self._database.write(lambda db: _remember_era(db, connection, text))

    def decisions(self, scope: str) -> Decisions:
        return self._database.read_decisions(lambda db: decisions.decisions(db, scope))

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        kept = tuple(approvals)
        self._database.decide(lambda db: (None, decisions.approve(db, scope, kept, at)))

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        names = tuple(servers)
        return self._database.decide(lambda db: decisions.revoke(db, scope, names))

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> None:
        if kept := tuple(found):
            accept = partial(decisions.accept, scope=scope, found=kept, at=at, if_new=if_new)
            self._database.decide(lambda db: (None, accept(db)))

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        return self._database.read(lambda db: decisions.history(db, scope, server))

    def lost_at(self, scope: str) -> float | None:
        return self._database.read(lambda db: decisions.lost_at(db, scope))

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        self._database.decide(lambda db: (None, decisions.acknowledge(db, scope, at)))

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        return self._database.read(lambda db: embeddings.vectors(db, model, digests))

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        self._database.write(lambda db: embeddings.save(db, scope, model, vectors))

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        return self._database.write(lambda db: embeddings.keep(db, scope, model, digests))

    def uses(self, scope: str) -> Mapping[ToolKey, Use]:
        return self._database.read(lambda db: usage.uses(db, scope))

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        self._database.write(lambda db: usage.count(db, scope, key, at))

    def close(self) -> None:
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class _WorldRows(Struct, frozen=True):
    settings: str
    revision: int
    parts: list[listings.Row]

    def world(self) -> World:
        """What the rows say.

        Raises:
            LookupError, TypeError, ValueError: If they are not of this version, or not whole.
        """
        if not isinstance(self.revision, int):  # a damaged row may hold anything
            raise TypeError("the revision is no number")
        settings = settings_from_text(self.settings)
        parts = map(listings.part_of, self.parts)
        return World(settings, Catalog.of(parts, revision=self.revision))


def _world_rows(connection: sqlite3.Connection, scope: str) -> _WorldRows | None:
    query = "SELECT id, settings, revision FROM scopes WHERE name = ?"
    row = connection.execute(query, (as_text(scope),)).fetchone()
    if row is None:
        return None
    key, settings, revision = row
    return _WorldRows(settings, revision, listings.rows(connection, key))


def _save_settings(
    connection: sqlite3.Connection, scope: str, settings: str, servers: list[ServerName]
) -> None:
    # Where nothing changed nothing is written: a start with the same file costs no disk.
    connection.execute(
        """
        INSERT INTO scopes (name, settings, saved)
        VALUES (?, ?, (SELECT coalesce(max(saved), 0) + 1 FROM scopes))
        ON CONFLICT (name) DO UPDATE SET settings = excluded.settings, saved = excluded.saved
        WHERE settings <> excluded.settings
        """,
        (as_text(scope), settings),
    )
    connection.execute(
        """
        DELETE FROM scopes
        WHERE id NOT IN (SELECT id FROM scopes ORDER BY saved DESC LIMIT ?)
        """,
        (_SCOPES_KEPT,),
    )
    key = _scope_key(connection, scope)
    known = {name: server for server, name in _servers(connection, scope)}
    gone = [(known[name],) for name in known.keys() - set(servers)]
    new = [(key, as_text(name)) for name in dict.fromkeys(servers) if name not in known]
    connection.executemany("DELETE FROM servers WHERE id = ?", gone)
    connection.executemany("INSERT INTO servers (scope, name) VALUES (?, ?)", new)


def _save_parts(
    connection: sqlite3.Connection,
    scope: str,
    parts: Mapping[ServerName, listings.Row],
    revision: int,
) -> None:
    for key, name in _servers(connection, scope):
        if row := parts.get(name):
            listings.save(connection, key, row)
    connection.execute(
        """
        UPDATE scopes SET
            revision = max(CAST(revision AS INTEGER), ?),
            saved = (SELECT max(saved) + 1 FROM scopes)
        WHERE name = ?
        """,
        (revision, as_text(scope)),
    )


def _forget(
    connection: sqlite3.Connection, scope: str, servers: frozenset[ServerName] | None
) -> int:
    known = _servers(connection, scope)
    keys = [key for key, name in known if servers is None or name in servers]
    connection.executemany("DELETE FROM uses WHERE server = ?", [(key,) for key in keys])
    return listings.forget(connection, keys)


def _remember_era(connection: sqlite3.Connection, reached: str, era: str | None) -> None:
    if era is None:
        connection.execute("DELETE FROM eras WHERE connection = ?", (reached,))
        return
    connection.execute(
        """
        INSERT INTO eras (connection, era) VALUES (?, ?)
        ON CONFLICT (connection) DO UPDATE SET era = excluded.era WHERE era <> excluded.era
        """,
        (reached, era),
    )
    connection.execute("DELETE FROM eras WHERE id <= (SELECT max(id) FROM eras) - ?", (_ERAS_KEPT,))


def _scope_key(connection: sqlite3.Connection, scope: str) -> int:
    [key] = connection.execute("SELECT id FROM scopes WHERE name = ?", (as_text(scope),)).fetchone()
    return int(key)


def _servers(connection: sqlite3.Connection, scope: str) -> list[tuple[int, ServerName]]:
    query = """
        SELECT servers.id, servers.name FROM servers JOIN scopes ON scopes.id = servers.scope
        WHERE scopes.name = ?
        """
    rows: Iterator[tuple[int, str | bytes]] = connection.execute(query, (as_text(scope),))
    return [(key, ServerName(from_column(name))) for key, name in rows]


def _era(text: str) -> JSONObject | None:
    """None if it is damaged; asking the server again mends it."""
    try:
        era = json.loads(text)
    except ValueError:
        return None
    return era if isinstance(era, dict) else None
