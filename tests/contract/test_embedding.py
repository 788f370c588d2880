"""The tools of an engine for an agent framework: `engine.toolset()`."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from discovery_engine import CallbackClient, Engine, Toolset
from discovery_engine.errors import InvalidArgumentsError, ToolNotFoundError
from tests.agents import text_of
from tests.catalogs import JSONObject, schema, tool
from tests.engines import Folder, good, pid_of
from tests.servers.programs import fault_server
from tests.told import Told

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}
CREATE = {
    "title": {**TEXT, "description": "Its title"},
    "labels": {"type": "array", "items": TEXT},
    "state": {"enum": ["open", "closed"]},
    "size": {"type": ["integer", "null"]},
    "deep": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
    "$top": {"type": "integer"},
    "class": {},
}
ISSUE = tool("create_issue", "Create an issue.", inputSchema=schema("title", **CREATE))
GITHUB = [ISSUE, tool("add_label", "Add a label to an issue."), tool("t" * 100, "word " * 400)]
FORECAST = tool("forecast", "Get the weather forecast of a city.")
SEARCH = ["search_tools", "read_result"]


@asynccontextmanager
async def world(folder: Folder, **sections: Any) -> AsyncIterator[Engine]:
    for name in ("github", "sky"):
        (folder.path / name).mkdir()
    results = {"create_issue": {"content": [], "structuredContent": {"n": 1}}}
    github = Told.beside(folder.path / "github", *GITHUB, results=results)
    sky = Told.beside(folder.path / "sky", FORECAST)
    folder.write(github.server("github"), sky.server("sky"), **sections)
    async with folder.open() as engine:
        await engine.refresh()
        yield engine


def sky(folder: Folder) -> Told:
    return Told(folder.path / "sky" / "told.json")


def github(folder: Folder) -> Told:
    return Told(folder.path / "github" / "told.json")


def names(tools: list[Any]) -> list[str]:
    return [tool.name for tool in tools]


def bytes_of(tools: Toolset) -> str:
    return json.dumps([tools.as_openai_functions(), tools.as_anthropic_tools(defer=False)])


@pytest.mark.requirement("FRM-1", "FRM-20")
async def test_names_and_descriptions_are_as_the_apis_take_them(folder: Folder) -> None:
    async with world(folder, server={"maxToolNameLength": 200}) as engine:
        tools = engine.toolset(mode="select")
        [long] = [one for one in tools.available() if "ttt" in one.name]
        tools.use(long.name)
        chat = tools.as_openai_functions()[-1]
        responses = tools.as_openai_functions(api="responses")[-1]
        result = await long.call({})

    assert len(long.name) == 64
    assert text_of(result) == "t" * 100
    assert chat.keys() == {"type", "function"}
    assert len(chat["function"]["description"]) <= 1024
    assert responses == {"type": "function", **chat["function"], "strict": False}


@pytest.mark.requirement("FRM-20")
async def test_tools_for_anthropic_are_all_there_and_deferred(folder: Folder) -> None:
    async with world(folder) as engine:
        forms = engine.toolset(mode="select").as_anthropic_tools()

    deferred = [form["name"] for form in forms if form.get("defer_loading")]
    assert [form["name"] for form in forms if form["name"] not in deferred] == SEARCH
    assert {"github__add_label", "github__create_issue", "sky__forecast"} < {*deferred}


@pytest.mark.requirement("FRM-2")
async def test_meta_tools_are_the_same_bytes_whatever_servers_there_are(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset()
        before = bytes_of(tools)
        await tools.select("weather forecast of a city")
        await engine.forget()

        assert bytes_of(tools) == before
        assert names(tools.tools())[:2] == ["list_mcp_servers", "search_tools"]


@pytest.mark.requirement("FRM-3")
async def test_tools_that_fit_are_bound_behind_the_search_and_stay_in_their_order(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        assert names(tools.tools()) == SEARCH
        selected = await tools.select("get the weather forecast of a city")
        first = tools.as_openai_functions()
        answer = await tools.call_as_result("search_tools", '{"query": "create an issue"}')

        assert names(selected) == ["sky__forecast"]
        assert names(tools.tools())[:4] == [*SEARCH, "sky__forecast", "github__create_issue"]
        assert tools.as_openai_functions()[:3] == first
        assert "github__create_issue" in text_of(answer)
        assert names(await tools.search("add a label", limit=1)) == ["github__add_label"]
        assert names(tools.fresh().tools()) == SEARCH


@pytest.mark.requirement("FRM-3")
async def test_beyond_the_limit_the_tool_leaves_that_was_not_called_lately(folder: Folder) -> None:
    async with world(folder, server={"steps": True}) as engine:
        tools = engine.toolset(mode="select", limit=2)
        await tools.select("forecast", limit=1)
        await tools.select("add_label", limit=1)
        await tools.named("sky__forecast").call({})
        await tools.select("create_issue", limit=1)
        called = names(tools.tools())
        steps = [{"id": "a", "tool": "sky__forecast"}]
        await tools.call_as_result("execute_steps", {"steps": steps})
        await tools.select("add_label", limit=1)

        assert called == [*SEARCH, "execute_steps", "sky__forecast", "github__create_issue"]
        assert names(tools.tools()) == [*called[:-1], "github__add_label"]


@pytest.mark.requirement("FRM-7")
async def test_a_toolset_has_what_its_view_shows_and_what_is_exposed_and_pinned(
    folder: Folder,
) -> None:
    views, serving = {"air": {"servers": ["sky"]}}, {"expose": ["!add_label"], "pins": ["forecast"]}
    async with world(folder, views=views, server=serving) as engine:
        tools, whole = (engine.toolset(view=view, mode="select") for view in ("air", None))
        called = {"server": "github", "tool": "create_issue", "arguments": {"title": "x"}}
        refused = await engine.toolset(view="air").call_as_result("execute_tool", called)

        assert names(tools.available()) == ["sky__forecast"]
        assert await tools.select("create an issue in a repository") == tools.tools()[2:]
        with pytest.raises(ToolNotFoundError):
            tools.named("github__create_issue")
        assert "SERVER_NOT_FOUND" in text_of(refused)
        assert names(whole.tools()) == [*SEARCH, "sky__forecast"]
        assert "github__add_label" not in names(whole.available())


@pytest.mark.requirement("FRM-9")
async def test_a_conversation_is_replayed_to_the_same_tools(folder: Folder) -> None:
    async with world(folder) as engine:
        made = engine.toolset(mode="select")
        history = ["weather forecast", ("search_tools", {"query": "create an issue"})]
        begun = await made.replay(history)  # type: ignore[arg-type]
        again = await made.replay([*history, ("github__add_label", {})])  # type: ignore[list-item]

        assert names(begun.tools())[2:4] == ["sky__forecast", "github__create_issue"]
        assert again.as_openai_functions()[:4] == begun.as_openai_functions()[:4]
        assert "github__add_label" in names(again.tools())
        assert names(made.tools()) == SEARCH


@pytest.mark.requirement("FRM-10")
async def test_a_program_gets_exceptions_and_a_model_text_that_it_can_act_on(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        with pytest.raises(InvalidArgumentsError):
            await tools.named("github__create_issue").call({"labels": []})
        refused = await tools.call_as_result("github__create_issue", {"labels": []})
        unknown = await tools.call_as_result("github__create_isue", None)
        not_json = await tools.call_as_result("github__create_issue", "{title")

    assert refused["isError"]
    assert text_of(refused).startswith("INVALID_ARGUMENTS: ")
    assert "title is missing" in text_of(refused)
    assert "did you mean 'github__create_issue'" in text_of(unknown)
    assert "must be a JSON object" in text_of(not_json)


@pytest.mark.requirement("FRM-12")
async def test_a_question_goes_to_the_client_of_the_toolset_or_of_the_call(folder: Folder) -> None:
    folder.write(fault_server("asks", name="s", program="asking_server.py"))
    asked: list[str] = []

    def client(name: str) -> CallbackClient:
        async def ask(method: str, _: JSONObject) -> JSONObject:
            asked.append(f"{name}: {method}")
            return {"action": "decline"}

        return CallbackClient(ask, id=name, capabilities={"elicitation": {"form": {}}})

    async with folder.open() as engine:
        await engine.refresh()
        tools = engine.toolset(mode="select", client=client("ann"))
        [echo] = [one for one in tools.available() if one.name.endswith("echo")]
        await echo.call({})
        await echo.call({}, client=client("bob"))

    assert asked == ["ann: elicitation/create", "bob: elicitation/create"]


@pytest.mark.requirement("FRM-13")
async def test_a_changed_catalog_is_used_in_the_next_turn(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        await tools.select("create an issue")
        await tools.select("weather forecast of a city")
        gone = tools.named("sky__forecast")
        before = tools.as_openai_functions()
        sky(folder).says(tool("sunrise", "Get the sunrise."))
        await engine.refresh()

        assert tools.as_openai_functions() == [
            one for one in before if one["function"]["name"] != "sky__forecast"
        ]
        assert "sky__sunrise" in names(await tools.select("when is sunrise"))
        with pytest.raises(ToolNotFoundError):
            await gone.call({})
        assert (await gone.call_as_result({}))["isError"]


@pytest.mark.requirement("FRM-14")
async def test_two_agents_on_one_engine_share_no_list_and_have_sessions_of_their_own(
    folder: Folder,
) -> None:
    folder.write(good(session="per_client"))
    async with folder.open() as engine:
        await engine.refresh()
        ann, bob = (
            engine.toolset(mode="select", client=CallbackClient(id=name)) for name in ("ann", "bob")
        )
        ann.use("good__pid")
        pids = [text_of(await one.named("good__pid").call({})) for one in (ann, bob)]

        assert names(ann.tools())[2:] == ["good__pid"]
        assert names(bob.tools())[2:] == []
        assert pids[0] != pids[1]
        assert int(pids[0]) == await pid_of(engine, "good", "ann")


@pytest.mark.requirement("FRM-14")
async def test_the_search_of_an_api_is_answered_with_tools_and_binds_none(folder: Folder) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        tools.use("github__add_label")
        before = bytes_of(tools)
        answer, new = await tools.answer_search({"queries": ["create an issue", "add a label"]})
        mistake, none = await tools.answer_search('{"query": 5')

        assert bytes_of(tools) == before
    assert not answer.get("isError")
    assert names(new)[0] == "github__create_issue"
    assert "github__add_label" not in names(new)  # it is listed
    assert (mistake["isError"], none) == (True, [])


@pytest.mark.requirement("FRM-5", "FRM-22", "FRM-100")
async def test_a_function_has_a_name_a_docstring_and_a_signature_from_the_schema(
    folder: Folder,
) -> None:
    async with world(folder) as engine:
        tools = engine.toolset(mode="select")
        tools.use("github__create_issue")
        function = tools.as_callables()[-1]
        text = await function("A", labels=None, class_={}, top=3)
        refused = await function(title=1)
        sent = github(folder).called_with

    assert inspect.iscoroutinefunction(function)
    assert function.__name__ == "github__create_issue"  # type: ignore[attr-defined]
    assert function.__doc__
    assert function.__doc__.startswith("Create an issue.\n\nArgs:\n    title: Its title\n")
    parameters = inspect.signature(function).parameters
    assert {name: one.annotation for name, one in parameters.items()} == {
        "title": str,
        "labels": list[str] | None,
        "state": Literal["open", "closed"] | None,
        "size": int | None,
        "deep": float | bool | None,
        "top": int | None,
        "class_": Any,
    }
    assert text == '{"n": 1}'
    assert sent == [{"title": "A", "class": {}, "$top": 3}]
    assert "INVALID_ARGUMENTS" in refused
