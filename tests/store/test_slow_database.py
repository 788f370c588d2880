"""What a gateway promises whose database answers, but is slow with one thing, or refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import psycopg
import pytest

from discovery_engine._util.tasks import open_task_group
from discovery_engine.errors import RegistryTimeoutError
from discovery_engine.search.usage import UseCount
from discovery_engine.store.postgres.shared_registry import SharedRegistry
from tests.engines import Folder, good
from tests.factories import make_part, make_settings
from tests.postgres import PostgresServer
from tests.servers.programs import eventually
from tests.store.test_shared_registry import SCOPE, TOOL, Gateway, fill
from tests.tcp_proxy import open_proxy

pytestmark = pytest.mark.anyio
LOCK_USES = "LOCK TABLE discovery.uses IN EXCLUSIVE MODE"
LOCK_SCOPE = f"SELECT FROM discovery.scopes WHERE name = '{SCOPE}' FOR UPDATE"


@pytest.fixture
def gateway(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Gateway]:
    with open_proxy(postgres_server.port) as proxy:
        yield Gateway(postgres_server, proxy, tmp_path)


@contextmanager
def held(gateway: Gateway, lock: str) -> Iterator[None]:
    """Another program holds a lock."""
    with closing(psycopg.connect(gateway.direct)) as other:
        other.execute(lock.encode())
        yield


def refuse(gateway: Gateway, table: str, condition: str) -> None:
    with psycopg.connect(gateway.direct, autocommit=True) as admin:
        admin.execute(f"ALTER TABLE discovery.{table} ADD CONSTRAINT no CHECK {condition}".encode())


def allow(gateway: Gateway, table: str) -> None:
    with psycopg.connect(gateway.direct, autocommit=True) as admin:
        admin.execute(f"ALTER TABLE discovery.{table} DROP CONSTRAINT no".encode())


async def until_set_aside(store: SharedRegistry) -> None:
    await eventually(lambda: store.health.set_aside == 1)


async def until_written(store: SharedRegistry) -> None:
    await eventually(lambda: store.health.waiting == 0)


@pytest.mark.requirement("PGS-11", "PGS-8", "FLT-30")
async def test_a_write_that_waits_for_a_lock_holds_up_nothing_else(
    gateway: Gateway,
) -> None:
    with closing(gateway.open(timeout=2.0)) as store, closing(gateway.database()) as other:
        fill(store)
        with held(gateway, LOCK_USES):
            store.count_use(SCOPE, TOOL, at=1.0)
            other.set_switches(SCOPE, {"a": True}, at=2.0)

            assert store.switches(SCOPE)["a"].is_wanted
            await until_set_aside(store)
            other.set_switches(SCOPE, {"a": False}, at=3.0)
            assert not store.switches(SCOPE)["a"].is_wanted
            assert store.newest_decision() == other.newest_decision()
            assert store.health.error is None
            assert store.health.waiting == 1
            store.save_parts(SCOPE, [make_part("a", "newer")], revision=4)
            await eventually(lambda: store.health.waiting == 1)
            world = other.load(SCOPE)
            assert world
            assert [str(entry.key) for entry in world.catalog] == ["a:newer"]

        await until_written(store)
        assert other.uses(SCOPE) == {TOOL: UseCount(1, 1.0)}
        assert store.health.set_aside == store.health.dropped == 0


@pytest.mark.requirement("PGS-11", "PGS-5")
async def test_writes_that_wait_leave_a_connection_to_what_is_read(gateway: Gateway) -> None:
    with (
        closing(gateway.open(timeout=2.0, connections=2)) as store,
        closing(gateway.database()) as other,
    ):
        fill(store)
        with held(gateway, f"{LOCK_USES}; LOCK TABLE discovery.vectors IN EXCLUSIVE MODE"):
            store.count_use(SCOPE, TOOL, at=1.0)
            store.save_vectors(SCOPE, "m", {b"2": b"two"})
            other.set_switches(SCOPE, {"a": True}, at=2.0)

            while store.health.set_aside < 2:
                assert store.switches(SCOPE)["a"].is_wanted
                assert store.health.error is None
        await until_written(store)


@pytest.mark.requirement("PGS-11", "PGS-21", "FLT-30")
async def test_while_a_listing_waits_those_of_others_are_seen_and_count_more(
    gateway: Gateway,
) -> None:
    with closing(gateway.open(timeout=2.0)) as store, closing(gateway.database()) as other:
        fill(store)
        with held(gateway, LOCK_SCOPE):
            store.save_parts(SCOPE, [make_part("a", "ours"), make_part("b", "ours")], revision=4)
            await until_set_aside(store)
            gateway.proxy.refuse()
            store.newest_decision()
        other.save_parts(SCOPE, [make_part("a", "theirs")], revision=9)
        assert "theirs" not in str(store.changed_parts(SCOPE))
        gateway.proxy.release()
        gateway.wait_out()

        assert [part.server for part in store.changed_parts(SCOPE)] == ["a"]
        await until_written(store)
        world = other.load(SCOPE)
        assert world
        assert [str(entry.key) for entry in world.catalog] == ["a:theirs", "b:ours"]


@pytest.mark.requirement("PGS-13")
async def test_a_decision_that_times_out_is_refused_and_is_no_outage(gateway: Gateway) -> None:
    with closing(gateway.open(timeout=2.0)) as store:
        fill(store)
        with held(gateway, "LOCK TABLE discovery.switches IN SHARE MODE"):
            with pytest.raises(RegistryTimeoutError, match="the decision cannot be kept") as caught:
                store.set_switches(SCOPE, {"a": True}, at=2.0)

            assert "registry.timeout" in caught.value.hint
            assert store.health.error is None
            assert not store.switches(SCOPE)["a"].is_wanted


@pytest.mark.requirement("PGS-13")
async def test_a_database_whose_decisions_cannot_be_read_is_an_outage(gateway: Gateway) -> None:
    with closing(gateway.open(timeout=2.0)) as store:
        fill(store)
        with held(gateway, "LOCK TABLE discovery.switches IN ACCESS EXCLUSIVE MODE"):
            assert not store.switches(SCOPE)["a"].is_wanted
            assert store.health.error
        gateway.wait_out()
        store.switches(SCOPE)
        assert store.health.error is None


@pytest.mark.requirement("PGS-8", "PGS-11", "FLT-30")
async def test_a_decision_takes_effect_while_a_use_waits_to_be_counted(
    gateway: Gateway, folder: Folder
) -> None:
    database = {"url": "${DATABASE_URL}", "timeout": 60}
    folder.write(good(), registry=database, name="team", search={"learn": True})
    with anyio.fail_after(50):
        async with (
            folder.open(environ={"DATABASE_URL": gateway.url, "PATH": ""}) as engine,
            open_task_group() as tasks,
        ):
            await engine.refresh()
            [first, *_] = engine.view.catalog
            with closing(gateway.database()) as other:
                with held(gateway, LOCK_USES):
                    tasks.start_soon(engine._core.state.count_use, first.tool.key)
                    await anyio.wait_all_tasks_blocked()
                    switch = {"good": False}
                    await anyio.to_thread.run_sync(
                        lambda: other.set_switches("name:team", switch, at=1.0)
                    )
                    await engine.apply_decisions()
                    assert not list(engine.view.catalog.visible)
                await eventually(lambda: bool(other.uses("name:team")))


@pytest.mark.requirement("PGS-6")
async def test_vectors_are_written_and_read_in_batches(gateway: Gateway) -> None:
    vectors = {number.to_bytes(4, "big"): b"%d" % number for number in range(7000)}
    with closing(gateway.database()) as registry:
        registry.save_settings(SCOPE, make_settings("a"))
        refuse(gateway, "vectors", "(data <> '6999')")
        with pytest.raises(Exception, match="refused an operation"):
            registry.save_vectors(SCOPE, "m", vectors)
        assert 0 < registry.vector_count(SCOPE) < len(vectors)

        allow(gateway, "vectors")
        registry.save_vectors(SCOPE, "m", vectors)
        assert registry.vectors("m", vectors) == vectors
        assert registry.keep_vectors(SCOPE, "m", vectors) == 0
        assert registry.vector_count(SCOPE) == len(vectors)


@pytest.mark.requirement("PGS-6")
async def test_servers_are_added_and_dropped_in_parts(gateway: Gateway) -> None:
    names = [f"server-{number:05}" for number in range(25_000)]
    with closing(gateway.database()) as registry:
        registry.save_settings(SCOPE, make_settings("a"))
        refuse(gateway, "servers", f"(name <> '{names[-1]}')")
        with pytest.raises(Exception, match="refused an operation"):
            registry.save_settings(SCOPE, make_settings(*names))
        assert 0 < len(saved_servers(gateway)) < len(names)

        allow(gateway, "servers")
        registry.save_settings(SCOPE, make_settings(*names))
        assert saved_servers(gateway) == names
        registry.save_settings(SCOPE, make_settings("a", names[7]))
        assert saved_servers(gateway) == ["a", names[7]]


def saved_servers(gateway: Gateway) -> list[str]:
    with psycopg.connect(gateway.direct) as admin:
        query = "SELECT name FROM discovery.servers ORDER BY name"
        return [name for (name,) in admin.execute(query)]
