"""The engine as servers come, go and change: specs/library.md, on real child processes."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from discovery_engine import Engine, ServerState
from discovery_engine.errors import ConfigurationError
from discovery_engine.events import (
    CatalogChanged,
    ConfigurationReloaded,
    Event,
    ServerConnected,
    ServerConnecting,
    ServerDiscovering,
    ServerFailed,
)
from tests.engines import (
    Changing,
    Folder,
    Gate,
    good,
    heard,
    pid_of,
    program,
    summary,
    tool_names,
)
from tests.factories import make_definition
from tests.servers.programs import eventually, fault_server, is_running, text_of
from tests.told import Told

pytestmark = pytest.mark.anyio

NO_ECHO = [{"pattern": "echo", "enabled": False}]


class TestRefreshing:
    @pytest.mark.requirement("LIB-30")
    async def test_a_server_that_hangs_holds_up_no_other(self, folder: Folder) -> None:
        gate = Gate(folder.path / "gate")
        folder.write(gate.before(program("hanging", "/bin/false")), good("a"), good("b"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.refresh)
                await heard_of_all(events, ServerConnected, "a", "b")
                found = (await engine.search("echo")).hits
                result = await engine.execute("a", "echo", {"text": "x"})
                hanging = summary(engine.view, "hanging").state
                gate.open()
                failure = await heard(events, ServerFailed, "hanging")

        assert {hit.entry.tool.server for hit in found} == {"a", "b"}
        assert json.loads(text_of(result)) == {"text": "x"}
        assert hanging is ServerState.STARTING
        assert failure.code == "SERVER_CONNECTION_ERROR"

    @pytest.mark.requirement("LIB-11")
    async def test_a_server_that_fails_keeps_its_last_known_tools(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "tell_time")
        folder.write(changing.server("clock"))
        async with folder.open() as engine:
            await engine.refresh()
        changing.file.unlink()

        async with folder.open() as engine:
            report = await engine.refresh()
            answer = await engine.search("tell time")
            [server] = engine.view.servers()

        assert report.servers[0][1] is not None
        assert answer.hits[0].entry.tool.name == "tell_time"
        assert server.is_stale
        assert server.state is ServerState.FAILING
        assert "last known tools" in answer.notices[0].message

    @pytest.mark.requirement("LIB-32")
    async def test_a_report_says_what_failed_and_what_became_different(
        self, folder: Folder
    ) -> None:
        changing = Changing.beside(folder.path, "old", "kept")
        folder.write(changing.server("clock"), fault_server("crash_start", name="dead"))

        async with folder.open() as engine:
            first = await engine.refresh()
            changing.has("kept", "new")
            second = await engine.refresh(["clock"])

        [(clock, fine), (dead, failure)] = first.servers
        assert (clock, fine, dead) == ("clock", None, "dead")
        assert failure is not None
        assert failure.code == "SERVER_CONNECTION_ERROR"
        assert [str(key) for key in first.diff.added] == ["clock:kept", "clock:old"]
        assert [str(key) for key in second.diff.added] == ["clock:new"]
        assert [str(key) for key in second.diff.removed] == ["clock:old"]
        assert second.servers == (("clock", None),)

    @pytest.mark.requirement("LIB-33")
    async def test_those_who_ask_at_the_same_time_share_one_listing(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(engine.refresh)
                tasks.start_soon(engine.list_tools, "clock")
                tasks.start_soon(engine.details, "clock", "a")

        assert changing.asked == 1

    @pytest.mark.requirement("LIB-34")
    async def test_only_what_is_due_is_asked_again(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"), cache={"ttl": 100})
        now = 1000.0

        async with folder.open(clock=lambda: now) as engine:
            await engine.refresh(only_due=True)
            now = 1099.0
            await engine.refresh(only_due=True)
            assert changing.asked == 1
            now = 1100.0
            await engine.refresh(only_due=True)
            assert changing.asked == 2

    @pytest.mark.requirement("LIB-34")
    async def test_a_server_that_tells_of_a_change_is_asked_again(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "announce", "old")
        folder.write(changing.server("clock"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.run_maintenance)
                await heard(events, ServerConnected, "clock")
                changing.has("announce", "new")
                await engine.execute("clock", "announce", {})
                await heard(events, CatalogChanged)
                await heard(events, ServerConnected, "clock")
            names = tool_names(engine.view, "clock")
            tasks.cancel_scope.cancel()

        assert names == ["announce", "new"]


async def heard_of_all(events: Any, kind: type[Event], *servers: str) -> None:
    missing = set(servers)
    while missing:
        event = await heard(events, kind)
        missing.discard(getattr(event, "server", ""))


class TestEvents:
    @pytest.mark.requirement("LIB-40")
    async def test_a_listing_is_reported_step_by_step(self, folder: Folder) -> None:
        folder.write(good())
        told: list[Event] = []

        async with folder.open() as engine:
            with engine.subscribe() as events:
                await engine.refresh()
                while not isinstance((told or [None])[-1], ServerConnected):
                    told.append(await anext(events))

        steps = [ServerConnecting, ServerDiscovering, CatalogChanged, ServerConnected]
        assert [type(event) for event in told if type(event) in steps] == steps
        assert str(getattr(told[-1], "server", "")) == "good"


class TestReloading:
    @pytest.mark.requirement("LIB-50")
    @pytest.mark.parametrize(
        "then",
        [
            pytest.param([], id="removed"),
            pytest.param([good(env={"A": "b"})], id="reached in another way"),
        ],
    )
    async def test_a_server_that_is_not_reached_so_any_more_is_ended(
        self, folder: Folder, then: list[Any]
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            pid = await pid_of(engine, "good")
            folder.write(*then)
            await engine.reload()
            await eventually(lambda: not is_running(pid))

    @pytest.mark.requirement("LIB-50")
    async def test_a_configuration_that_cannot_be_used_leaves_the_last_good_one(
        self, folder: Folder
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            pid = await pid_of(engine, "good")
            folder.config.write_text("servers: [", "utf-8")
            with pytest.raises(ConfigurationError):
                await engine.reload()

            assert await pid_of(engine, "good") == pid
            assert [server.name for server in engine.settings.servers] == ["good"]

    @pytest.mark.requirement("LIB-50")
    async def test_new_rules_change_verdicts_without_asking_a_server(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "echo", "other")
        folder.write(changing.server("clock"))

        async with folder.open() as engine:
            await engine.refresh()
            folder.write(
                changing.server("clock"),
                toolRules=[*NO_ECHO, {"pattern": "other", "tags": ["tagged"]}],
            )
            with engine.subscribe() as events:
                await engine.reload()
                changed = await heard(events, CatalogChanged)
                await heard(events, ConfigurationReloaded)
            listed = await engine.list_tools("clock")
            disabled = await engine.search("echo", include_disabled=True)

        assert [entry.tool.name for entry in listed.entries] == ["other"]
        assert listed.entries[0].verdict.tags == ("tagged",)
        assert not disabled.hits[0].entry.verdict.enabled
        assert changed.changed == 2
        assert changing.asked == 1

    @pytest.mark.requirement("LIB-50")
    async def test_a_listing_under_way_is_judged_by_the_rules_of_its_end(
        self, folder: Folder
    ) -> None:
        gate = Gate(folder.path / "gate")
        server = gate.before(good())
        folder.write(server)

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.refresh)
                await heard(events, ServerConnecting)
                folder.write(server, toolRules=NO_ECHO)
                await engine.reload()
                gate.open()
                await heard(events, ServerConnected)
            verdicts = {e.tool.name: e.verdict.enabled for e in engine.view.catalog}

        assert verdicts == {"echo": False, "environment": True, "pid": True}

    @pytest.mark.requirement("LIB-50")
    async def test_what_a_server_said_where_it_is_no_longer_reached_is_not_taken(
        self, folder: Folder
    ) -> None:
        gate = Gate(folder.path / "gate")
        changing = Changing.beside(folder.path, "here")
        folder.write(gate.before(good()))

        async with folder.open() as engine:
            async with anyio.create_task_group() as tasks:
                with engine.subscribe() as events:
                    tasks.start_soon(engine.refresh)
                    await heard(events, ServerConnecting)
                    folder.write(changing.server("good"))
                    await engine.reload()
                    gate.open()
            names = tool_names(engine.view, "good")

        assert names == ["here"]


@pytest.mark.requirement("REG-25")
async def test_a_running_gateway_serves_what_another_process_refreshed(folder: Folder) -> None:
    ping, pong = (
        make_definition("ping", "Answer at once."),
        make_definition("pong", "Answer later."),
    )
    told = Told.beside(folder.path, ping)
    folder.write(told.server())

    def shown(engine: Engine) -> list[str]:
        return [str(entry.key) for entry in engine.view.catalog.visible]

    async with folder.open() as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run_maintenance)
        await eventually(lambda: shown(gateway) == ["told:ping"])
        told.says(ping, pong)
        async with folder.open() as command:
            await command.refresh(["told"])

        await eventually(lambda: shown(gateway) == ["told:ping", "told:pong"])
        tasks.cancel_scope.cancel()
