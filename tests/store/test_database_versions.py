"""A database that the last released version of the program made, with data in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.refresh_job import RefreshTarget
from discovery_engine.tools.model import ServerName
from tests.factories import make_part
from tests.postgres import PostgresServer

SCOPE = "name:fleet"
GOLDEN = Path(__file__).parent / "golden_postgres" / "0012.sql"
TABLES = """
    SELECT table_name, column_name, column_default, is_nullable, data_type
    FROM information_schema.columns WHERE table_schema = 'discovery'
    UNION SELECT tablename, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'discovery'
    UNION SELECT relname, relrowsecurity::text, '', '', '' FROM pg_class
        WHERE relnamespace = 'discovery'::regnamespace
    UNION SELECT tgname, '', '', '', '' FROM pg_trigger WHERE NOT tgisinternal
    """


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    made = postgres_server.create_database()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(GOLDEN.read_bytes())
    return made


@pytest.fixture
def opened(url: str) -> Iterator[tuple[PostgresRegistry, PostgresRegistry]]:
    """Two gateways of the present version on that database."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(closing(open_database(url))),
            stack.enter_context(closing(open_database(url))),
        )


@pytest.mark.requirement("PGS-2")
def test_a_database_of_the_last_released_version_keeps_what_it_has(
    opened: tuple[PostgresRegistry, PostgresRegistry],
) -> None:
    registry, _ = opened
    found = registry.load(SCOPE)
    [registered] = registry.registered_servers(SCOPE)
    [use] = registry.uses(SCOPE).values()
    [written] = registry.written_requests()
    [preset] = registry.presets(SCOPE)

    assert found is not None
    assert [server.name for server in found.settings.servers] == ["a", "b"]
    assert [str(entry.key) for entry in found.catalog] == ["a:one", "a:two"]
    assert registry.newest_decision() == 6
    assert registry.approvals(SCOPE) == {"a": {"1"}}
    assert [one.meaning for one in registry.history(SCOPE, "a")] == ["2", "1"]
    assert registered.entry == {"url": "https://a.example"}
    assert registry.switches(SCOPE)["b"].is_wanted is False
    assert use.count == 1.0
    assert registry.vector_count(SCOPE) == 1
    assert written.requests == ("do it",)
    assert preset.arguments == {"a": 1}


@pytest.mark.requirement("PGS-2", "PGS-21")
def test_gateways_on_a_database_of_the_last_released_version_learn_what_is_saved_since(
    opened: tuple[PostgresRegistry, PostgresRegistry],
) -> None:
    registry, other = opened
    assert registry.load(SCOPE) == other.load(SCOPE)

    other.save_parts(SCOPE, [make_part("b", "y")], revision=4)

    assert [part.server for part in registry.changed_parts(SCOPE)] == ["b"]
    assert registry.changed_parts(SCOPE) == other.changed_parts(SCOPE) == ()


@pytest.mark.requirement("PGS-2", "FLT-3")
def test_a_queue_of_the_last_released_version_goes_on_with_higher_fences(
    opened: tuple[PostgresRegistry, PostgresRegistry],
) -> None:
    registry, _ = opened
    before = {job.server: job.fence for job in registry.refresh_jobs(SCOPE)}
    registry.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name)) for name in "ab"])

    claimed = registry.claim_refreshes(SCOPE, "w", limit=9, lease=60.0)

    assert set(before) == set("ab")
    assert sorted(job.server for job in claimed) == ["a", "b"]
    assert min(job.fence for job in claimed) > max(before.values(), default=0)


@pytest.mark.requirement("PGS-2")
def test_an_updated_database_has_the_tables_of_a_new_one(
    postgres_server: PostgresServer, url: str
) -> None:
    def tables(of: str) -> set[tuple[str, ...]]:
        with closing(open_database(of)) as registry:
            return registry.database.read(lambda db: set(db.execute(TABLES)))

    assert tables(url) == tables(postgres_server.create_database())
