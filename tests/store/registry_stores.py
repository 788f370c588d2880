"""Every back-end of the registry, for the tests that run over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from discovery_engine.store.backends import open_registry, sqlite_url
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from tests.postgres import PostgresServer

Opener = Callable[[pytest.FixtureRequest, Path], Registry]


def _open_postgres(request: pytest.FixtureRequest, folder: Path) -> Registry:
    return open_registry(url_of("postgresql", request, folder))


BACK_ENDS: dict[str, Opener] = {
    "memory": lambda _, __: open_registry("memory:"),
    "sqlite": lambda _, path: open_registry(sqlite_url(path)),
    "sqlite-rollback": lambda _, path: open_sqlite(path, sqlite_version=(3, 40, 1)),
    "sqlite-wal": lambda _, path: open_sqlite(path, sqlite_version=(3, 51, 3)),
    "postgresql": _open_postgres,
}
SHARED = {"postgresql"}


def back_ends(*names: str) -> list[Any]:
    """Values for `parametrize` and `params`, of which SQLite alone runs before a change lands."""
    kinds = {name: [pytest.mark.matrix] for name in BACK_ENDS} | {"sqlite": []}
    kinds["postgresql"].append(pytest.mark.database)
    return [pytest.param(name, marks=kinds[name]) for name in names]


def url_of(back_end: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The address of a new registry that several processes can open."""
    if back_end == "sqlite":
        return sqlite_url(folder / "registry.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.create_database()


def pass_period(store: Registry) -> None:
    """As if the uses of vectors had been noted in the period before this one."""
    if isinstance(store, SqliteRegistry):
        for query in ("leases SET fence = fence - 1", "vector_uses SET period = period - 1"):
            store._database.write(lambda db, query=query: db.execute(f"UPDATE {query}"))
    if isinstance(store, PostgresRegistry):
        for query in ("leases SET fence = fence - 1", "vector_uses SET period = period - 1"):
            store.database.write(lambda db, query=query: db.execute(f"UPDATE discovery.{query}"))


@contextmanager
def kept_vector(store: Registry, digest: bytes) -> Iterator[None]:
    """Whoever would delete this vector fails."""
    if isinstance(store, SqliteRegistry):
        store._database.write(
            lambda db: db.execute(
                f"""
                CREATE TRIGGER kept BEFORE DELETE ON vectors WHEN old.digest = x'{digest.hex()}'
                BEGIN SELECT raise(ABORT, 'kept'); END
                """
            )
        )
        yield
        store._database.write(lambda db: db.execute("DROP TRIGGER kept"))
    if isinstance(store, PostgresRegistry):
        store.database.write(
            lambda db: db.execute(
                f"""
                CREATE TABLE discovery.kept (
                    vector bigint NOT NULL REFERENCES discovery.vectors
                );
                INSERT INTO discovery.kept
                SELECT id FROM discovery.vectors WHERE digest = decode('{digest.hex()}', 'hex')
                """
            )
        )
        yield
        store.database.write(lambda db: db.execute("DROP TABLE discovery.kept"))


_TIMES = (
    "created_at", "due_at", "claimed_at", "lease_until", "listed_at", "failing_since",
)  # fmt: skip


def pass_time(store: Registry, seconds: float) -> None:
    """As if the clock of the store had gone on since all that happened to its jobs."""
    moved = ", ".join(
        f"{name} = {name} - {{0}}" for name in (*_TIMES, "claimable_at", "named_until")
    )
    if isinstance(store, SqliteRegistry):
        query = f"UPDATE refresh_jobs SET {moved.format(seconds)}"
        store._database.write(lambda db: db.execute(query))
    elif isinstance(store, PostgresRegistry):
        query = f"UPDATE discovery.refresh_jobs SET {moved.format(seconds)}"
        store.database.write(lambda db: db.execute(query.encode()))
    else:
        pytest.fail(f"no clock of {store} can be moved")
