"""The copy of the decisions of a database: what is new is added, and nothing else is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.postgres.shared_registry import LocalCopy
from discovery_engine.store.server_records import RegisteredServer
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.postgres import PostgresServer

SCOPE = "/etc/discovery.yaml"


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[PostgresRegistry]:
    with closing(open_database(postgres_server.create_database(), timeout=60.0)) as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteRegistry]:
    with open_sqlite(tmp_path / "registry.db") as opened:
        yield opened


@pytest.fixture
def copy(database: PostgresRegistry, store: SqliteRegistry) -> LocalCopy:
    accept(database, "first")
    copy = LocalCopy(database, store)
    copy.copy_decisions()
    return copy


def accept(registry: PostgresRegistry, *tools: str, meaning: str = "1", at: float = 1.0) -> None:
    found = [Acceptance("a", tool, meaning, f"f-{meaning}", "{}") for tool in tools]
    registry.accept(SCOPE, found, at=at)


def require_same(database: PostgresRegistry, store: SqliteRegistry) -> None:
    expected, found = database.export_decisions(), store.export_decisions()
    assert (found.number, found.marks) == (expected.number, expected.marks)
    assert set(found.records) == set(expected.records)
    for of_scope in (SqliteRegistry.decisions, SqliteRegistry.registered_servers):
        assert of_scope(store, SCOPE) == getattr(database, of_scope.__name__)(SCOPE)


def rows(store: SqliteRegistry) -> set[int]:
    """The acceptances that it holds, by a number that none gets twice."""
    query = "SELECT number FROM acceptances"
    return store._database.read(lambda db: {key for (key,) in db.execute(query)})


DECISIONS: dict[str, Callable[[PostgresRegistry], object]] = {
    "accept": lambda store: accept(store, "x", "y"),
    "accept another meaning": lambda store: accept(store, "x", meaning="2"),
    "accept the same again": lambda store: accept(store, "x", at=3.0),
    "approve": lambda store: store.approve(SCOPE, [Approval("a", "1"), Approval("a", "2")], at=1.0),
    "revoke": lambda store: store.revoke(SCOPE, ["a"]),
    "approve in another scope": lambda store: store.approve("b", [Approval("a", "1")], at=2.0),
    "register": lambda store: store.save_servers(
        SCOPE, [RegisteredServer(name, {"url": "https://a.example"}) for name in ("m", "n")]
    ),
    "change a server": lambda store: store.save_servers(
        SCOPE, [RegisteredServer("m", {"url": "https://b.example"})]
    ),
    "delete a server": lambda store: store.delete_servers(SCOPE, ["m"]),
    "switch": lambda store: store.set_switches(SCOPE, {"a": False, "b": True}, at=4.0),
    "drop a switch": lambda store: store.set_switches(SCOPE, {"a": None}, at=5.0),
    "lose": lambda store: store.report_loss(at=6.0),
    "acknowledge": lambda store: store.acknowledge_loss(SCOPE, at=7.0),
}


@pytest.mark.requirement("PGS-9")
@pytest.mark.parametrize("at_once", [1, 3, len(DECISIONS)])
def test_a_copy_gets_what_was_decided_since_without_what_it_has(
    database: PostgresRegistry, store: SqliteRegistry, copy: LocalCopy, at_once: int
) -> None:
    before = rows(store)

    for count, decide in enumerate(DECISIONS.values(), 1):
        decide(database)
        if count % at_once == 0:
            copy.copy_decisions()
            require_same(database, store)

    copy.copy_decisions()
    require_same(database, store)
    assert rows(store) > before


@pytest.mark.requirement("PGS-9", "PGS-14")
def test_a_copy_of_another_history_is_made_anew(
    database: PostgresRegistry, store: SqliteRegistry, copy: LocalCopy
) -> None:
    accept(database, "lost", "with it")
    copy.copy_decisions()
    with_it = "DELETE FROM discovery.acceptances WHERE number > 1"
    database.database.write(lambda db: db.execute(with_it))
    number = "UPDATE discovery.decision_log SET number = 1"
    database.database.write(lambda db: db.execute(number))
    accept(database, "new", "newer", "newest")

    copy.copy_decisions()

    require_same(database, store)
    assert store.accepted(SCOPE, "a").keys() == {"first", "new", "newer", "newest"}


@pytest.mark.requirement("PGS-9")
def test_what_cancels_out_brings_a_copy_up_to_date(
    database: PostgresRegistry, store: SqliteRegistry, copy: LocalCopy
) -> None:
    for is_wanted in (False, None):
        database.set_switches(SCOPE, {"a": is_wanted}, at=2.0)

    copy.copy_decisions()

    require_same(database, store)


@pytest.mark.requirement("PGS-9")
def test_gateways_that_share_a_copy_add_nothing_twice(
    database: PostgresRegistry, store: SqliteRegistry, copy: LocalCopy
) -> None:
    other = LocalCopy(database, store)
    for tool in ("x", "y"):
        accept(database, tool)
        copy.copy_decisions()
    before = rows(store)

    other.copy_decisions()

    assert rows(store) == before
    assert other.missed_decision is None
    require_same(database, store)


@pytest.mark.requirement("PGS-14")
def test_a_further_loss_counts_although_the_owner_has_acknowledged_the_one_before(
    database: PostgresRegistry, store: SqliteRegistry, copy: LocalCopy
) -> None:
    database.report_loss(at=2.0)
    database.acknowledge_loss(SCOPE, at=3.0)
    database.report_loss(at=4.0)

    copy.copy_decisions()

    require_same(database, store)
    assert (database.lost_at(SCOPE), store.lost_at(SCOPE)) == (4.0, 4.0)
