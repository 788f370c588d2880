"""The engine: what its verbs do at the edges, on real child processes."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from discovery_engine.config.settings import Settings
from discovery_engine.engine import open_engine
from discovery_engine.errors import ServerDisabledError, ServerNotFoundError
from discovery_engine.events import ServerConnected, ServerConnecting, ServerFailed, ToolCalled
from discovery_engine.upstream.state import ServerState
from tests.engines import (
    Changing,
    Folder,
    Gate,
    broken,
    good,
    heard,
    pid_of,
    program,
    summary,
    tool_names,
)
from tests.servers.programs import descendants, eventually, fault_server, is_running, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class TestOpening:
    async def test_settings_may_be_given_as_a_value(self, tmp_path: Path) -> None:
        settings = Settings(servers=(good(),))

        async with open_engine(settings, data_dir=tmp_path) as engine:
            pid = await pid_of(engine, "good")
            await engine.reload()

            assert engine.settings is settings
            assert await pid_of(engine, "good") == pid

    async def test_leaving_ends_every_program_even_one_that_hangs(self, folder: Folder) -> None:
        folder.write(fault_server("hang_start", name="hanging"), good())
        before = descendants()

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.refresh)
                await heard(events, ServerConnecting, "hanging")
                await heard(events, ServerConnected, "good")
            started = descendants() - before
            tasks.cancel_scope.cancel()

        assert len(started) >= 2
        await eventually(lambda: not any(map(is_running, started)))

    async def test_an_error_inside_comes_out_as_itself(self, folder: Folder) -> None:
        folder.write(good())

        async def fail() -> None:
            async with folder.open() as engine:
                await engine.refresh()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()


class TestStatus:
    async def test_a_server_goes_from_pending_by_starting_to_ready(self, folder: Folder) -> None:
        gate = Gate(folder.path / "gate")
        folder.write(gate.before(good()))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            seen = [summary(engine.view, "good").state]
            with engine.subscribe() as events:
                tasks.start_soon(engine.refresh)
                await heard(events, ServerConnecting)
                seen.append(summary(engine.view, "good").state)
                gate.open()
                await heard(events, ServerConnected)
            await anyio.wait_all_tasks_blocked()
            seen.append(summary(engine.view, "good").state)

        assert seen == [ServerState.PENDING, ServerState.STARTING, ServerState.READY]

    async def test_a_server_that_went_away_is_idle_and_starts_again_when_called(
        self, folder: Folder
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            pid = await pid_of(engine, "good")
            os.kill(pid, 9)
            await eventually(lambda: summary(engine.view, "good").state is ServerState.IDLE)

            assert await pid_of(engine, "good") != pid


class TestRefresh:
    async def test_a_disabled_engine_lists_no_server(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"), enabled=False)

        async with folder.open() as engine:
            report = await engine.refresh()
            with pytest.raises(ServerDisabledError):
                await engine.refresh(["clock"])

        assert report.servers == ()
        assert changing.asked == 0

    async def test_a_server_that_is_named_twice_is_asked_and_reported_once(
        self, folder: Folder
    ) -> None:
        folder.write(good())

        async with folder.open() as engine:
            report = await engine.refresh(["good", "good"])

        assert report.servers == (("good", None),)

    async def test_an_unknown_server_is_refused_before_any_is_asked(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"))

        async with folder.open() as engine:
            with pytest.raises(ServerNotFoundError):
                await engine.refresh(["clock", "nobody"])

        assert changing.asked == 0

    async def test_a_server_that_failed_is_due_again_after_a_minute(self, folder: Folder) -> None:
        folder.write(broken(good()))
        now = 1000.0

        async with folder.open(clock=lambda: now) as engine:
            reports = [await engine.refresh(only_due=True)]
            now = 1059.0
            reports.append(await engine.refresh(only_due=True))
            now = 1060.0
            reports.append(await engine.refresh(only_due=True))

        assert [len(report.servers) for report in reports] == [1, 0, 1]

    async def test_a_failure_is_reported_with_its_code(self, folder: Folder) -> None:
        folder.write(program("dead", "no-such-program-anywhere"))

        async with folder.open() as engine:
            with engine.subscribe() as events:
                await engine.refresh()
                event = await heard(events, ServerFailed)

        assert event.code == "SERVER_CONNECTION_ERROR"
        assert "no-such-program-anywhere" in event.message

    async def test_a_server_that_lists_again_is_no_longer_failing(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"))
        async with folder.open() as engine:
            changing.file.unlink()
            await engine.refresh()
            failing = summary(engine.view, "clock")
            changing.has("b")
            await engine.refresh()
            well = summary(engine.view, "clock")

        assert failing.state is ServerState.FAILING
        assert (well.state, well.reason) == (ServerState.READY, "")
        assert not well.is_stale


class TestKeepFresh:
    async def test_a_dead_server_does_not_end_it(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "announce")
        folder.write(changing.server("clock"), program("dead", "no-such-program-anywhere"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            with engine.subscribe() as events:
                tasks.start_soon(engine.run_maintenance)
                await heard(events, ServerFailed, "dead")
                await engine.list_tools("clock")
                changing.has("announce", "new")
                await engine.execute("clock", "announce", {})
                while "new" not in tool_names(engine.view, "clock"):
                    await heard(events, ServerConnected, "clock")
            tasks.cancel_scope.cancel()


class TestExecute:
    async def test_callers_at_the_same_time_share_one_process(self, folder: Folder) -> None:
        folder.write(good())
        pids: set[int] = set()

        async def call() -> None:
            pids.add(await pid_of(engine, "good"))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call)

        assert len(pids) == 1

    async def test_a_call_that_is_given_up_is_reported_as_cancelled(self, folder: Folder) -> None:
        folder.write(Changing.beside(folder.path, "hang").server("clock"))

        async with folder.open() as engine:
            await engine.refresh()
            with engine.subscribe() as events:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(engine.execute, "clock", "hang", {})
                    await anyio.wait_all_tasks_blocked()
                    tasks.cancel_scope.cancel()
                called = await heard(events, ToolCalled)

        assert called.outcome == "cancelled"

    async def test_a_tool_of_a_stale_server_is_called_all_the_same(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"))

        async with folder.open() as engine:
            await engine.refresh()
            changing.file.unlink()
            await engine.refresh()
            changing.has("a")
            result = await engine.execute("clock", "a", {})

        assert int(text_of(result)) > 0


class TestForgetting:
    async def test_what_is_forgotten_is_asked_for_again(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a", "b")
        folder.write(changing.server("clock"))

        async with folder.open() as engine:
            await engine.refresh()
            count = await engine.forget(["clock"])
            empty = tool_names(engine.view, "clock")
            await engine.details("clock", "a")

        assert count == 2
        assert empty == []
        assert changing.asked == 2

    async def test_an_unknown_server_cannot_be_forgotten(self, folder: Folder) -> None:
        folder.write(good())

        async with folder.open() as engine:
            with pytest.raises(ServerNotFoundError):
                await engine.forget(["nobody"])
