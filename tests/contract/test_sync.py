"""The engine without `async`: `discovery_engine.sync`."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from discovery_engine.errors import ToolNotFoundError
from discovery_engine.events import ToolCalled
from discovery_engine.sync import SyncClient, SyncEngine, open_engine
from tests.catalogs import JSONObject
from tests.engines import Folder, good
from tests.servers.programs import fault_server, text_of


@contextmanager
def opened(folder: Folder, *servers: Any, **sections: Any) -> Iterator[SyncEngine]:
    folder.write(*(servers or (good(),)), **sections)
    with open_engine(folder.config, data_dir=folder.data) as engine:
        engine.refresh()
        yield engine


@pytest.mark.requirement("LIB-90")
def test_a_script_searches_inspects_and_calls(folder: Folder) -> None:
    with opened(folder) as engine:
        best = engine.search("echo").hits[0].entry.tool
        assert engine.details(best.server, best.name).key == best.key
        assert engine.list_tools("good").entries
        assert engine.view.servers()[0].name == "good"
        assert engine.settings.servers
        assert engine.has_listings
        assert engine.is_listed("good")
        assert [server.name for server in engine.health()] == ["good"]
        assert engine.trust.candidates() == ()
        assert engine.review.changes() == {}
        result = engine.execute(best.server, best.name, {"text": "hello"})
        with pytest.raises(ToolNotFoundError):
            engine.execute("good", "ech", {})

    assert text_of(result) == '{"text": "hello"}'


@pytest.mark.requirement("LIB-92")
def test_progress_and_questions_come_to_the_thread_that_waits(folder: Folder) -> None:
    seen: list[tuple[float, int]] = []
    asked: list[tuple[str, int]] = []

    def ask(method: str, params: JSONObject) -> JSONObject:
        asked.append((method, threading.get_ident()))
        return {"action": "decline"}

    asks = fault_server("asks", name="asks", program="asking_server.py")
    client = SyncClient(ask, capabilities={"elicitation": {"form": {}}})
    here = threading.get_ident()
    with opened(folder, fault_server("progress", name="p"), asks) as engine:
        engine.execute(
            "p",
            "echo",
            {"text": "x"},
            on_progress=lambda progress, *_: seen.append((progress, threading.get_ident())),
        )
        engine.execute("asks", "echo", {}, caller=client)
        tools = engine.toolset(mode="select", client=client)
        tools.call_as_result("asks__echo", {})

    assert [thread for _, thread in seen] == [here] * 3
    assert [value for value, _ in seen] == sorted(value for value, _ in seen)
    assert asked == [("elicitation/create", here)] * 2


@pytest.mark.requirement("LIB-92")
def test_ctrl_c_cancels_the_call_and_the_engine_is_used_on(folder: Folder) -> None:
    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with (
        opened(folder, fault_server("awaits_file", name="w"), good()) as engine,
        engine.subscribe(ToolCalled) as events,
    ):
        never = {"text": str(folder.path / "never")}
        with pytest.raises(KeyboardInterrupt):
            engine.execute("w", "echo", never, on_progress=interrupt)

        assert next(events).outcome == "cancelled"
        assert text_of(engine.execute("good", "echo", {"text": "x"})) == '{"text": "x"}'


@pytest.mark.requirement("LIB-90")
def test_it_works_where_a_loop_runs_already_as_in_a_notebook(folder: Folder) -> None:
    async def cell() -> str:
        with opened(folder) as engine:
            return text_of(engine.execute("good", "echo", {"text": "x"}))

    assert asyncio.run(cell()) == '{"text": "x"}'


@pytest.mark.requirement("LIB-90")
def test_a_toolset_is_that_of_the_engine_with_plain_calls(folder: Folder) -> None:
    with opened(folder, views={"none": {"servers": ["!*"]}}) as engine:
        tools = engine.toolset(mode="select", limit=2)
        assert [tool.name for tool in tools.select("echo a text")] == ["good__echo"]
        assert text_of(tools.named("good__echo").call({"text": "x"})) == '{"text": "x"}'
        assert tools.call_as_result("good__ech", "{}")["isError"]
        assert [tool.name for tool in tools.search("echo")] == ["good__echo"]
        assert len(tools.available()) == 3
        assert tools.as_openai_functions()[-1]["function"]["name"] == "good__echo"
        assert len(tools.as_openai_functions(api="responses")) == 3
        assert len(tools.as_anthropic_tools()) == 5
        [*_, function] = tools.as_callables()
        assert not inspect.iscoroutinefunction(inspect.unwrap(function))
        assert function(text="y") == '{"text": "y"}'
        assert list(inspect.signature(function).parameters) == ["text"]
        assert "Servers:" in tools.instructions()
        tools.wait_listed()
        replayed = tools.replay(["echo a text", ("good__pid", {})])
        assert [tool.name for tool in replayed.tools()[2:]] == ["good__echo", "good__pid"]
        fresh = tools.fresh()
        fresh.use("good__pid")
        tool = fresh.tools()[-1]
        assert (tool.name, tool.title, tool.annotations) == ("good__pid", None, {})
        assert (tool.output_schema, tool.description) == (None, "The tool pid")
        assert tool.parameters["type"] == "object"
        assert str(tool.origin) == "good:pid"
        assert (fresh.mode, fresh.limit) == ("select", 2)
        assert engine.toolset(view="none", mode="select").available() == []
        assert engine.in_view("none").toolset(mode="select").available() == []
