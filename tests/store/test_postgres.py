"""What the registry in PostgreSQL promises beyond what every back-end does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing, closing
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest
from psycopg import Connection

from discovery_engine.errors import RegistryError, RegistryUnavailableError
from discovery_engine.store import stored_catalog
from discovery_engine.store.postgres import postgres_database
from discovery_engine.store.postgres.database_feed import (
    database_changes,
    newest_change,
)
from discovery_engine.store.postgres.database_url import DatabaseAddress
from discovery_engine.store.postgres.migrations import FOLDER, migrate
from discovery_engine.store.postgres.postgres_database import PostgresDatabase
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.trust.decisions import Acceptance, Approval
from tests import postgres
from tests.factories import make_part, make_settings
from tests.fleet.fleet import wait_until
from tests.postgres import PASSWORD, PostgresServer
from tests.servers.programs import eventually
from tests.tcp_proxy import TcpProxy, open_proxy

SCOPE = "/etc/discovery.yaml"
LATEST = 16


def registry_at(url: str, *, timeout: float = 60.0, connections: int = 4) -> PostgresRegistry:
    address = DatabaseAddress.parse(url)
    return PostgresRegistry(PostgresDatabase(address, max_connections=connections, timeout=timeout))


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database()


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with open_proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop."""
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.open_server() as server:
        yield server


def through(proxy: TcpProxy, server: PostgresServer) -> str:
    return server.url(server.create_database().rpartition("/")[2], port=proxy.port)


@pytest.mark.requirement("PGS-2")
def test_gateways_that_start_at_once_make_the_tables_once(url: str) -> None:
    def start(number: int) -> int:
        with closing(registry_at(url)) as registry:
            registry.approve(SCOPE, [Approval(f"s{number}", "1")], at=1.0)
            return registry.database.version

    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(start, range(8)))

    assert versions == [LATEST] * 8
    with closing(registry_at(url)) as registry:
        assert registry.newest_decision() == 8


@pytest.mark.requirement("PGS-2")
def test_the_tables_may_take_longer_to_make_than_an_operation_may(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in FOLDER.glob("*.sql"):
        slow = step.read_text("utf-8").replace(";\n", ";\nSELECT pg_sleep(0.1);\n")
        (tmp_path / step.name).write_text(slow)
    monkeypatch.setattr(postgres_database, "migrate", partial(migrate, folder=tmp_path))

    with closing(registry_at(url, timeout=2.0)) as registry:
        assert registry.newest_decision() == 0
        assert registry.database.version == LATEST


@pytest.mark.requirement("PGS-2")
@pytest.mark.parametrize("is_made", [False, True])
def test_a_role_without_rights_is_told_the_statement_that_gives_them(
    postgres_server: PostgresServer, is_made: bool
) -> None:
    url = postgres_server.create_database(is_owned=False)
    with closing(registry_at(url)) as registry:
        with pytest.raises(RegistryError) as caught:
            registry.newest_decision()
        hint = caught.value.hint

        with postgres_server.admin(url.rpartition("/")[2]) as admin:
            admin.execute(hint.split("`")[1].encode())

        assert registry.newest_decision() == 0


@pytest.mark.requirement("PGS-2")
def test_a_program_of_before_works_beside_a_newer_one_that_allows_it(url: str) -> None:
    with closing(registry_at(url)) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)
        newer = "UPDATE discovery.schema_version SET version = 99, usable_from = %s"
        registry.database.write(lambda db: db.execute(newer, (LATEST,)))

    with closing(registry_at(url)) as registry:
        assert registry.approvals(SCOPE) == {"a": {"1"}}
        registry.database.write(lambda db: db.execute(newer, (99,)))

    with (
        closing(registry_at(url)) as registry,
        pytest.raises(RegistryError, match="version 99") as caught,
    ):
        registry.approvals(SCOPE)
    assert "update the program" in caught.value.hint


@pytest.mark.requirement("PGS-6")
def test_what_takes_longer_to_read_than_an_operation_may_is_read_in_parts(url: str) -> None:
    query = "SELECT pg_sleep(0.5), number FROM generate_series(1, 5) AS number"

    with closing(registry_at(url, timeout=2.0)) as registry:
        found = registry.database.read(lambda db: [*db.rows(query, (), at_once=1)])

    assert [number for _, number in found] == [1, 2, 3, 4, 5]


@pytest.mark.requirement("PGS-6")
def test_many_tools_are_saved_in_several_transactions_of_which_the_last_says_that_all_are_judged(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_catalog, "_TOOLS_AT_ONCE", 2)
    parts = [make_part(name, "get_file", "send_file") for name in ("a", "b", "c")]
    transactions = "SELECT count(DISTINCT xmin::text) FROM discovery.listings"
    with closing(registry_at(url)) as registry:
        registry.save_settings(SCOPE, make_settings("a", "b", "c"))
        registry.load(SCOPE)

        registry.save_parts(SCOPE, parts, revision=1, decided=7)

        count = registry.database.read(lambda db: db.execute(transactions).fetchone())
        stored = registry.load(SCOPE)
    assert count == (3,)
    assert stored
    assert (stored.decided, [*stored.catalog.parts.values()]) == (7, parts)


@pytest.mark.requirement("PGS-1")
def test_every_table_of_the_file_is_one_of_the_database(url: str, tmp_path: Path) -> None:
    query = "SELECT tablename FROM pg_tables WHERE schemaname = 'discovery'"
    with closing(registry_at(url)) as registry, open_sqlite(tmp_path / "registry.db") as file:
        there = registry.database.read(lambda db: {name for (name,) in db.execute(query)})
        query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        here = file._database.read(lambda db: {name for (name,) in db.execute(query)})

    # An index is of a machine, the version of a file stands in its header, and a database numbers
    # claims with a sequence.
    assert here - there == {"indexes", "refresh_fences"}
    searched = {"search_indexes", "search_servers", "search_terms", "search_tools"}
    former = {"role_principals"}  # programs of the version before look into it
    searched |= {"search_spaces", "search_vector_servers"}
    # Gateways of a file are of one machine.
    shared = {"access_tokens", "gateways", "kept_results", "relayed_requests", "sealing_salt"}
    assert there - here == {"schema_version"} | searched | former | shared


@pytest.mark.requirement("PGS-4")
def test_decisions_of_many_gateways_have_one_order(url: str) -> None:
    def decide(number: int) -> None:
        with closing(registry_at(url)) as registry:
            for turn in range(5):
                one = Acceptance("a", f"t{turn}", f"m{number}", "f", "{}")
                registry.accept(SCOPE, [one], at=1.0, if_new=True)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(decide, range(8)))

    with closing(registry_at(url)) as registry:
        # Of eight that saw a tool first, one decided.
        assert [one.tool for one in registry.history(SCOPE, "a")] == [f"t{n}" for n in range(5)]
        assert registry.newest_decision() == 5


@pytest.mark.requirement("PGS-5")
@pytest.mark.parametrize("connections", [1, 4])
def test_more_threads_than_connections_wait_for_each_other(
    postgres_server: PostgresServer, url: str, connections: int
) -> None:
    name = url.rpartition("/")[2]
    with closing(registry_at(url, connections=connections)) as registry:
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda n: registry.save_era(f"c{n}", {}), range(60)))
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        with postgres_server.admin() as admin:
            [count] = admin.execute(query, (name,)).fetchone() or (0,)

    assert count <= connections


def terminate(server: PostgresServer, url: str) -> None:
    """End the connections to a database from the server's side, and wait until they are gone."""
    name = url.rpartition("/")[2]
    with server.admin() as admin:
        query = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
        admin.execute(query, (name,))


@pytest.mark.thorough
@pytest.mark.requirement("PGS-6")
@pytest.mark.parametrize("is_in_batch", [False, True])
@pytest.mark.parametrize("install", ["pginstall", "pginstall18"])
def test_a_process_that_stops_in_the_middle_of_a_transaction_keeps_nobody_waiting(
    install: str, is_in_batch: bool
) -> None:
    if why := postgres.missing(install):
        pytest.skip(why)
    is_held, goes_on = threading.Event(), threading.Event()

    def rows() -> Iterator[tuple[int, str]]:
        yield from ((1, "x" * 10_000) for _ in range(500 if is_in_batch else 1))
        if is_in_batch:
            is_held.set()
            goes_on.wait()

    def stop_in_the_middle(db: Connection) -> None:
        with db.cursor() as cursor:
            cursor.executemany("UPDATE discovery.decision_log SET id = %s WHERE '' <> %s", rows())
        is_held.set()
        goes_on.wait()

    with ExitStack() as opened:
        url = opened.enter_context(postgres.open_server(install)).create_database()
        registry = opened.enter_context(closing(registry_at(url)))
        stopped = opened.enter_context(closing(registry_at(url, timeout=2.0)))
        threads = opened.enter_context(ThreadPoolExecutor(1))
        opened.callback(goes_on.set)
        registry.newest_decision()

        stopping = threads.submit(stopped.database.write, stop_in_the_middle)
        is_held.wait()
        registry.approve(SCOPE, [Approval("s", "1")], at=1.0)
        goes_on.set()

        with pytest.raises(RegistryUnavailableError):
            stopping.result()
        assert stopped.newest_decision() == 1


@pytest.mark.thorough
@pytest.mark.requirement("PGS-6")
@pytest.mark.parametrize("install", ["pginstall", "pginstall18"])
def test_the_server_does_not_wait_for_a_lock_that_its_client_has_given_up(install: str) -> None:
    """Else those of each attempt add up until it takes no more connections."""
    if why := postgres.missing(install):
        pytest.skip(why)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
    with ExitStack() as opened:
        server = opened.enter_context(postgres.open_server(install))
        url = server.create_database()
        registry = opened.enter_context(closing(registry_at(url, timeout=2.0)))
        registry.newest_decision()
        other = opened.enter_context(psycopg.connect(url))
        other.execute("SELECT * FROM discovery.decision_log FOR UPDATE")

        with pytest.raises(RegistryUnavailableError):
            registry.approve(SCOPE, [Approval("a", "1")], at=1.0)

        admin = opened.enter_context(server.admin())
        wait_until(lambda: admin.execute(waiting).fetchone() == (0,), "no session waits")


@pytest.mark.requirement("PGS-6")
def test_connections_that_the_server_ended_are_opened_anew(
    postgres_server: PostgresServer, url: str
) -> None:
    with closing(registry_at(url)) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)
        terminate(postgres_server, url)
        registry.approve(SCOPE, [Approval("b", "1")], at=1.0)
        terminate(postgres_server, url)

        assert registry.approvals(SCOPE).keys() == {"a", "b"}


@pytest.mark.thorough
@pytest.mark.requirement("PGS-6")
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_nothing_acknowledged_is_lost_when_the_server_restarts(
    own_server: PostgresServer, mode: str
) -> None:
    with closing(registry_at(own_server.create_database())) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)

        own_server.stop(mode)  # type: ignore[arg-type]
        with pytest.raises(RegistryUnavailableError):
            registry.approve(SCOPE, [Approval("b", "1")], at=1.0)
        own_server.start()

        registry.approve(SCOPE, [Approval("c", "1")], at=1.0)
        assert registry.approvals(SCOPE).keys() == {"a", "c"}


FAULTS: dict[str, Callable[[TcpProxy], None]] = {
    "silent": TcpProxy.hold,
    "cut, then gone": TcpProxy.close,
}


@pytest.mark.requirement("PGS-6")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize("is_open", [False, True])
def test_a_database_that_does_not_answer_fails_a_call_in_bounded_time(
    postgres_server: PostgresServer,
    proxy: TcpProxy,
    fault: Callable[[TcpProxy], None],
    is_open: bool,
) -> None:
    with closing(registry_at(through(proxy, postgres_server), timeout=2.0)) as registry:
        if is_open:
            registry.approvals(SCOPE)
        fault(proxy)

        with pytest.raises(RegistryUnavailableError) as caught:
            registry.approve(SCOPE, [Approval("a", "1")], at=1.0)

    assert str(proxy.port) in caught.value.message
    assert "discovery registry check" in caught.value.hint


@pytest.mark.requirement("PGS-6")
def test_a_first_host_that_is_silent_leaves_time_for_the_second(
    postgres_server: PostgresServer, proxy: TcpProxy
) -> None:
    name = postgres_server.create_database().rpartition("/")[2]
    proxy.hold()
    hosts = f"127.0.0.1:{proxy.port},127.0.0.1:{postgres_server.port}"
    url = postgres_server.url(name).replace(f"127.0.0.1:{postgres_server.port}", hosts)

    with closing(registry_at(url, timeout=6.0)) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)
        assert registry.approvals(SCOPE) == {"a": {"1"}}


@pytest.mark.requirement("PGS-6")
def test_connections_that_are_cut_cost_a_read_nothing(
    postgres_server: PostgresServer, proxy: TcpProxy
) -> None:
    with closing(registry_at(through(proxy, postgres_server))) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)
        for _ in range(3):
            proxy.cut()
            assert registry.approvals(SCOPE) == {"a": {"1"}}


@pytest.mark.requirement("PGS-6")
def test_a_read_only_database_is_read_and_says_so(
    postgres_server: PostgresServer, url: str
) -> None:
    with closing(registry_at(url)) as registry:
        registry.approve(SCOPE, [Approval("a", "1")], at=1.0)
        name = url.rpartition("/")[2]
        with postgres_server.admin() as admin:
            admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        terminate(postgres_server, url)

        assert registry.approvals(SCOPE) == {"a": {"1"}}
        with pytest.raises(RegistryUnavailableError, match="read-only"):
            registry.approve(SCOPE, [Approval("b", "1")], at=1.0)


@pytest.mark.requirement("PGS-7")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda url: url.replace("horse", "hor5e"),
        lambda url: url.replace("127.0.0.1", "no-such-host.invalid"),
        lambda url: f"{url}?sslmode=require",
        lambda url: f"{url}?sslmode=sometimes",
        lambda url: f"{url}-other",
    ],
    ids=["password", "host", "tls", "mode", "database"],
)
def test_no_error_has_the_password(url: str, wrong: Callable[[str], str]) -> None:
    with pytest.raises(RegistryError) as caught, closing(registry_at(wrong(url))) as registry:
        registry.newest_decision()

    text = f"{caught.value.message} {caught.value.hint}"
    assert not any(word in text for word in (PASSWORD, "correct%20", "hor5e"))
    assert caught.value.hint


@pytest.mark.requirement("PGS-8")
@pytest.mark.anyio
@pytest.mark.parametrize("look_every", [0.05, 3600.0], ids=["polled", "notified"])
async def test_a_decision_of_another_gateway_is_noticed(
    postgres_server: PostgresServer, url: str, look_every: float
) -> None:
    with (
        closing(registry_at(url)) as here,
        closing(registry_at(url)) as there,
        anyio.fail_after(60),
    ):
        async with aclosing(
            database_changes(here.database, newest_change, look_every=look_every)
        ) as changes:
            await anext(changes)
            for number in range(3):
                await anyio.to_thread.run_sync(
                    lambda n=number: there.approve(SCOPE, [Approval(f"s{n}", "1")], at=1.0)
                )
                await anext(changes)
                assert len(here.approvals(SCOPE)) == number + 1
            terminate(postgres_server, url)
            there.approve(SCOPE, [Approval("last", "1")], at=1.0)
            await anext(changes)
            assert len(here.approvals(SCOPE)) == 4


@pytest.mark.requirement("PGS-8")
@pytest.mark.anyio
async def test_a_gateway_listens_again_soon_after_its_connection_was_lost(
    postgres_server: PostgresServer, url: str
) -> None:
    """Nothing is looked for within an hour, so that what is noticed was notified."""
    noticed = list[None]()

    async def follow() -> None:
        changes = database_changes(here.database, newest_change, look_every=3600.0)
        async with aclosing(changes):
            async for change in changes:
                noticed.append(change)

    def listeners() -> int:
        query = "SELECT FROM pg_stat_activity WHERE datname = %s AND query LIKE 'LISTEN%%'"
        with postgres_server.admin() as admin:
            return admin.execute(query, (url.rpartition("/")[2],)).rowcount

    with (
        closing(registry_at(url)) as here,
        closing(registry_at(url)) as there,
        anyio.fail_after(60),
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await eventually(lambda: len(noticed) == 1)
            terminate(postgres_server, url)
            await eventually(lambda: listeners() == 1)
            there.approve(SCOPE, [Approval("s", "1")], at=1.0)
            await eventually(lambda: len(noticed) == 2)
            tasks.cancel_scope.cancel()


@pytest.mark.requirement("SRV-80")
def test_gateways_derive_one_key_from_the_password_or_from_a_secret_of_their_own(
    postgres_server: PostgresServer, url: str
) -> None:
    with (
        closing(registry_at(url)) as one,
        closing(registry_at(url)) as other,
        closing(registry_at(postgres_server.create_database())) as elsewhere,
    ):
        key = one.gateways.sealing_key()
        assert key == other.gateways.sealing_key() != elsewhere.gateways.sealing_key()
        assert one.gateways.sealing_key("secret") == other.gateways.sealing_key("secret") != key


@pytest.mark.thorough
@pytest.mark.requirement("SRV-80")
def test_without_a_password_gateways_have_a_key_only_with_a_secret_of_their_own(
    own_server: PostgresServer,
) -> None:
    url = own_server.create_database()
    own_server.trust_all()
    with closing(registry_at(url.replace(f":{PASSWORD.replace(' ', '%20')}@", "@"))) as registry:
        assert registry.gateways.sealing_key() is None
        assert registry.gateways.sealing_key("secret")
        [advice] = registry.state().advice
        assert "DISCOVERY_STATE_KEY" in advice
        assert registry.state(has_secret=True).advice == ()


@pytest.mark.thorough
@pytest.mark.requirement("PGS-7")
@pytest.mark.parametrize(("password", "is_short"), [("p", True), ("5" * 8, False)])
def test_another_password_is_advised_where_it_is_short(
    own_server: PostgresServer, password: str, is_short: bool
) -> None:
    url = own_server.create_database()
    own_server.trust_all()
    with closing(registry_at(url.replace(PASSWORD.replace(" ", "%20"), password))) as registry:
        advice = " ".join(registry.state().advice)

    assert ("fewer than 8 characters" in advice) is is_short
