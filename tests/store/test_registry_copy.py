"""A registry copied into one of another back-end, whatever it holds."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Failure
from discovery_engine.config.settings import RegistrySettings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.engine.named_registry import open_named, open_target
from discovery_engine.errors import RegistryError
from discovery_engine.search.examples.book import WrittenRequests
from discovery_engine.store.backends import open_database
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.refresh_job import RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.store.server_records import RegisteredServer
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.store.sqlite.sqlite_registry import SqliteRegistry, open_sqlite
from discovery_engine.store.stored_records import AgentRequest, Preset
from discovery_engine.store.tables.webhook_table import address_of
from discovery_engine.store.transfer import content_of, copy_registry
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.factories import make_part, make_settings
from tests.postgres import PostgresServer
from tests.worlds import worlds

SCOPE = "/home/\udcff/discovery.yaml"
STRANGE = "s\udc80\0"
HOUR = 3600.0
HOOKS = tuple(WebhookSettings(name, f"https://{name}.example") for name in ("gone", "ops"))
SETTINGS = replace(make_settings("a", STRANGE), webhooks=HOOKS)
ALL = {
    "decisions": 7, "settings": 1, "servers": 2, "listings": 2, "uses": 1, "vectors": 1,
    "uses of vectors": 1, "written requests": 1, "presets": 1, "requests of agents": 1,
    "refresh jobs": 2, "webhooks": 2, "deliveries": 7,
}  # fmt: skip


def fill(store: SqliteRegistry | PostgresRegistry) -> None:
    """Something of every kind, with names that are no UTF-8."""
    store.save_settings(SCOPE, SETTINGS)
    store.save_parts(SCOPE, [make_part(STRANGE, "x", "y")], revision=3)
    store.count_use(SCOPE, ToolKey(ServerName(STRANGE), ToolName("x")), at=9.0)
    store.save_vectors(SCOPE, "m", {b"1": b"\x00one"})
    store.approve(SCOPE, [Approval(STRANGE, "1")], at=1.0)
    for meaning in ("1", "2", "1"):
        store.accept(SCOPE, [Acceptance(STRANGE, "x", meaning, "f", '"\\u0000"')], at=2.0)
    store.save_servers(SCOPE, [RegisteredServer(STRANGE, {"url": "https://a.example"})])
    store.save_servers("other", [RegisteredServer("b", {"url": "https://b.example"})])
    store.set_switches(SCOPE, {STRANGE: False, "gone": True}, at=4.0)
    store.save_requests([WrittenRequests(STRANGE, "x", "f", ("do it",), "m", 1, 5.0)])
    store.save_preset(SCOPE, Preset(STRANGE, "x", "usual", {"a": "\0"}, 6.0))
    store.save_agent_request(SCOPE, AgentRequest("r1", "sync", arguments={"a": "\0"}))
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name)) for name in ("a", STRANGE)])
    [job] = store.claim_refreshes(SCOPE, "lost", limit=1, lease=HOUR)
    store.fail_refresh(job.claim, "UPSTREAM_UNAVAILABLE", "it exited", retry_in=HOUR)
    store.hasten_refreshes(SCOPE, [STRANGE], priority=7)
    store.claim_refreshes(SCOPE, "lost", limit=1, lease=HOUR)
    store.disable_webhook(SCOPE, "gone", "410", address=address_of(HOOKS[0]))
    first, *_ = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)
    store.finish_delivery(first)


@pytest.mark.requirement("PGS-17")
def test_a_copy_there_and_back_is_the_same_registry(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.create_database()
    with (
        open_sqlite(tmp_path / "one" / "registry.db") as original,
        closing(open_database(url)) as database,
        open_sqlite(tmp_path / "two" / "registry.db") as back,
    ):
        fill(original)
        there = copy_registry(original, database)
        again = copy_registry(database, back)

        assert there == again == content_of(original)
        assert {kind: one.count for kind, one in there.items()} == ALL
        for store in (database, back):
            assert store.load(SCOPE) == original.load(SCOPE)
            assert store.history(SCOPE, "s\udc80\0") == original.history(SCOPE, "s\udc80\0")
            assert store.servers_mark(SCOPE) == original.servers_mark(SCOPE)
            assert store.newest_decision() == original.newest_decision()
            assert store.lost_at(SCOPE) is None
            assert store.webhook_states(SCOPE) == original.webhook_states(SCOPE)
    with open_sqlite(tmp_path / "two" / "registry.db") as reopened:  # its second copy agrees, too
        assert content_of(reopened) == there


@pytest.mark.requirement("PGS-17")
def test_a_copied_registry_goes_on_where_it_was(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        fill(original)
        jobs = original.refresh_jobs(SCOPE)
        copy_registry(original, database)

        assert database.refresh_jobs(SCOPE) == jobs
        database.plan_refreshes(SCOPE, [RefreshTarget(ServerName("new"))])
        [claimed] = database.claim_refreshes(SCOPE, "next", limit=9, lease=HOUR)
        assert claimed.fence > max(job.fence for job in jobs)
        database.save_settings("another", make_settings("b"))
        database.save_parts("another", [make_part("b", "z")], revision=1)
        database.save_vectors(SCOPE, "m", {b"2": b"two"})
        database.save_agent_request(SCOPE, AgentRequest("r2", "sync"))
        assert len(database.agent_requests(SCOPE)) == database.vector_count(SCOPE) == 2


@pytest.mark.requirement("PGS-17")
def test_a_copy_makes_no_event_and_forgets_no_receiver_that_is_gone(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        fill(original)
        copied = copy_registry(original, database)
        database.save_settings(SCOPE, SETTINGS)

        assert content_of(database)["deliveries"] == copied["deliveries"]
        gone, ops = database.webhook_states(SCOPE)
        assert (gone.disabled_at is None, gone.failure) == (False, "410")
        assert (ops.disabled_at, ops.delivered) == (None, 1)


@pytest.mark.requirement("PGS-17")
def test_a_failure_that_was_reported_is_not_reported_again_by_a_copy(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    hook = WebhookSettings("ops", "https://ops.example", events=("server.failing",))
    failing = replace(make_part("a", "x"), failure=Failure("UPSTREAM_TIMEOUT", "slow", "", 1.0))
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        original.save_settings(SCOPE, replace(make_settings("a"), webhooks=(hook,)))
        original.save_parts(SCOPE, [failing], revision=1)
        copy_registry(original, database)
        database.save_parts(SCOPE, [failing], revision=2)

        assert content_of(database)["deliveries"].count == 1


@pytest.mark.requirement("PGS-17")
def test_much_of_a_kind_is_written_in_transactions_of_a_bounded_size(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url, many = postgres_server.create_database(), range(2500)
    reports: list[str] = []
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(url)) as database,
        open_sqlite(tmp_path / "back.db", sqlite_version=(3, 40, 1)) as back,
    ):
        original.save_settings(SCOPE, make_settings("a"))
        original.save_parts(SCOPE, [make_part("a", "x")], revision=1)
        original.approve(SCOPE, [Approval("a", str(n)) for n in many], at=1.0)
        original.accept(SCOPE, [Acceptance("a", f"t{n}", "m", "f", "{}") for n in many], at=2.0)
        original.save_vectors(SCOPE, "m", {n.to_bytes(4): bytes(8) for n in many})
        copy_registry(original, database, report=reports.append)
        copy_registry(database, back)

        assert content_of(back) == content_of(original)
    with psycopg.connect(url) as connection:
        for table in ("acceptances", "approvals", "vectors"):
            query = f"SELECT count(*) FROM discovery.{table} GROUP BY xmin"
            sizes = [size for (size,) in connection.execute(query)]
            assert (sum(sizes), max(sizes) <= 1000, len(sizes) < 10) == (len(many), True, True)
    changes = int.from_bytes((tmp_path / "back.db").read_bytes()[24:28])
    assert changes < 100  # transactions, by SQLite's own count in the head of the file
    assert "vectors: 1,000 of 2,500" in reports
    assert "decisions: 5,000" in reports


@pytest.mark.requirement("PGS-17")
@pytest.mark.parametrize(("timeout", "limit"), [(5.0, "61s"), (90.0, "91s")])
def test_both_databases_have_time_to_be_read(
    postgres_server: PostgresServer, tmp_path: Path, timeout: float, limit: str
) -> None:
    url = postgres_server.create_database()
    named = replace(make_settings(), registry=RegistrySettings("${DATABASE_URL}", timeout=timeout))
    environ = {"DATABASE_URL": url}
    for opened in (
        open_named(named, data_dir=tmp_path, environ=environ),
        open_target("${DATABASE_URL}", named, data_dir=tmp_path, environ=environ),
    ):
        with closing(opened):
            assert isinstance(opened, PostgresRegistry)
            # One second more than the client waits.
            shown = opened.database.read(lambda db: db.execute("SHOW statement_timeout").fetchone())
            assert shown == (limit,)


@pytest.mark.requirement("PGS-17")
def test_more_configurations_than_a_file_keeps_are_refused_before_anything_is_written(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with (
        closing(open_database(postgres_server.create_database())) as database,
        open_sqlite(tmp_path / "registry.db") as file,
    ):
        for number in range(file.most_scopes + 1):
            database.save_settings(f"/{number}/discovery.yaml", make_settings("a"))

        with pytest.raises(RegistryError, match="has 51 configurations") as caught:
            copy_registry(database, file)

        assert "PostgreSQL" in caught.value.hint
        assert not any(part.count for part in content_of(file).values())


class CutOffError(Exception):
    pass


@pytest.mark.requirement("PGS-17")
@pytest.mark.parametrize("is_database", [True, False])
def test_a_copy_that_was_cut_off_accepts_nothing_because_it_is_new(
    postgres_server: PostgresServer, tmp_path: Path, *, is_database: bool
) -> None:
    def cut_off(text: str) -> None:
        if text.startswith("decisions"):
            raise CutOffError

    with ExitStack() as stack:
        original = stack.enter_context(open_sqlite(tmp_path / "registry.db"))
        file = stack.enter_context(open_sqlite(tmp_path / "copy.db"))
        url = postgres_server.create_database()
        database = stack.enter_context(closing(open_database(url)))
        target: Registry = database if is_database else file
        fill(original)
        with pytest.raises(CutOffError):
            copy_registry(original, target, report=cut_off)

        assert target.lost_at(SCOPE) is not None
        with pytest.raises(RegistryError, match="is not empty"):
            copy_registry(original, target)


@pytest.mark.requirement("PGS-17")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), scope=st.text(st.characters()))
def test_any_catalog_is_copied_as_it_is(
    postgres_server: PostgresServer, tmp_path: Path, world: Snapshot, scope: str
) -> None:
    name = f"{abs(hash((scope, id(world))))}.db"
    with (
        open_sqlite(tmp_path / name) as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        original.save_settings(scope, world.settings)
        original.save_parts(scope, world.catalog.parts.values(), revision=7)

        copy_registry(original, database)

        assert database.load(scope) == original.load(scope)


@pytest.mark.requirement("PGS-17")
def test_what_is_there_is_never_written_over(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        fill(original)
        database.approve("mine", [Approval("a", "1")], at=1.0)

        with pytest.raises(RegistryError, match="is not empty") as caught:
            copy_registry(original, database)

        assert "empty" in caught.value.hint
        assert database.approvals("mine") == {"a": {"1"}}
        assert content_of(database)["settings"].count == 0
