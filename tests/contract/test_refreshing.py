"""The engine as servers come, go and change: specs/library.md, on real child processes."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine import Engine
from discovery_engine.errors import (
    ConfigurationError,
    UpstreamError,
)
from discovery_engine.events import (
    CatalogChanged,
    ConfigurationReloaded,
    Event,
    ServerConnected,
    ServerConnecting,
    ServerDiscovering,
    ServerFailed,
)
from discovery_engine.runtime.restore import stored_view
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState
from discovery_engine.view.view import View
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

    @pytest.mark.requirement("LIB-31")
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

    @pytest.mark.requirement("LIB-33")
    async def test_one_who_gives_up_waiting_ends_the_listing_for_nobody(
        self, folder: Folder
    ) -> None:
        gate = Gate(folder.path / "gate")
        folder.write(gate.before(good()))

        async with folder.open() as engine:
            with anyio.move_on_after(0.0):
                await engine.refresh()
            with engine.subscribe() as events:
                gate.open()
                await heard(events, ServerConnected, "good")

            assert tool_names(engine.view, "good")

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

    @pytest.mark.requirement("LIB-35")
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

    @pytest.mark.requirement("LIB-35")
    async def test_a_server_that_a_reload_brings_is_asked_at_once(self, folder: Folder) -> None:
        folder.write(good("a"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.run_maintenance)
                await heard(events, ServerConnected, "a")
                folder.write(good("a"), good("b"))
                await engine.reload()
                await heard(events, ServerConnected, "b")
            tasks.cancel_scope.cancel()

    @pytest.mark.requirement("LIB-36")
    async def test_the_first_paint_waits_for_those_of_whom_nothing_is_known(
        self, folder: Folder
    ) -> None:
        gate = Gate(folder.path / "gate")
        folder.write(good("a"), fault_server("crash_start", name="dead"))
        async with folder.open() as engine:
            await engine.wait_listed(timeout=20)
            view = engine.view
            assert tool_names(view, "a")
            assert summary(view, "dead").state is ServerState.FAILING

            folder.write(good("a"), gate.before(good("b")))
            await engine.reload()
            await engine.wait_listed(timeout=0.01)

            assert summary(engine.view, "b").state is ServerState.STARTING


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
        assert told[-1] == ServerConnected(ServerName("good"), 3)

    @pytest.mark.requirement("LIB-41")
    async def test_who_hears_of_a_listing_finds_the_view_changed(self, folder: Folder) -> None:
        folder.write(good())

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.refresh)
                await heard(events, ServerConnected, "good")
                assert len(tool_names(engine.view, "good")) == 3


class TestReloading:
    @pytest.mark.requirement("LIB-50")
    async def test_a_server_that_is_reached_as_before_keeps_its_process(
        self, folder: Folder
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            before = await pid_of(engine, "good")
            folder.write(good(tags=("new",)), good("other"), toolRules=NO_ECHO)
            await engine.reload()
            after = await pid_of(engine, "good")

        assert after == before

    @pytest.mark.requirement("LIB-50")
    @pytest.mark.parametrize(
        "then",
        [
            pytest.param([], id="removed"),
            pytest.param([good(enabled=False)], id="disabled"),
            pytest.param([good(env={"A": "b"})], id="reached in another way"),
        ],
    )
    async def test_a_server_that_is_not_reached_so_any_more_is_ended(
        self, folder: Folder, then: list[ServerSettings]
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            pid = await pid_of(engine, "good")
            folder.write(*then)
            await engine.reload()
            await eventually(lambda: not is_running(pid))

    @pytest.mark.requirement("LIB-51")
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

    @pytest.mark.requirement("LIB-52")
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

    @pytest.mark.requirement("LIB-53")
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

    @pytest.mark.requirement("LIB-53")
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

    async with folder.open() as gateway, open_task_group() as tasks:
        tasks.start_soon(gateway.run_maintenance)
        await eventually(lambda: shown(gateway) == ["told:ping"])
        told.says(ping, pong)
        async with folder.open() as command:
            await command.refresh(["told"])

        await eventually(lambda: shown(gateway) == ["told:ping", "told:pong"])
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("HEA-30")
async def test_all_processes_agree_on_what_the_last_try_of_a_server_has_shown(
    folder: Folder,
) -> None:
    told = Told.beside(folder.path, make_definition("ping", "Answer at once."))
    database = folder.path / "database"
    start = ('[ -e "$0" ] || { echo no database >&2; exit 3; }; exec "$@"', str(database))
    server = program("told", "/bin/sh", "-c", *start, *told.command)
    folder.write(replace(server, transport=replace(server.transport, env={"TOKEN": "${TOKEN}"})))
    environ = {**os.environ, "TOKEN": "t"}
    database.touch()

    async def execute(engine: Engine) -> None:
        with suppress(UpstreamError):
            await engine.execute("told", "ping", {})

    def shown(view: View | None) -> tuple[bool, str, str]:
        assert view
        server = summary(view, "told")
        return server.is_healthy, server.reason, server.stderr

    def stored() -> tuple[bool, str, str]:
        return shown(stored_view(folder.config, data_dir=folder.data, environ=environ))

    async with folder.open(environ=environ) as command:
        await command.refresh()
    async with folder.open(environ=environ) as gateway, open_task_group() as tasks:
        tasks.start_soon(gateway.run_maintenance)
        for is_up, tries, is_gateway in (
            (False, Engine.refresh, False),
            (True, execute, False),
            (False, execute, False),
            (True, Engine.probe, False),
            (False, Engine.probe, False),
            (True, Engine.refresh, False),
            (False, execute, True),
            (True, execute, False),
            (False, Engine.refresh, False),
            (True, Engine.probe, True),
        ):
            database.touch() if is_up else database.unlink()
            async with folder.open(environ=environ) as command:
                engine = gateway if is_gateway else command
                await tries(engine)
                expected = shown(engine.view)

            assert expected == (True, "", "") if is_up else not expected[0] and expected[2]
            assert stored() == expected, tries
            await eventually(lambda: shown(gateway.view) == expected)  # noqa: B023
        async with folder.open() as lacking:
            await lacking.refresh()
            assert summary(lacking.view, "told").state is ServerState.NEEDS_CONFIG
        await gateway.apply_decisions()
        assert shown(gateway.view) == expected
        tasks.cancel_scope.cancel()
