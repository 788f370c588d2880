"""Processes with different configurations of one registry: whose servers stay, and which go.

As while a configuration is rolled out, and once a server has left it everywhere: specs/fleet.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace

from discovery_engine.config.files.location import decision_scope
from discovery_engine.config.settings import Settings
from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.refresh_job import RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.store.schedule import ADOPTED_FOR, NAMED_AGAIN, NAMED_FOR
from discovery_engine.store.server_records import RegisteredServer
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry
from discovery_engine.store.stored_reader import registration_mark
from discovery_engine.tools.model import ServerName
from tests.factories import make_part, make_settings, save_success
from tests.postgres import PostgresServer
from tests.store.registry_stores import pass_time
from tests.store.test_refresh_queue import SCOPE, claim, claims, held, listed, plan

HOUR = 3600.0

Process = Callable[[Registry], object]


def named(store: Registry, scope: str = SCOPE) -> list[str]:
    return [job.server for job in store.refresh_jobs(scope)]


def begin(store: Registry, *names: str) -> None:
    """A worker with a configuration starts, and lists its servers."""
    store.save_settings(SCOPE, make_settings(*names), keep_others=True)
    plan(store, *names)
    for job in claims(store, limit=len(names)):
        assert save_success(store, job.claim)


def of_gateway(*names: str) -> Process:
    """What a gateway does when it starts, or reads its configuration again."""
    return lambda store: store.save_settings(SCOPE, make_settings(*names))


def of_worker(*names: str) -> Process:
    """What a worker does once an hour."""

    def work(store: Registry) -> None:
        store.name_servers(SCOPE, names)
        plan(store, *names)

    return work


OLDER = {
    "gateway that starts": of_gateway("a"),
    "gateway": lambda store: store.name_servers(SCOPE, ["a"]),
    "worker": of_worker("a"),
}


@pytest.mark.thorough
@pytest.mark.requirement("FLT-21")
@pytest.mark.parametrize("older", OLDER.values(), ids=OLDER)
def test_what_a_newer_configuration_names_stays_beside_an_older_one_for_days(
    store: Registry, older: Process
) -> None:
    begin(store, "a", "new")
    before = {
        job.server: (job.state, job.fence, job.tool_count) for job in store.refresh_jobs(SCOPE)
    }
    for _ in range(48):
        older(store)
        of_worker("a", "new")(store)
        pass_time(store, HOUR)

    jobs = store.refresh_jobs(SCOPE)
    assert {job.server: (job.state, job.fence, job.tool_count) for job in jobs} == before
    assert listed(store, "new")


@pytest.mark.requirement("FLT-21")
@pytest.mark.parametrize("older", OLDER.values(), ids=OLDER)
def test_a_gateway_alone_keeps_what_only_its_configuration_names(
    store: Registry, older: Process
) -> None:
    begin(store, "a", "new")
    for _ in range(5):
        older(store)
        store.name_servers(SCOPE, ["a", "new"])
        pass_time(store, HOUR)

    assert named(store) == ["a", "new"]


@pytest.mark.requirement("FLT-1", "FLT-21")
@pytest.mark.parametrize("older", OLDER.values(), ids=OLDER)
def test_a_server_that_every_configuration_has_lost_goes_with_all_that_is_saved_of_it(
    store: Registry, older: Process
) -> None:
    begin(store, "a", "gone")

    older(store)
    pass_time(store, NAMED_FOR - 60)
    older(store)
    assert named(store) == ["a", "gone"]
    assert listed(store, "gone")

    pass_time(store, 61)
    older(store)
    assert named(store) == ["a"]
    assert listed(store, "a")
    assert listed(store, "gone") is None


@pytest.mark.requirement("FLT-21")
def test_who_drops_a_server_is_given_its_name_and_other_scopes_keep_theirs(
    store: Registry,
) -> None:
    plan(store, "a", "gone", "\udc80")
    plan(store, "gone", scope="other")
    pass_time(store, NAMED_FOR)

    assert store.name_servers(SCOPE, ["a"]) == ("gone", "\udc80")
    assert store.name_servers(SCOPE, ["a"]) == ()
    assert named(store) == ["a"]
    assert named(store, "other") == ["gone"]


@pytest.mark.requirement("FLT-21")
def test_a_server_that_a_worker_holds_is_dropped_once_its_lease_is_over(store: Registry) -> None:
    plan(store, "gone")
    pass_time(store, NAMED_FOR)
    mine = held(store, lease=HOUR)

    assert store.name_servers(SCOPE, []) == ()
    assert store.extend_claims([mine], lease=HOUR) == {mine}
    pass_time(store, HOUR - 60)
    assert store.name_servers(SCOPE, []) == ()
    pass_time(store, 61)
    assert store.name_servers(SCOPE, []) == ("gone",)
    assert not save_success(store, mine)


@pytest.mark.requirement("FLT-3", "FLT-21")
def test_a_server_that_comes_back_in_time_goes_on_as_it_was(store: Registry) -> None:
    begin(store, "a")
    of_gateway()(store)
    pass_time(store, HOUR / 2)
    of_gateway("a")(store)
    plan(store, "a")

    assert listed(store, "a")
    assert claim(store) == []


@pytest.mark.requirement("FLT-21")
def test_a_server_is_named_again_half_an_hour_after_it_was_last_named(store: Registry) -> None:
    def hours_left(after: float) -> float:
        """For how long a server is kept that is named again after so many seconds."""
        scope = f"{after}"
        plan(store, "a", scope=scope)
        pass_time(store, after)
        store.name_servers(scope, ["a"])
        kept = 0.0
        while not store.name_servers(scope, []):
            pass_time(store, HOUR / 4)
            kept += 0.25
        return kept

    assert hours_left(NAMED_AGAIN - 60) == 2.25
    assert hours_left(NAMED_AGAIN + 60) == 2.5


@pytest.mark.requirement("FLT-21")
def test_a_name_of_a_clock_that_was_ahead_ends_within_a_week(store: Registry) -> None:
    plan(store, "a")
    pass_time(store, -1000 * HOUR)

    assert store.name_servers(SCOPE, []) == ()
    pass_time(store, ADOPTED_FOR)
    assert store.name_servers(SCOPE, []) == ("a",)


@pytest.mark.thorough
@pytest.mark.requirement("FLT-21")
def test_many_servers_are_named_and_dropped_in_parts(store: Registry) -> None:
    names = [f"s{number}" for number in range(12_000)]
    store.save_settings(SCOPE, make_settings(*names))
    plan(store, *names)
    of_gateway(*names[:6_000])(store)
    assert len(named(store)) == 12_000
    pass_time(store, NAMED_FOR)

    gone = store.name_servers(SCOPE, names[:10_500])

    assert len(gone) == 1_500
    assert store.name_servers(SCOPE, names[:10_500]) == ()
    assert len(named(store)) == 10_500


def insert_as_an_older_program(store: Registry) -> None:
    """An older program makes a job: its statement has no column for names."""
    forget = "UPDATE {}refresh_jobs SET named_until = NULL"
    if isinstance(store, SqliteRegistry):
        store._database.write(lambda db: db.execute(forget.format("")))
    if isinstance(store, PostgresRegistry):
        store.database.write(lambda db: db.execute(forget.format("discovery.").encode()))


@pytest.mark.thorough
@pytest.mark.requirement("FLT-21")
@pytest.mark.parametrize("own", [["a"], []], ids=["that names it, too", "that does not name it"])
def test_the_job_of_an_older_program_stays_for_a_week_beside_a_process(
    store: Registry, own: list[str]
) -> None:
    if not isinstance(store, SqliteRegistry | PostgresRegistry):
        pytest.skip("no other program has what is in the memory of this one")
    begin(store, "a")
    insert_as_an_older_program(store)

    of_gateway(*own)(store)
    for _ in range(167):
        pass_time(store, HOUR)
        assert store.name_servers(SCOPE, []) == ()
    assert listed(store, "a")
    pass_time(store, HOUR)
    assert store.name_servers(SCOPE, []) == ("a",)


@pytest.mark.requirement("FLT-21")
def test_a_process_that_names_a_server_and_one_that_drops_it_wait_for_each_other(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database()
    with closing(open_database(url)) as store, psycopg.connect(url) as other:
        plan(store, "a")
        pass_time(store, NAMED_FOR)
        other.execute("UPDATE discovery.refresh_jobs SET named_until = named_until + 9000")

        assert store.name_servers(SCOPE, []) == ()  # being named: nobody waits for it

        other.commit()
        assert store.name_servers(SCOPE, []) == ()
        assert store.plan_refreshes(SCOPE, [RefreshTarget(ServerName("a"))]) == 0


@pytest.mark.requirement("FLT-21")
def test_settings_of_an_older_decision_drop_no_server_that_was_registered_since(
    store: Registry,
) -> None:
    def current(*names: str) -> Settings:
        settings = make_settings(*names)
        return replace(settings, registered=registration_mark(store, settings))

    scope = decision_scope(make_settings())
    store.save_servers(scope, [RegisteredServer("gone", {"url": "https://gone.example"})])
    older = current("a", "gone")
    store.delete_servers(scope, ["gone"])
    store.save_servers(scope, [RegisteredServer("new", {"url": "https://new.example"})])
    store.save_settings(SCOPE, current("a", "new"))
    store.save_parts(SCOPE, [make_part("a", "x"), make_part("new", "y")], revision=1)

    store.save_settings(SCOPE, older)
    store.save_parts(SCOPE, [make_part("gone", "z")], revision=1)

    assert listed(store, "new")
    assert not listed(store, "gone")
    store.save_settings(SCOPE, current("a"))
    assert not listed(store, "new")
