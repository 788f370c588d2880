"""Databases that earlier versions of the program made, each with data in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from discovery_engine.fleet.refresh_job import RefreshTarget
from discovery_engine.registry.backends import open_database
from discovery_engine.registry.postgres.migrations import FOLDER
from discovery_engine.registry.postgres.postgres_registry import PostgresRegistry
from discovery_engine.tools.model import ServerName
from tests.factories import make_part
from tests.postgres import PostgresServer

SCOPE = "name:fleet"
GOLDEN = sorted(Path(__file__).with_name("golden_postgres").glob("*.sql"))
QUEUED_SINCE = 3  # the step that made the refresh queue


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def url(postgres_server: PostgresServer, golden: Path) -> str:
    made = postgres_server.create_database()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(golden.read_bytes())
    return made


@pytest.fixture
def opened(url: str) -> Iterator[tuple[PostgresRegistry, PostgresRegistry]]:
    """Two gateways of the present version on that database."""
    with ExitStack() as stack:
        yield (
            stack.enter_context(closing(open_database(url))),
            stack.enter_context(closing(open_database(url))),
        )


@pytest.mark.requirement("PGS-3")
def test_a_database_of_every_released_version_keeps_what_it_has(
    opened: tuple[PostgresRegistry, PostgresRegistry],
) -> None:
    registry, _ = opened
    found = registry.load(SCOPE)
    [registered] = registry.registered_servers(SCOPE)
    [use] = registry.uses(SCOPE).values()
    [written] = registry.written_requests()
    [preset] = registry.presets(SCOPE)

    assert registry.database.version == len(GOLDEN)
    assert found is not None
    assert [server.name for server in found.settings.servers] == ["a", "b"]
    assert [str(entry.key) for entry in found.catalog] == ["a:one", "a:two"]
    assert registry.newest_decision() == 6
    assert registry.approvals(SCOPE) == {"a": {"1"}}
    assert [one.meaning for one in registry.history(SCOPE, "a")] == ["2", "1"]
    assert registered.entry == {"url": "https://a.example"}
    assert registry.switches(SCOPE)["b"].is_wanted is False
    assert use.count == 1.0
    assert registry.used_vectors(SCOPE) == [("hash:64", b"1" * 32)]
    assert written.requests == ("do it",)
    assert preset.arguments == {"a": 1}


@pytest.mark.requirement("PGS-3", "PGS-21")
def test_gateways_on_a_database_of_every_released_version_learn_what_is_saved_since(
    opened: tuple[PostgresRegistry, PostgresRegistry],
) -> None:
    registry, other = opened
    assert registry.load(SCOPE) == other.load(SCOPE)

    other.save_parts(SCOPE, [make_part("b", "y")], revision=4)

    assert [part.server for part in registry.changed_parts(SCOPE)] == ["b"]
    assert registry.changed_parts(SCOPE) == other.changed_parts(SCOPE) == ()


@pytest.mark.requirement("PGS-3", "FLT-19")
def test_a_queue_of_every_released_version_goes_on_with_higher_fences(
    opened: tuple[PostgresRegistry, PostgresRegistry], golden: Path
) -> None:
    registry, _ = opened
    before = {job.server: job.fence for job in registry.refresh_jobs(SCOPE)}
    registry.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name)) for name in "ab"])

    claimed = registry.claim_refreshes(SCOPE, "w", limit=9, lease=60.0)

    assert set(before) == (set("ab") if int(golden.stem) >= QUEUED_SINCE else set())
    assert sorted(job.server for job in claimed) == ["a", "b"]
    assert min(job.fence for job in claimed) > max(before.values(), default=0)


def test_the_newest_version_has_a_golden_file() -> None:
    assert len(GOLDEN) == len(list(FOLDER.glob("*.sql")))
