"""Every back-end of the registry, for the tests that run over all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from discovery_engine.registry.backends import open_registry, sqlite_url
from discovery_engine.registry.protocols import Registry
from discovery_engine.registry.sqlite.registry import open_sqlite
from tests.postgres import PostgresServer

Opener = Callable[[pytest.FixtureRequest, Path], Registry]


def _open_postgres(request: pytest.FixtureRequest, _: Path) -> Registry:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return open_registry(server.create_database())


BACK_ENDS: dict[str, Opener] = {
    "memory": lambda _, __: open_registry("memory:"),
    "sqlite": lambda _, path: open_registry(sqlite_url(path)),
    "sqlite-rollback": lambda _, path: open_sqlite(path, sqlite_version=(3, 40, 1)),
    "sqlite-wal": lambda _, path: open_sqlite(path, sqlite_version=(3, 51, 3)),
    "postgresql": _open_postgres,
}
SHARED = {"postgresql"}
