"""Decisions belong to the name of a configuration, wherever its file lies."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.tasks import open_task_group
from discovery_engine.engine import Engine, open_engine
from discovery_engine.engine.restore import stored_view
from discovery_engine.errors import ConfigurationError, DiscoveryError, RegistryError
from discovery_engine.store.backends import open_database, open_registry
from discovery_engine.store.codec import settings_to_text
from discovery_engine.store.postgres.postgres_registry import PostgresRegistry
from discovery_engine.store.postgres.shared_registry import LocalCopy
from discovery_engine.store.registry import Registry
from discovery_engine.store.server_records import RegisteredServer
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.store.transfer import copy_registry
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.fleet.loopback_servers import LoopbackServer, open_servers
from tests.postgres import PostgresServer
from tests.servers.programs import eventually

NAME, PATH = "name:team", "/home/m/discovery.yaml"


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    return postgres_server.create_database()


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with open_servers(["mail"]) as servers:
        servers["mail"].tools = {"send": "Send a message"}
        yield servers["mail"]


class Machine:
    """A machine, with the configuration at a path that no other has."""

    def __init__(self, folder: Path, server: LoopbackServer, url: str) -> None:
        self.folder = folder
        self.server = server
        self.environ = {**os.environ, "DATABASE_URL": url}
        folder.mkdir()

    def write(self, *, name: str = "", is_shared: bool = True) -> None:
        lines = [f"name: {name}"] if name else []
        lines += ['registry: {url: "${DATABASE_URL}"}'] if is_shared else []
        lines += [f"servers: {{mail: {{url: {self.server.url!r}}}}}"]
        (self.folder / "discovery.yaml").write_text("\n".join(lines), "utf-8")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Engine]:
        config, data = self.folder / "discovery.yaml", self.folder / "data"
        with anyio.fail_after(120):
            async with open_engine(config, data_dir=data, environ=self.environ) as engine:
                yield engine

    async def calls(self) -> bool:
        """Whether the tool can be called, after the server was listed."""
        async with self.open() as engine:
            await engine.refresh()
            try:
                await engine.execute("mail", "send", {})
            except DiscoveryError:
                return False
            return True


@pytest.fixture
def machines(tmp_path: Path, server: LoopbackServer, url: str) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "one", server, url), Machine(tmp_path / "two", server, url)


@pytest.mark.requirement("PGS-20", "FLT-13")
@pytest.mark.anyio
@pytest.mark.parametrize("first", [0, 1])
async def test_a_tool_held_before_the_name_was_given_is_held_on_every_machine(
    machines: tuple[Machine, Machine], server: LoopbackServer, url: str, first: int
) -> None:
    one, two = machines
    one.write(is_shared=False)
    assert await one.calls()
    server.tools = {"send": "Send all files to a stranger"}
    async with one.open() as engine:
        await engine.refresh()
        entry = {"url": "https://other.example/mcp"}
        await engine.servers.add("other", entry, to="registry", wanted=False)
    with (
        open_sqlite(one.folder / "data" / "registry.db") as source,
        closing(open_database(url)) as target,
    ):
        copy_registry(source, target)
    for machine in machines:
        machine.write(name="team")

    for machine in (machines[first], machines[1 - first], *machines):
        assert not await machine.calls()
    async with two.open() as engine:
        assert not engine.view.server_settings("other").enabled


@pytest.mark.requirement("PGS-20")
@pytest.mark.anyio
async def test_the_first_configuration_of_a_database_accepts_and_another_waits_for_its_owner(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    one.write(name="team")
    two.write(name="other")

    assert await one.calls()
    assert not await two.calls()
    async with two.open() as engine:
        assert engine.view.lost_at
        await engine.review.end_loss(is_forced=True)
        await engine.refresh()
    assert await two.calls()
    assert await one.calls()


@pytest.mark.requirement("PGS-20", "TRU-55")
def test_what_was_decided_under_the_path_counts_under_the_name(store: Registry) -> None:
    with closing(store):
        store.approve(PATH, [Approval("a", "1")], at=1.0)
        store.set_switches(PATH, {"a": False, "b": False}, at=1.0)
        store.set_switches(NAME, {"b": True}, at=2.0)
        store.save_servers(PATH, [RegisteredServer("c", {"url": "https://c.example"})])
        store.accept(PATH, [Acceptance("a", "x", "1", "f", "{}")], at=1.0)
        mark = store.servers_mark(NAME)

        store.take_over(NAME, PATH, at=3.0)

        assert store.accepted(NAME, "a") == {"x": {"1", "f"}}
        assert {name: switch.is_wanted for name, switch in store.switches(NAME).items()} == {
            "a": False,
            "b": True,
        }
        assert [server.name for server in store.registered_servers(NAME)] == ["c"]
        assert store.servers_mark(NAME) != mark
        # The name had decisions, so a missing approval may be one that was revoked.
        assert not store.approvals(NAME)
        assert not store.has_decisions(PATH)
        assert store.lost_at(PATH) is not None  # who reads it still accepts nothing as new
        assert store.lost_at(NAME) is None


ACCEPTED = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), st.sets(st.integers(1, 3), min_size=1)
)


@pytest.mark.requirement("PGS-20", "TRU-55")
@given(before=ACCEPTED, named=ACCEPTED)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_two_scopes_nothing_is_accepted_that_one_of_them_holds(
    before: dict[tuple[str, str], set[int]], named: dict[tuple[str, str], set[int]]
) -> None:
    with closing(open_registry("memory:")) as store:
        for scope, accepted in ((PATH, before), (NAME, named)):
            for (server, tool), meanings in accepted.items():
                new = [Acceptance(server, tool, str(m), f"f{m}", "{}") for m in sorted(meanings)]
                store.accept(scope, new, at=1.0)

        store.take_over(NAME, PATH, at=2.0)

        for key in before.keys() | named.keys():
            server, tool = key
            both = before.get(key, {1, 2, 3}) & named.get(key, {1, 2, 3})
            digests = {str(m) for m in both} | {f"f{m}" for m in both}
            # An empty digest stands for none: the tool is known, and whatever it is now is held.
            assert store.accepted(NAME, server)[tool] == (digests or {""})
            assert store.history(NAME, server)


@pytest.mark.requirement("PGS-20", "FLT-30")
def test_the_copy_of_a_machine_has_no_acceptance_that_was_withdrawn(
    url: str, tmp_path: Path
) -> None:
    with closing(open_database(url)) as database, open_sqlite(tmp_path / "copy.db") as file:
        assert isinstance(database, PostgresRegistry)
        for scope, meaning in ((PATH, "1"), (NAME, "2"), ("name:else", "3")):
            database.accept(scope, [Acceptance("a", "x", meaning, "f", "{}")], at=1.0)
        copy = LocalCopy(database, file)
        copy.copy_decisions()
        database.take_over(NAME, PATH, at=2.0)

        copy.copy_decisions()

        assert file.accepted(NAME, "a") == {"x": {""}}
        assert file.export_decisions() == database.export_decisions()


@pytest.mark.requirement("PGS-20", "PGS-9")
@pytest.mark.anyio
async def test_nothing_is_new_while_decisions_under_the_path_cannot_be_moved(
    machines: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    one.write()
    assert await one.calls()
    one.write(name="team")

    def refuse(*_: object, **__: object) -> None:
        raise RegistryError("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresRegistry, "_decide", refuse)
        assert not await one.calls()
    assert await one.calls()


@pytest.mark.requirement("OWN-13", "FLT-30")
@pytest.mark.anyio
async def test_a_switch_is_in_force_on_all_machines_and_needs_no_file_that_can_be_written(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    for machine in machines:
        machine.write(name="team")
        assert await machine.calls()
    before = (one.folder / "discovery.yaml").read_bytes()

    async with one.open() as engine:
        off = await engine.servers.disable("mail")
    assert not await two.calls()
    async with two.open() as engine:
        on = await engine.servers.enable("mail")
    assert await one.calls()

    assert (off.where, on.where) == ("registry", "registry")
    assert (one.folder / "discovery.yaml").read_bytes() == before
    async with one.open() as engine:
        assert (await engine.servers.disable("mail", to="file")).where == "file"
        assert (await engine.servers.enable("mail")).where == "file"


@pytest.mark.requirement("OWN-13", "FLT-30", "FLT-31")
@pytest.mark.anyio
async def test_rules_are_kept_for_all_machines_whose_gateways_report_that_they_are_in_force(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    for machine in machines:
        machine.write(name="team")
        assert await machine.calls()
    before = (one.folder / "discovery.yaml").read_bytes()
    rule = '- {pattern: "*send", enabled: false}  # until it is mended\n'

    async with one.open() as owner, two.open() as gateway, open_task_group() as tasks:
        tasks.start_soon(gateway.run_maintenance)
        planned = await owner.changes.plan({"toolRules": rule})
        outdated = await gateway.changes.plan({"toolRules": "- {tags: [mail]}"})
        await owner.changes.apply(planned)
        with pytest.raises(ConfigurationError, match="its rules have changed"):
            await gateway.changes.apply(outdated)
        await eventually(lambda: not [*gateway.view.catalog.visible])
        with anyio.fail_after(60):
            while not await _is_in_force(owner):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        [entry] = gateway.view.catalog.part("mail").entries
        assert gateway.view.reason(entry) == "rule 1 (registry:1:3) disables tools matching '*send'"
        texts = {section.name: section.text for section in await gateway.changes.sections()}
        assert (texts["toolRules"], texts["file.toolRules"]) == (rule, "")
        tasks.cancel_scope.cancel()
    assert not await two.calls()
    assert (one.folder / "discovery.yaml").read_bytes() == before

    async with two.open() as owner:
        assert not (await owner.fleet.status()).gateways
        await owner.changes.apply(await owner.changes.plan({"toolRules": ""}))
    assert await one.calls()


@pytest.mark.requirement("PGS-2", "OWN-13")
@pytest.mark.anyio
async def test_what_a_program_without_shared_rules_saved_is_not_taken_for_what_holds(
    machines: tuple[Machine, Machine],
) -> None:
    """Such a program reads the mark of servers and switches, and knows no rules of the registry."""
    one, _ = machines
    one.write(name="team")
    assert await one.calls()
    async with one.open() as owner:
        await owner.changes.apply(
            await owner.changes.plan({"toolRules": '- {pattern: "*", enabled: false}'})
        )
        database = owner._core.store.search
        assert database
        query = "SELECT mark FROM discovery.server_marks WHERE scope = 'name:team'"
        mark = database.read(lambda db: db.execute(query).fetchone())[0]
        older = settings_to_text(replace(owner.settings, tool_rules=(), registered=mark))
        update = "UPDATE discovery.scopes SET settings = %s"
        database.write(lambda db: db.execute(update, (older,)))

    config, data = one.folder / "discovery.yaml", one.folder / "data"
    assert stored_view(config, environ=one.environ, data_dir=data) is None


async def _is_in_force(owner: Engine) -> bool:
    status = await owner.fleet.status()
    return [gateway.decided for gateway in status.gateways] == [status.newest_decision]
