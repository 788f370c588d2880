"""The engine: what the page specs/library.md promises, on real child processes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path

import anyio
import pytest

from discovery_engine import ServerState, open_engine
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    InvalidArgumentsError,
    ServerDisabledError,
    ServerNotFoundError,
    ToolNotFoundError,
    UnavailableError,
)
from discovery_engine.events import ServerConnected, ServerConnecting, ToolCalled
from tests.catalogs import JSONObject
from tests.engines import (
    Changing,
    Folder,
    broken,
    good,
    heard,
    pid_of,
    program,
    python,
    tool_names,
)
from tests.factories import make_definition
from tests.kinds import thinned
from tests.servers.programs import descendants, eventually, fault_server, is_running, text_of

pytestmark = pytest.mark.anyio


def wanting(argument: str) -> JSONObject:
    """A tool that cannot do without an argument."""
    schema = {"type": "object", "properties": {argument: {}}, "required": [argument]}
    return make_definition("send", inputSchema=schema)


def loaded(folder: Folder, tool: str) -> str:
    """A script that prints which modules of the SDK are loaded: once open, and after a call."""
    return f"""
import sys, anyio
from discovery_engine import open_engine

async def main():
    async with open_engine({str(folder.config)!r}, data_dir={str(folder.data)!r}) as engine:
        engine.view.servers()
        await engine.search("echo")
        print(sorted({{"httpx2", "mcp", "mcp_types"}} & set(sys.modules)))
        await engine.refresh()
        await engine.execute("good", {tool!r}, {{}})
        print(sorted({{"httpx2", "mcp", "mcp_types"}} & set(sys.modules)))

anyio.run(main)
"""


NO_ECHO = [{"pattern": "echo", "enabled": False}]


class TestOpening:
    @pytest.mark.requirement("LIB-1")
    async def test_opening_touches_no_server(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "a")
        folder.write(changing.server("clock"), good())
        before = descendants()

        async with folder.open() as engine:
            servers = engine.view.servers()
            answer = await engine.search("anything")
            started = descendants() - before

        assert [server.state for server in servers] == [ServerState.PENDING] * 2
        assert {notice.code for notice in answer.notices} >= {"SERVER_STARTING"}
        assert started == set()
        assert changing.asked == 0

    @pytest.mark.requirement("LIB-1")
    @pytest.mark.parametrize("era", thinned(["modern", "legacy"]))
    async def test_the_sdk_is_not_loaded_for_a_local_server(self, folder: Folder, era: str) -> None:
        folder.write(fault_server(name="good", era=era))

        printed = await python(loaded(folder, "echo"))

        assert printed.splitlines() == ["[]", "[]"]

    @pytest.mark.requirement("LIB-1")
    async def test_a_restart_answers_from_what_was_remembered(self, folder: Folder) -> None:
        changing = Changing.beside(folder.path, "tell_time", "set_time")
        folder.write(changing.server("clock"))
        async with folder.open() as engine:
            await engine.refresh()

        async with folder.open() as engine:
            answer = await engine.search("tell time")
            [server] = engine.view.servers()

        assert answer.hits[0].entry.tool.name == "tell_time"
        assert server.state is ServerState.IDLE
        assert server.listed_at is not None
        assert changing.asked == 1

    @pytest.mark.requirement("LIB-50")
    async def test_a_bad_configuration_is_refused_with_all_its_problems(
        self, folder: Folder
    ) -> None:
        folder.config.write_text("serverz: {}\nsearch: {limt: 3}\n", "utf-8")

        with pytest.raises(ConfigurationError) as caught:
            async with folder.open():
                pass

        assert len(caught.value.problems) == 2

    @pytest.mark.requirement("LIB-3")
    async def test_a_registry_that_cannot_be_used_costs_a_warning(
        self, folder: Folder, caplog: pytest.LogCaptureFixture
    ) -> None:
        folder.write(good())
        folder.data.write_text("a file where the folder should be", "utf-8")

        with caplog.at_level(logging.WARNING, "discovery_engine"):
            async with folder.open() as engine:
                await engine.refresh()
                listed = await engine.list_tools("good")

        assert len(listed.entries) == 3
        assert "Nothing will be remembered" in caplog.text

    @pytest.mark.requirement("LIB-3", "CAC-6")
    async def test_without_a_cache_nothing_is_remembered(self, folder: Folder) -> None:
        folder.write(good(), cache={"enabled": False})
        async with folder.open() as engine:
            await engine.refresh()
            assert tool_names(engine.view, "good")

        async with folder.open() as engine:
            assert tool_names(engine.view, "good") == []
        assert not folder.data.exists()

    @pytest.mark.requirement("LIB-1")
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


class TestReading:
    @pytest.mark.requirement("LIB-10")
    async def test_a_server_that_was_never_asked_is_asked_when_its_tools_are_wanted(
        self, folder: Folder
    ) -> None:
        folder.write(good("a"), good("b"), good("c"))

        async with folder.open() as engine:
            listed = await engine.list_tools("a")
            entry = await engine.details("b", "echo")
            result = await engine.execute(None, "c:echo", {"text": "hi"})

        assert [e.tool.name for e in listed.entries] == ["echo", "environment", "pid"]
        assert entry.tool.description == "The tool echo"
        assert json.loads(text_of(result)) == {"text": "hi"}

    @pytest.mark.requirement("LIB-11")
    async def test_an_outage_is_reported_and_never_looks_like_an_empty_list(
        self, folder: Folder
    ) -> None:
        folder.write(program("dead", "no-such-program-anywhere"))

        async with folder.open() as engine:
            with pytest.raises(UnavailableError, match="no-such-program-anywhere") as details:
                await engine.details("dead", "echo")
            with pytest.raises(UnavailableError, match="no-such-program-anywhere"):
                await engine.execute("dead", "echo", {})
            listed = await engine.list_tools("dead")

        assert details.value.server == "dead"
        assert [notice.code for notice in listed.notices] == ["SERVER_CONNECTION_ERROR"]
        assert "no-such-program-anywhere" in listed.notices[0].message

    @pytest.mark.requirement("LIB-11")
    async def test_a_server_that_comes_back_is_asked_again(self, folder: Folder) -> None:
        folder.write(broken(good()))
        async with folder.open() as engine:
            with pytest.raises(UnavailableError):
                await engine.details("good", "echo")

            folder.write(good())
            await engine.reload()

            assert (await engine.details("good", "echo")).tool.name == "echo"

    @pytest.mark.requirement("LIB-12")
    async def test_a_disabled_server_is_not_taken_for_one_without_the_tool(
        self, folder: Folder
    ) -> None:
        rules = [{"pattern": "ruled_out", "enabled": False}]
        folder.write(good("off", enabled=False), good("ruled_out"), serverRules=rules)

        async with folder.open() as engine:
            for server in ("off", "ruled_out"):
                with pytest.raises(ServerDisabledError):
                    await engine.details(server, "echo")
                with pytest.raises(ServerDisabledError):
                    await engine.list_tools(server)
                with pytest.raises(ServerDisabledError):
                    await engine.refresh([server])

    @pytest.mark.requirement("LIB-12")
    async def test_unknown_names_are_refused_with_the_nearest(self, folder: Folder) -> None:
        folder.write(good())

        async with folder.open() as engine:
            with pytest.raises(ServerNotFoundError) as server:
                await engine.list_tools("god")
            with pytest.raises(ToolNotFoundError) as tool:
                await engine.details("good", "eco")

        assert server.value.nearest == ("good",)
        assert tool.value.nearest == ("echo",)


class TestExecuting:
    @pytest.mark.requirement("LIB-20")
    async def test_a_result_comes_whole(self, folder: Folder) -> None:
        folder.write(fault_server("tool_error", name="odd"))

        async with folder.open() as engine:
            result = await engine.execute("odd", "echo", {})

        assert result["isError"] is True
        assert result["_meta"] == {"vendor": 1}
        assert text_of(result) == "it did not work"

    @pytest.mark.requirement("LIB-20")
    async def test_bad_arguments_are_refused_before_the_server_is_started(
        self, folder: Folder
    ) -> None:
        folder.write(good())
        async with folder.open() as engine:
            await engine.refresh()
        before = descendants()

        async with folder.open() as engine:
            with pytest.raises(InvalidArgumentsError) as caught:
                await engine.execute("good", "echo", {"text": 5})
            started = descendants() - before

        assert caught.value.signature == "echo(text?: string)"
        assert started == set()

    @pytest.mark.requirement("LIB-23")
    @pytest.mark.parametrize(
        ("mode", "outcome"),
        [
            pytest.param("ok", "ok", id="works"),
            pytest.param("tool_error", "tool_error", id="the tool fails"),
            pytest.param("refuses_call", "TOOL_EXECUTION_ERROR", id="the server refuses"),
            pytest.param("crash_call", "TOOL_OUTCOME_UNKNOWN", id="the server goes away"),
            pytest.param("ok", "INVALID_ARGUMENTS", id="it is refused before anything is sent"),
        ],
    )
    async def test_every_call_is_reported_with_its_outcome(
        self, folder: Folder, mode: str, outcome: str
    ) -> None:
        folder.write(fault_server(mode, name="odd"))

        async with folder.open() as engine:
            await engine.refresh()
            with engine.subscribe() as events:
                with contextlib.suppress(DiscoveryError):
                    given = {"text": 1} if outcome == "INVALID_ARGUMENTS" else {}
                    await engine.execute("odd", "echo", given)
                called = await heard(events, ToolCalled)

        assert (called.server, called.tool, called.outcome) == ("odd", "echo", outcome)
        assert called.seconds >= 0

    @pytest.mark.requirement("LIB-12")
    async def test_errors_of_one_failure_name_the_tool_of_each_caller(self, folder: Folder) -> None:
        folder.write(broken(good("dead")), good("off", enabled=False))
        told: set[tuple[str | None, str | None]] = set()

        async def want(server: str, tool: str) -> None:
            with pytest.raises(DiscoveryError) as caught:
                await engine.execute(server, tool, {})
            told.add((caught.value.server, caught.value.tool))

        async with folder.open() as engine, anyio.create_task_group() as tasks:
            for tool in ("a", "b"):
                tasks.start_soon(want, "dead", tool)
            tasks.start_soon(want, "off", "c")
            tasks.start_soon(want, "nowhere", "d")

        assert told == {("dead", "a"), ("dead", "b"), ("off", "c"), ("nowhere", "d")}

    @pytest.mark.requirement("LIB-24")
    async def test_clients_have_sessions_of_their_own_where_that_is_asked_for(
        self, folder: Folder
    ) -> None:
        folder.write(good("own", session="per_client"), good("shared"))

        async with folder.open() as engine:
            own = [await pid_of(engine, "own", client) for client in ("x", "y", "x")]
            shared = [await pid_of(engine, "shared", client) for client in ("x", "y")]

        assert own[0] == own[2] != own[1]
        assert shared[0] == shared[1]


class TestSeveralEngines:
    @pytest.mark.requirement("LIB-60")
    async def test_two_engines_share_what_is_remembered(self, folder: Folder) -> None:
        folder.write(good("a"), good("b"))

        async with folder.open() as one, folder.open() as two:
            await one.refresh(["a"])
            await two.refresh(["b"])
            seen = [tool_names(one.view, "a"), tool_names(two.view, "b")]
        async with folder.open() as third:
            remembered = [tool_names(third.view, name) for name in ("a", "b")]

        assert seen == remembered
        assert all(remembered)

    @pytest.mark.requirement("LIB-60")
    async def test_two_configurations_do_not_mix(self, tmp_path: Path) -> None:
        one, two = Folder(tmp_path / "one"), Folder(tmp_path / "two")
        for folder in (one, two):
            folder.path.mkdir()
            folder.write(good())
        environ = {**os.environ, "DISCOVERY_DATA_DIR": str(tmp_path / "data")}
        async with open_engine(one.config, environ=environ) as engine:
            await engine.refresh()
        async with open_engine(two.config, environ=environ) as engine:
            assert tool_names(engine.view, "good") == []
